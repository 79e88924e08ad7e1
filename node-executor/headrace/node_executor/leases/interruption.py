"""Ends of jobs that the stop of the machine caused: they are lost, and do not use the job's retries (R32).

Strategy: an executor that stops asks whether the machine stops with it, and then ends its jobs itself (`main`). What is left are jobs that
the machine's init system, or the container engine, ended at the same moment or after the executor had gone. Every process of the machine
gets SIGTERM then, the job's keeper too, and the keeper records it. So an end that was not ordered here, and that came after this
SIGTERM or is one by SIGTERM or SIGKILL, was caused by the machine's stop if the machine is being shut down now, or has been restarted
since. While the machine runs on, it is the job's own end, with its exit code: a job can send these signals to itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.node_executor.core.phases import Lease
from headrace.node_executor.core.vocabulary import MACHINE_STOPPED
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.runtimes import End

BY_SIGNAL = (128 + 9, 128 + 15)
"""Exit codes of jobs that SIGKILL or SIGTERM ended."""

MACHINE_RESTARTED = "the machine was restarted"


class InterruptionCheck:
    """Tests whether the machine's stop ended a job. `is_shutting_down`: tells in a thread whether the machine is, now."""

    def __init__(self, is_shutting_down: Callable[[], bool]) -> None:
        self._is_shutting_down = is_shutting_down
        self._loop = asyncio.get_running_loop()

    def check_then(self, held: RunningLease, lease: Lease | None, end: End, then: Callable[[], None]) -> None:
        """Set `held.lost` if so, and call `then` in the loop, at once where nothing has to be asked."""
        if held.lost or not _may_be_interrupted(held, lease, end):
            then()
        elif held.outlasted:
            held.lost = MACHINE_RESTARTED
            then()
        else:
            asked = self._loop.run_in_executor(None, self._is_shutting_down)
            asked.add_done_callback(lambda answer: _answered(held, answer, then))


def _may_be_interrupted(held: RunningLease, lease: Lease | None, end: End) -> bool:
    if end.code is None:
        return held.outlasted  # lost in any case; the restart is the reason
    if lease is None or lease.ladder is not None or lease.limit is not None or lease.killed:
        return False  # it was told to end
    # An engine that stops with the machine ends its containers itself; what they save and exit with is then their own.
    return end.terminated or end.code in BY_SIGNAL or (bool(held.order.image) and not held.outlasted)


def _answered(held: RunningLease, answer: asyncio.Future[bool], then: Callable[[], None]) -> None:
    if not answer.cancelled() and answer.result():
        held.lost = MACHINE_STOPPED
    then()
