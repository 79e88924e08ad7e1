"""What the rules alone make of Kueue's *baseline* (P8): one of its cohorts by `headrace simulate`, in virtual time, without any delay.

What is worse than the optimum here is what the rules want (R15: who is inside its reservation goes first); what is worse than this in
`kueue.py` is the time between an end and the next start.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.kueue import DESCRIPTIONS, NOMINAL, SCENARIOS, Scenario, documents, due
from bench.options import options

MILLISECONDS, MICROSECONDS = 1_000, 1_000_000
AFTER = 60.0
"""Seconds behind the last submit until which the play goes on."""


def scenario_file(scenario: Scenario) -> dict[str, Any]:
    """A cohort as a scenario, its workloads named by class: `large-17`."""
    written: dict[str, Any] = {}
    for part in documents(scenario, "0s"):
        written |= json.loads(part)
    written["nodes"] = [{"name": "c0", "labels": {"site": "c0"}, "gpus": scenario.gpus}]
    timeline: list[dict[str, Any]] = [
        {
            "at": f"{one.at * MILLISECONDS:.0f}ms",
            "submit": {
                "name": f"{one.what.name}-{number}",
                "queue": one.queue,
                "user": "bench",
                "duration": f"{one.what.lasts * MILLISECONDS:.0f}ms",
            },
        }
        for number, one in enumerate(due(scenario))
    ]
    end = max(one.at for one in due(scenario)) + AFTER
    return written | {"timeline": [*timeline, {"at": f"{end * MILLISECONDS:.0f}ms", "expect": {}}]}


def figures(scenario: Scenario, records: list[dict[str, Any]]) -> dict[str, float]:
    """As `kueue.py` has them, out of the facts of a play."""
    came: dict[str, tuple[int, str]] = {}
    started: dict[str, int] = {}
    last = preemptions = 0
    for record in records:
        for fact in record["facts"]:
            match fact["type"]:
                case "job.admitted.v1":
                    came[fact["job"]] = record["at"], fact["profile"].removeprefix("c0-")
                case "lease.started.v1":
                    started.setdefault(fact["job"], record["at"])
                case "lease.ended.v1":
                    last = max(last, record["at"])
                case "preemption.ordered.v1":
                    preemptions += 1
    waits: dict[str, list[float]] = defaultdict(list)
    for job, (at, name) in came.items():
        waits[f"{name}_s"].append((started[job] - at) / MICROSECONDS)
    first = min(at for at, _ in came.values())
    makespan = (last - first) / MICROSECONDS
    work = sum(one.what.gpus * one.what.lasts for one in due(scenario))
    found = {"makespan_s": makespan, "use_percent": 100 * work / (scenario.queues * NOMINAL * makespan)}
    return found | {name: statistics.mean(each) for name, each in waits.items()} | {"preemptions": preemptions}


def main() -> None:
    """Play it, and print what the rules make of it."""
    parser = options("bench.kueue_rules", __doc__, "half a minute")
    parser.add_argument("--backfill-for", default=SCENARIOS["baseline"].backfill_for, help="of the pool (default: as in P8)")
    scenario = SCENARIOS["baseline"]._replace(cohorts=1, backfill_for=parser.parse_args().backfill_for)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "baseline.json"
        file.write_text(json.dumps(scenario_file(scenario)), "utf-8")
        command = [sys.executable, "-m", "headrace.cli", "simulate", str(file), "--json"]
        played = subprocess.run(command, capture_output=True, text=True, check=False)
    if played.returncode:
        sys.exit(played.stderr)
    found = figures(scenario, json.loads(played.stdout)["facts"])
    for name, what in DESCRIPTIONS.items():
        best, goal = scenario.optimum[name], scenario.goals[name]
        print(f"P8  the rules without delay, {what:<18} {found[name]:>6.1f}   (optimum {best:.1f}, goal {goal:.0f})")
    print(f"    {found['preemptions']:.0f} preemptions")


if __name__ == "__main__":
    main()
