"""`headrace simulate FILE...`: runs scenario files and reports whether they hold, why a job waits, or what changes would do."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, TypeVar

from headrace.contracts.documents.file import read_file
from headrace.contracts.documents.tree import DocumentErrors, path_of
from headrace.contracts.facts import JobAdmittedV1, LeaseStartedV1
from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.durations import SECOND, format_duration
from headrace.domain.explain.explain import explain
from headrace.simulate.changes import read_changes
from headrace.simulate.difference import as_text
from headrace.simulate.expectations import differences, state_of
from headrace.simulate.refused import Refused
from headrace.simulate.scenario import read_scenario
from headrace.simulate.virtual_system import START, Unsettled
from headrace.simulate.whatif import FOR, compare
from headrace.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.contracts.documents.tree import Tree

T = TypeVar("T")


def main(paths: Sequence[str], *, as_json: bool = False) -> int:
    """Run each file; returns 0 if all expectations hold, 1 otherwise, with each difference on a line of standard error."""
    worst = 0
    for path in paths:
        worst = max(worst, _play(path, as_json=as_json))
    return worst


def what_if(path: str, changes_path: str, *, at: int | None = None, span: int = FOR, as_json: bool = False) -> int:
    """Run a scenario up to `at` (microseconds since its start; None: before its first moment), and from there twice.

    Returns 0 if both could be run, 1 otherwise, with each reason on a line of standard error.
    """
    scenario, changes = _read(path, read_scenario), _read(changes_path, read_changes)
    if scenario is None or changes is None:
        return 1
    world = World(scenario)
    try:
        world.begin()
        if at is not None:
            for _ in world.play(at):
                pass
            world.pass_to(max(world.now, world.start + at))
    except (Unsettled, Refused) as stop:
        return _complain(path, str(stop))
    try:
        found = compare(world, changes, span=span)
    except (Unsettled, Refused) as stop:
        return _complain(changes_path, str(stop))
    print(encode(found).decode() if as_json else as_text(found, f"{path} at {format_duration(found.at)}, with {changes_path}"))
    return 0


def why(path: str, name: str, show: Callable[[WhyView], str], *, at: int | None = None) -> int:
    """Run a scenario up to `at` (microseconds since its start; None: to its end), and explain why a job of it waits then.

    `show` writes the answer, with the names that jobs have in the file.
    """
    scenario = _read(path, read_scenario)
    if scenario is None:
        return 1
    world = World(scenario)
    try:
        world.begin()
        for _ in world.play(at):
            pass
        if at is not None:
            world.pass_to(max(world.now, world.start + at))
    except (Unsettled, Refused) as stop:
        return _complain(path, str(stop))
    job = world.state.jobs.get(world.names.get(name, ""))
    if job is None:
        return _complain(
            path, f"nothing is known of job {name} at {format_duration(world.now - world.start)}: {state_of(world, name)}"
        )
    print(show(_with_names(explain(world.state, job, world.now), world.names)))
    return 0


def _with_names(view: WhyView, names: Mapping[str, str]) -> WhyView:
    """Return the answer with the names of the file in place of keys."""
    written = encode(view).decode()
    for name, key in names.items():
        written = written.replace(key, name)
    return decode(written.encode(), WhyView)


def _complain(path: str, lines: str) -> int:
    for line in lines.splitlines():
        print(f"{path}: {line}", file=sys.stderr)
    return 1


def _read(path: str, read: Callable[[Tree], T]) -> T | None:
    """Read a file; returns None if it cannot be read, with every reason on standard error."""
    try:
        return read(read_file(path))
    except DocumentErrors as errors:
        _complain(path, "\n".join(map(str, errors.errors)))
    return None


def _with_line(tree: Tree, message: str) -> str:
    """Return governance's message with the line of the document it is about."""
    path = path_of(message)
    line = tree.line_of(path) if path and path[0] in tree.value else None
    return message if line is None else f"line {line}: {message}"


def _play(path: str, *, as_json: bool) -> int:
    read = _read(path, lambda tree: (tree, read_scenario(tree)))
    if read is None:
        return 1
    tree, scenario = read
    world = World(scenario)
    failed: list[str] = []
    checked = 0
    try:
        for at, expect in world.run():
            checked += 1
            failed += differences(world, at, expect)
    except (Unsettled, Refused) as stop:
        failed += (_with_line(tree, line) for line in str(stop).splitlines())
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
    """Return facts, final state and metrics of a run, as JSON values."""
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
    """Return the times from admission to the first start, in microseconds, of every started job; from the history, which is complete."""
    admitted: dict[str, int] = {}
    waits: dict[str, int] = {}
    for stated in world.history:
        for fact in stated.facts:
            if isinstance(fact, JobAdmittedV1):
                admitted[fact.job] = stated.at
            elif isinstance(fact, LeaseStartedV1):
                waits.setdefault(fact.job, stated.at - admitted[fact.job])
    return list(waits.values())
