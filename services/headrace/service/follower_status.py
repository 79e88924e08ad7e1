"""Metrics and health of a service that follows the ledger: its position, its lag, and whether the lag is within bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headrace.bus.log import LogError
from headrace.bus.process import LEDGER
from headrace.domain.fold.ledger import FoldedLedger
from headrace.health.health import Health
from headrace.service.engine_version import ENGINE
from headrace.service.fold import wall_clock

LAG_RECORDS = 1_000
LAG_SECONDS = 30.0
"""Bounds of the lag: a service beyond both is not ready."""

MICROSECONDS = 1_000_000


class Following(NamedTuple):
    """The position of a follower: last record read, its time in microseconds, the end of the ledger, whether it has caught up."""

    sequence: Callable[[], int]
    now: Callable[[], int]
    tip: Callable[[], Awaitable[int]]
    caught_up: Callable[[], bool]


class Lag:
    """The lag, as of the last look at the end of the ledger."""

    def __init__(self, following: Following, clock: Callable[[], int] = wall_clock) -> None:
        self._following = following
        self._clock = clock
        self.tip = 0

    async def refresh(self) -> None:
        """Read the end of the ledger. Raises LogError."""
        self.tip = await self._following.tip()

    @property
    def records(self) -> int:
        """Number of records not read yet."""
        return max(0, self.tip - self._following.sequence())

    @property
    def seconds(self) -> float:
        """Age of the last record read, in seconds, while there are newer ones; else 0."""
        return max(0.0, (self._clock() - self._following.now()) / MICROSECONDS) if self.records else 0.0

    async def holds(self) -> str:
        """The problem; "" while the lag is within bounds."""
        try:
            await self.refresh()
        except LogError as error:
            return f"the end of the ledger is unknown: {error}"
        if not self._following.caught_up():
            return f"still reading: {self.records} records to go"
        if self.records > LAG_RECORDS and self.seconds > LAG_SECONDS:
            return f"{self.records} records and {self.seconds:.0f} s behind the ledger"
        return ""


def watch_fold(health: Health, following: Following, ledger: FoldedLedger | None = None) -> Lag:
    """Register metrics and checks of a follower; with `ledger` also those of the fold and its void records."""
    lag = Lag(following)
    metrics = health.metrics
    health.check(LEDGER, lag.holds)
    health.before_metrics(lag.refresh)
    metrics.gauge("headrace_build_info", "always 1; the label is the version of the software", lambda: {(ENGINE,): 1}, "engine")
    metrics.gauge("headrace_ledger_sequence_records", "sequence of the last ledger record read", following.sequence)
    metrics.gauge("headrace_ledger_lag_records", "number of ledger records not read yet", lambda: lag.records)
    metrics.gauge(
        "headrace_ledger_lag_seconds", "age of the last record read, while there are newer ones; else 0", lambda: lag.seconds
    )
    if ledger is not None:
        metrics.gauge(
            "headrace_fold_jobs", "jobs in the fold: running, waiting, or ended within the hour", lambda: len(ledger.state.jobs)
        )
        metrics.gauge("headrace_void_records", "number of void records in the ledger", lambda: _by_writer(ledger), "writer")
    return lag


def _by_writer(ledger: FoldedLedger) -> dict[tuple[str, ...], float]:
    return {(writer,): count for writer, count in ledger.state.voids.items()}
