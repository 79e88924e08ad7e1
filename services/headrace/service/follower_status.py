"""What is seen from outside of a service that follows the ledger: how far it is, how far behind, and whether that is near enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headrace.bus.log import LogError
from headrace.domain.fold.ledger import FoldedLedger
from headrace.health.health import Health
from headrace.service.engine_version import ENGINE
from headrace.service.fold import wall_clock

LEDGER = "ledger"
"""The check that it follows."""

LAG_RECORDS = 1_000
LAG_SECONDS = 30.0
"""Who is further behind than both is not ready."""

MICROSECONDS = 1_000_000


class Following(NamedTuple):
    """One who follows: the last record taken in, its time in microseconds since 1970, where the ledger ends, whether it is caught up."""

    sequence: Callable[[], int]
    now: Callable[[], int]
    tip: Callable[[], Awaitable[int]]
    caught_up: Callable[[], bool]


class Lag:
    """How far behind, as of the last look at where the ledger ends."""

    def __init__(self, following: Following, clock: Callable[[], int] = wall_clock) -> None:
        self._following = following
        self._clock = clock
        self.tip = 0

    async def look(self) -> None:
        """See where the ledger ends. Raises `LogError`."""
        self.tip = await self._following.tip()

    @property
    def records(self) -> int:
        """So many are not taken in yet."""
        return max(0, self.tip - self._following.sequence())

    @property
    def seconds(self) -> float:
        """How old the last one is that was taken in, while there are others; else 0."""
        return max(0.0, (self._clock() - self._following.now()) / MICROSECONDS) if self.records else 0.0

    async def holds(self) -> str:
        """What is wrong; "" while it follows within bounds."""
        try:
            await self.look()
        except LogError as error:
            return f"where the ledger ends is not known: {error}"
        if not self._following.caught_up():
            return f"still reading: {self.records} records to go"
        if self.records > LAG_RECORDS and self.seconds > LAG_SECONDS:
            return f"{self.records} records and {self.seconds:.0f} s behind the ledger"
        return ""


def watch_fold(health: Health, following: Following, ledger: FoldedLedger | None = None) -> Lag:
    """Show how it follows; with `ledger` also what it holds and what was void in it."""
    lag = Lag(following)
    figures = health.figures
    health.check(LEDGER, lag.holds)
    health.before_figures(lag.look)
    figures.gauge("headrace_build_info", "1; which software this is", lambda: {(ENGINE,): 1}, "engine")
    figures.gauge("headrace_ledger_sequence_records", "the last record of the ledger that was taken in", following.sequence)
    figures.gauge("headrace_ledger_lag_records", "records of the ledger that are not taken in yet", lambda: lag.records)
    figures.gauge(
        "headrace_ledger_lag_seconds", "age of the last record taken in, while others wait; else 0", lambda: lag.seconds
    )
    if ledger is not None:
        figures.gauge(
            "headrace_fold_jobs", "jobs in the fold: all that have not ended an hour ago", lambda: len(ledger.state.jobs)
        )
        figures.gauge(
            "headrace_void_records", "records in the ledger that count for nothing", lambda: _by_writer(ledger), "writer"
        )
    return lag


def _by_writer(ledger: FoldedLedger) -> dict[tuple[str, ...], float]:
    return {(writer,): count for writer, count in ledger.state.voids.items()}
