"""`headrace simulate FILE...`: play scenario files and say whether they hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.contracts.codec import encode
from headrace.contracts.document_tree import DocumentErrors
from headrace.contracts.document_yaml import read_tree
from headrace.contracts.durations import SECOND, format_duration
from headrace.contracts.facts import JobAdmittedV1, LeaseStartedV1
from headrace.simulate.expectations import differences, state_of
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import START, Refused, Unrest, World

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(paths: Sequence[str], *, as_json: bool = False) -> int:
    """Play each file; 0 when all expectations hold, 1 otherwise, each difference on a line of standard error."""
    worst = 0
    for path in paths:
        worst = max(worst, _play(path, as_json=as_json))
    return worst


def _play(path: str, *, as_json: bool) -> int:
    try:
        scenario = read_scenario(read_tree(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        print(f"{path}: cannot be read: {error}", file=sys.stderr)
        return 1
    except DocumentErrors as errors:
        for wrong in errors.errors:
            print(f"{path}: {wrong}", file=sys.stderr)
        return 1
    world = World(scenario)
    failed: list[str] = []
    checked = 0
    try:
        for at, expect in world.run():
            checked += 1
            failed += differences(world, at, expect)
    except (Unrest, Refused) as stop:
        failed += str(stop).splitlines()
    for line in failed:
        print(f"{path}: {line}", file=sys.stderr)
    print(json.dumps(report(world, failed)) if as_json else _summary(path, world, checked, failed))
    return 1 if failed else 0


def _summary(path: str, world: World, checked: int, failed: list[str]) -> str:
    verdict = f"{len(failed)} differences" if failed else "holds"
    facts = sum(len(stated.facts) for stated in world.history)
    span = format_duration(world.now - START)
    return f"{path}: {verdict} ({checked} moments checked, {len(world.names)} jobs, {facts} facts, {span} of virtual time)"


def report(world: World, failed: list[str]) -> dict[str, object]:
    """Facts, final state and metrics of a run, as JSON values."""
    waits = _waits(world)
    return {
        "failed": failed,
        "facts": [
            {"sequence": stated.sequence, "at": stated.at, "by": stated.by, "facts": json.loads(encode(stated.facts))}
            for stated in world.history
        ],
        "jobs": {name: state_of(world, name) for name in world.names},
        "metrics": {
            "preemptions": world.state.preemptions_ordered,
            "started": len(waits),
            "wait_mean_s": sum(waits) // SECOND // max(1, len(waits)),
            "wait_max_s": max(waits, default=0) // SECOND,
        },
    }


def _waits(world: World) -> list[int]:
    """From admission to the first start, microseconds, of every job that has started; from the history, which forgets none."""
    admitted: dict[str, int] = {}
    waits: dict[str, int] = {}
    for stated in world.history:
        for fact in stated.facts:
            if isinstance(fact, JobAdmittedV1):
                admitted[fact.job] = stated.at
            elif isinstance(fact, LeaseStartedV1):
                waits.setdefault(fact.job, stated.at - admitted[fact.job])
    return list(waits.values())
