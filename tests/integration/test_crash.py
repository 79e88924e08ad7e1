"""Everything dies at once, as after the supervisor's kill -9, and comes back by itself: nobody has to uncordon a node (R36)."""

from __future__ import annotations

import json
import os
import signal

from tests.integration.machine import Machine


def test_after_kill_9_of_the_supervisor_of_three_servers_jobs_run_again_by_themselves(machine: Machine) -> None:
    machine.up("--nats-servers", "3")
    machine.done("apply", "-f", machine.documents)
    jobs = [machine.submit(machine.goes_on_until_released) for _ in range(6)]
    machine.until_state(jobs[1], "running")

    os.kill(json.loads((machine.data / "running.json").read_text())["pid"], signal.SIGKILL)
    machine.until(lambda: not any(process.name() in ("nats-server", "postgres") for process in machine.processes()))

    machine.up()
    jobs += [machine.submit(machine.goes_on_until_released) for _ in range(2)]
    machine.until(lambda: sum(machine.job(job)["state"] == "running" for job in jobs) == 2)
    (node,) = json.loads(machine.done("nodes", "--json"))
    assert node.get("cordoned", "") == "", node
    machine.released.touch()
    for job in jobs:
        machine.until_state(job, "succeeded")
