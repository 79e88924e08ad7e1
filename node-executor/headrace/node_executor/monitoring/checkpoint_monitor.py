"""Looks regularly for checkpoints of running jobs, and for the last one of jobs that have ended (R25)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.files.checkpoints import Checkpoint
from headrace.node_executor.files.inspection import FileInspector
from headrace.node_executor.leases.running_lease import RunningLease

_log = structlog.get_logger("headrace.node_executor")


class CheckpointMonitor:
    """Looks for checkpoints; `handle` receives an event for each, at the moment `now()`."""

    def __init__(self, handle: Callable[[v.Event], None], now: Callable[[], int], inspector: FileInspector) -> None:
        self._handle = handle
        self._now = now
        self._inspector = inspector

    async def poll(self, held: Iterable[RunningLease]) -> None:
        """Look for new checkpoints of these leases, except those still being looked at. A lease whose disk hangs delays no other."""
        due = [one for one in held if one.watch.may_have_news and not self._inspector.busy(one.order.lease)]
        inspections = [self._inspect(one, lambda: None, thorough=False) for one in due]
        if inspections:
            await asyncio.wait(inspections)

    def poll_then(self, held: RunningLease, then: Callable[[], None]) -> None:
        """Look for the last checkpoint, then call `then`, at the latest when the look times out; at once if there is nothing to await."""
        if held.watch.quick and not self._inspector.busy(held.order.lease):
            self._saved(held, held.watch.glance())
            then()
        else:
            self._inspect(held, then, thorough=True)

    def _inspect(self, held: RunningLease, then: Callable[[], None], *, thorough: bool) -> asyncio.Future[Checkpoint | None]:
        def inspected(done: asyncio.Future[Checkpoint | None]) -> None:
            error = done.exception()
            if error is None:
                self._saved(held, done.result())
            else:
                self._complain(held, f"its checkpoints are not known: {error}")
            then()

        future = self._inspector.inspect(held.owner, held.order.lease, lambda: held.watch.find_newest(thorough=thorough))
        future.add_done_callback(inspected)
        return future

    def _saved(self, held: RunningLease, checkpoint: Checkpoint | None) -> None:
        self._complain(held, held.watch.complaint)
        if checkpoint is not None and held.watch.accept(checkpoint):
            self._handle(v.CheckpointSeen(self._now(), held.order.lease, checkpoint.uri, checkpoint.step))

    def _complain(self, held: RunningLease, complaint: str) -> None:
        if complaint and complaint != held.complained:
            held.complained = complaint
            held.output.note(complaint)
            _log.info("checkpoints", lease=held.order.lease, reason=complaint)
