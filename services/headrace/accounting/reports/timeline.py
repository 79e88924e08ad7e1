"""Use of the pools and events of a period, in parts of equal length: what a time bar draws."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.accounting.reports.usage import InvalidQuery
from headrace.accounting.reports.usage_reader import TooManyLines, UsageReader
from headrace.accounting.storage.sql_statements import statements
from headrace.accounting.storage.store import position
from headrace.contracts.messages.audit import PoolBins, TimelineAnswer, TimelineRequest
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import DAY
from headrace.views.visibility import ALL_TENANTS, sees_pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.accounting.books.aggregate import PeriodSum
    from headrace.accounting.storage.database import Connection
    from headrace.domain.state.state import State

BINS_MAX = 1_000
THOUSANDTHS = 1_000

_SQL = statements("timeline")
_USAGE = statements("usage")

_Sums = defaultdict[tuple[str, int], int]
"""Sums by pool and bin."""


class _Read(NamedTuple):
    """What was read: use of all tenants and of the asker's, capacity in unit-microseconds, and events by bin (from 1) and pool."""

    whole: list[PeriodSum]
    own: list[PeriodSum]
    usable: _Sums
    preemptions: Sequence[Any]
    growth: Sequence[Any]


def check(question: TimelineRequest, now: int) -> None:
    """Raise `InvalidQuery` for invalid fields; `now` is the time of the books."""
    if not 1 <= question.bins <= BINS_MAX:
        raise InvalidQuery(f"bins: write 1 to {BINS_MAX}")
    if min(question.since, question.until) < 0 or (question.until and question.since >= question.until):
        raise InvalidQuery("since, until: the period ends before it begins; exchange them")
    if question.since > now:
        raise InvalidQuery("since: that is still to come; the books reach to the newest record of the ledger")


async def answer(connection: Connection, tenant: str, question: TimelineRequest, state: State) -> TimelineAnswer:
    """The period as `tenant` (`ALL_TENANTS`: the provider) may see it, in one snapshot. Raises `InvalidQuery`."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        at = await position(connection)
        check(question, at.now)
        until = min(question.until or at.now, at.now)
        first = await connection.fetchval(_USAGE["first"]) or until
        since = max(question.since or until - DAY, first)
        if since >= until:
            return TimelineAnswer(since=since, until=until, through=at.sequence)
        bounds = [since + (until - since) * part // question.bins for part in range(question.bins + 1)]
        bounds = sorted(set(bounds))
        records = [row[0] for row in await connection.fetch(_SQL["records_before"], bounds, at.sequence)]
        records[-1] = at.sequence if until == at.now else records[-1]
        try:
            whole = await _entries(connection, ALL_TENANTS, bounds)
            own = whole if tenant == ALL_TENANTS else await _entries(connection, tenant, bounds)
        except TooManyLines as error:
            raise InvalidQuery(f"bins: {error}") from None
        usable = _averages(await connection.fetch(_SQL["capacity"], bounds), bounds)
        preemptions = await connection.fetch(_SQL["preemptions"], bounds, records[0], records[-1], tenant)
        growth = await connection.fetch(_SQL["growth"], bounds) if tenant == ALL_TENANTS else []
        changes = await connection.fetch(_SQL["changes"], records, tenant)
    return TimelineAnswer(
        since=since,
        until=until,
        through=at.sequence,
        before=records[0],
        sequences=tuple(records[1:]),
        pools=tuple(_pools(_seen(tenant, state, usable), bounds, _Read(whole, own, usable, preemptions, growth))),
        pending=_column(_sums(own, "waiting"), "", bounds),
        changes=_counts([(number, "", count) for number, count in changes], "", len(bounds) - 1),
    )


async def _entries(connection: Connection, tenant: str, bounds: Sequence[int]) -> list[PeriodSum]:
    reader = UsageReader(connection, tenant, ("pool",), bounds)
    return [entry for entry in await reader.entries(await reader.prices()) if entry.key == GPU]


def _seen(tenant: str, state: State, usable: Iterable[tuple[str, int]]) -> list[str]:
    """Pools that the tenant sees; for the provider also those that no longer exist."""
    if tenant == ALL_TENANTS:
        return sorted({pool for pool, _ in usable})
    return sorted(name for name, pool in state.pools.items() if sees_pool(tenant, pool.document))


def _pools(names: Iterable[str], bounds: Sequence[int], read: _Read) -> Iterable[PoolBins]:
    used, kept = _sums(read.whole, "reserved", "borrowed", "provider_lost"), _sums(read.whole, "kept")
    reserved, borrowed = _sums(read.own, "reserved"), _sums(read.own, "borrowed")
    for pool in names:
        yield PoolBins(
            pool=pool,
            usable=_column(read.usable, pool, bounds),
            used=_column(used, pool, bounds),
            reserved=_column(reserved, pool, bounds),
            borrowed=_column(borrowed, pool, bounds),
            kept=_column(kept, pool, bounds),
            preemptions=_counts(read.preemptions, pool, len(bounds) - 1),
            growth=_counts(read.growth, pool, len(bounds) - 1),
        )


def _sums(entries: Iterable[PeriodSum], *measures: str) -> _Sums:
    found: _Sums = defaultdict(int)
    for entry in entries:
        found[entry.pool, entry.period] += sum(getattr(entry, measure) for measure in measures)
    return found


def _averages(rows: Iterable[Any], bounds: Sequence[int]) -> _Sums:
    """Capacity that changes at moments (pool, since, units; by pool in order) as unit-microseconds in each bin."""
    found: _Sums = defaultdict(int)
    steps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for pool, since, units in rows:
        steps[pool].append((since, units))
    for pool, changes in steps.items():
        changes.sort(key=lambda change: change[0])
        ends = [since for since, _ in changes[1:]]
        for (since, units), until in zip(changes, [*ends, bounds[-1]], strict=True):
            _add(found, pool, (max(since, bounds[0]), min(until, bounds[-1])), units, bounds)
    return found


def _add(found: _Sums, pool: str, span: tuple[int, int], units: int, bounds: Sequence[int]) -> None:
    since, until = span
    number = max(0, bisect_right(bounds, since) - 1)
    while since < until and number < len(bounds) - 1:
        end = min(until, bounds[number + 1])
        found[pool, number] += units * (end - since)
        since, number = end, number + 1


def _column(sums: _Sums, pool: str, bounds: Sequence[int]) -> tuple[int, ...]:
    """Unit-microseconds as thousandths of a GPU, on average over each bin."""
    return tuple(
        round(sums[pool, number] * THOUSANDTHS / (GPU_UNITS * (until - since))) if sums.get((pool, number)) else 0
        for number, (since, until) in enumerate(pairwise(bounds))
    )


def _counts(rows: Iterable[Any], pool: str, bins: int) -> tuple[int, ...]:
    """Numbers of events by bin; what is outside, because times of records may go back, counts in the first or last one."""
    found = [0] * bins
    for number, where, count in rows:
        if where == pool:
            found[min(max(number, 1), bins) - 1] += count
    return tuple(found)
