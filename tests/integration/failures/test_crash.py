"""Everything dies at once, as after the supervisor's kill -9, and comes back by itself: no node has to be uncordoned (R36)."""

from __future__ import annotations

import json
import os
import signal

from tests.integration.machine import Machine


def test_after_kill_9_of_the_supervisor_of_three_servers_jobs_run_again_by_themselves(place: Machine) -> None:
    place.up("--nats-servers", "3")
    place.done("apply", "-f", place.documents)
    jobs = [place.submit(place.goes_on_until_released) for _ in range(6)]
    place.until_state(jobs[1], "running")

    os.kill(json.loads((place.data / "running.json").read_text())["pid"], signal.SIGKILL)
    place.until(lambda: not any(process.name() in ("nats-server", "postgres") for process in place.processes()))

    place.up()
    jobs += [place.submit(place.goes_on_until_released) for _ in range(2)]
    place.until(lambda: sum(place.job(job)["state"] == "running" for job in jobs) == 2)
    (node,) = json.loads(place.done("nodes", "--json"))
    assert node.get("cordoned", "") == "", node
    place.released.touch()
    for job in jobs:
        place.until_state(job, "succeeded")
