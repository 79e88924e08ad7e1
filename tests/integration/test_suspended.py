"""A suspended job that goes on elsewhere (R29), with every service, real processes, and two nodes of one simulated GPU each."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import psutil

from tests.integration.machine import HEADRACE, Machine

DOCUMENTS = """
groups: [{name: rnd, members: [alice]}]
pools: [{name: onprem, selector: {site: hq}}]
profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}]
policies:
  - {name: own, group: rnd, profiles: [one], reservation: {gpu: 2}}
  - {name: low, group: rnd, profiles: [one], preemption: {on_preempt: suspend, callback_grace: 0s, term_grace: 5s}}
"""
TRAINS = """
if [ -n "$HEADRACE_RESUME_FROM" ]; then echo "goes on from $(cat "$HEADRACE_RESUME_FROM")"; exec sleep 601; fi
echo 41 > "$HEADRACE_CHECKPOINT_DIR/step.tmp"; mv "$HEADRACE_CHECKPOINT_DIR/step.tmp" "$HEADRACE_CHECKPOINT_DIR/step"
exec sleep 600
"""


def submit(place: Machine, queue: str, script: str) -> str:
    return place.done("submit", "--queue", queue, "--user", "alice", "--", "sh", "-c", script).strip()


def node_of(job: dict[str, Any]) -> str:
    node: str = job["attempts"][-1]["nodes"][0]
    return node


def statuses(place: Machine, *command: str) -> list[str]:
    """The states of the processes below the data directory's nodes that run a command."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.cmdline() == list(command) and str(place.data) in process.environ().get(
                "HEADRACE_CONTROL_DIR", ""
            )
            found += [process.status()] if is_ours else []
        except psutil.Error:
            continue
    return found


def test_a_suspended_job_goes_on_at_another_node_from_its_checkpoint_when_that_is_idle(place: Machine) -> None:
    place.up("--nodes", "2", "--gpus", "1")
    with open(place.documents, "w", encoding="utf-8") as file:
        file.write(DOCUMENTS)
    place.done("apply", "-f", place.documents)
    first = submit(place, "own/one", place.goes_on_until_released)
    place.until_state(first, "running")
    trains = submit(place, "low/one", TRAINS)
    place.until_state(trains, "running")
    place.until(lambda: bool(place.job(trains).get("checkpoint")))
    second = submit(place, "own/one", "sleep 602")
    place.until_state(second, "running")
    place.until_state(trains, "suspended")
    here, there = node_of(place.job(trains)), node_of(place.job(first))
    assert node_of(place.job(second)) == here
    assert statuses(place, "sleep", "600") == [psutil.STATUS_STOPPED]
    why = json.loads(place.done("why", trains, "--json"))
    assert "it goes on elsewhere, from its checkpoint, as soon as it is given another place" in why["message"]
    assert "it is stopped and waits in line again at " in why["message"]

    place.released.touch()

    place.until(lambda: [one["cause"] for one in place.job(trains)["attempts"]] == ["moved", ""])
    place.until_state(trains, "running")
    job = place.job(trains)
    assert (node_of(job), job["preemptions"], place.job(second)["state"]) == (there, 1, "running")
    place.until(lambda: "goes on from 41" in place.done("logs", trains))
    assert (statuses(place, "sleep", "600"), len(statuses(place, "sleep", "601"))) == ([], 1)
    verified = subprocess.run((*HEADRACE, "audit", "verify", "--data", str(place.data)), capture_output=True, check=False)
    assert verified.returncode == 0, verified.stdout
