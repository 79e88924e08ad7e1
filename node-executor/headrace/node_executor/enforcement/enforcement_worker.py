"""Calls the mechanisms for the loop: calls that wait for drivers run in one thread of their own, with results reported in the loop.

Strategy: one thread, because drivers may fail if several make or destroy slices at once. If nothing has to be waited for (simulated
devices), calls are made at once, and reported before they return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from headrace.node_executor.enforcement import CannotEnclose, EnforcementRequest, Entered
from headrace.node_executor.enforcement.enforcement import Enforcement
from headrace.node_executor.runtimes import CannotStart

T = TypeVar("T")

_log = structlog.get_logger("headrace.node_executor")


class EnforcementWorker:
    """Encloses leases with `enforcement`. Created in the loop; `close` lets the thread end."""

    def __init__(self, enforcement: Enforcement) -> None:
        self.enforcement = enforcement
        self._loop = asyncio.get_running_loop()
        self._worker = ThreadPoolExecutor(1, "enclosing")

    def enter(
        self, case: EnforcementRequest, entered: Callable[[Entered], None], refused: Callable[[CannotStart], None]
    ) -> None:
        """Set everything up for a lease; then either `entered` or `refused` is called, in the loop."""

        def outcome(done: Callable[[], Entered]) -> None:
            try:
                got = done()
            except CannotEnclose as error:
                refused(CannotStart(str(error)))
            except Exception as error:  # noqa: BLE001 - whatever a driver does, the lease has to end
                _log.exception("enclosing_failed", lease=case.lease)
                refused(CannotStart(f"it cannot be enclosed: {error}"))
            else:
                entered(got)

        self._do(lambda: self.enforcement.enter(case), outcome)

    def leave(self, lease: str, left: Callable[[str], None]) -> None:
        """Release a lease whose processes are gone. `left` is called in the loop with what or who is in the way; empty: nothing."""

        def outcome(done: Callable[[], str]) -> None:
            try:
                why = done()
            except Exception as error:  # noqa: BLE001 - it is tried again
                _log.exception("leaving_failed", lease=lease)
                why = str(error)
            left(why)

        self._do(lambda: self.enforcement.leave(lease), outcome)

    def forget(self, lease: str) -> None:
        """Remove what is left of a lease that is over."""
        self._do(lambda: self.enforcement.forget(lease), lambda done: done())

    async def prove(self) -> None:
        """Have every mechanism prove itself."""
        await self._loop.run_in_executor(self._worker, self.enforcement.prove)

    async def in_turn(self, work: Callable[[], T]) -> T:
        """Run other work in the same thread."""
        return await self._loop.run_in_executor(self._worker, work)

    def _do(self, work: Callable[[], T], outcome: Callable[[Callable[[], T]], None]) -> None:
        if self.enforcement.quick:
            outcome(work)
            return
        future = self._loop.run_in_executor(self._worker, work)
        future.add_done_callback(lambda done: None if done.cancelled() else outcome(done.result))

    def close(self) -> None:
        """Accept no more work, and wait for what is under way."""
        self._worker.shutdown()
        self.enforcement.close()
