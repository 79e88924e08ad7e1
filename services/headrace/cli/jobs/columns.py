"""The columns of `headrace jobs`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

from headrace.cli.arguments import did_you_mean
from headrace.cli.output.endings import ending
from headrace.cli.output.formatting import amounts, gpus, local, rough
from headrace.contracts.messages.queries import FINAL, AttemptView, JobView

USUAL = ("job", "name", "queue", "user", "state", "gpu", "node", "wait", "run", "note")
FURTHER = (
    "submitted",
    "started",
    "ended",
    "exit",
    "labels",
    "priority",
    "pool",
    "devices",
    "request",
    "attempts",
    "message",
    "tenant",
)


def columns(text: str) -> tuple[str, ...]:
    """Names of columns of `a,b`, for argparse."""
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for name in names:
        if name not in _CELLS:
            raise argparse.ArgumentTypeError(
                f"unknown column {name[:40]!r}{did_you_mean(name, _CELLS)}; there are {', '.join((*USUAL, *FURTHER))}"
            )
    if not names:
        raise argparse.ArgumentTypeError(f"write at least one of {', '.join((*USUAL, *FURTHER))}")
    return names


def rows(views: Sequence[JobView], names: Sequence[str], now: int) -> Iterator[tuple[object, ...]]:
    """A row for each job; `now` in microseconds since 1970."""
    for view in views:
        yield tuple(_CELLS[name](view, view.attempts[-1] if view.attempts else None, now) for name in names)


def _wait(view: JobView, last: AttemptView | None, now: int) -> str:
    """From the submit to the latest start, or until now; empty for jobs that were refused or ended without a start."""
    until = now if view.state == "pending" else last.started_at or last.granted_at if last is not None else 0
    return rough(max(0, until - view.admitted_at)) if view.admitted_at and until else ""


def _run(view: JobView, last: AttemptView | None, now: int) -> str:
    """Duration of the latest attempt; empty while the job waits."""
    if last is None or not last.started_at or view.state == "pending":
        return ""
    return rough(max(0, (last.ended_at or now) - last.started_at))


def _nodes(view: JobView, last: AttemptView | None, _: int) -> str:
    return ",".join(dict.fromkeys(last.nodes)) if last is not None and view.state != "pending" else ""


def _note(view: JobView, _: AttemptView | None, now: int) -> str:
    if view.array:
        return ", ".join(f"{count} {state}" for state, count in view.elements.items())
    if view.state in ("pending", "rejected"):
        return view.reason
    preempted = f"{view.preemptions} x preempted" if view.preemptions else ""
    idle = f"idle for {rough(max(0, now - view.idle_at))}" if view.idle_at else ""
    return ", ".join(filter(None, (ending(view) if view.state in FINAL else "", preempted, idle)))


_CELLS: dict[str, Callable[[JobView, AttemptView | None, int], object]] = {
    "job": lambda view, *_: view.id,
    "name": lambda view, *_: view.name,
    "queue": lambda view, *_: view.queue,
    "user": lambda view, *_: view.user,
    "state": lambda view, *_: view.state,
    "gpu": lambda view, *_: gpus(view),
    "node": _nodes,
    "wait": _wait,
    "run": _run,
    "note": _note,
    "submitted": lambda view, *_: local(view.admitted_at),
    "started": lambda _, last, __: local(last.started_at) if last is not None else "",
    "ended": lambda view, *_: local(view.ended_at),
    "exit": lambda view, *_: view.exit_code,
    "labels": lambda view, *_: ",".join(f"{key}={value}" for key, value in sorted(view.labels.items())),
    "priority": lambda view, *_: view.priority or None,
    "pool": lambda _, last, __: last.pool if last is not None else "",
    "devices": lambda _, last, __: ",".join(last.devices) if last is not None else "",
    "request": lambda view, *_: amounts(view.request),
    "attempts": lambda _, last, __: last.attempt if last is not None else None,
    "message": lambda view, *_: view.message,
    "tenant": lambda view, *_: view.tenant,
}
"""What stands in a column: of a job, its latest attempt, and the present time."""
