"""Reads use from the books for any periods: whole days and hours from their sums, the rest from the intervals; each piece once.

Strategy: a period is cut into whole days of UTC and whole hours, which are sums already, and rests at its ends. For groupings finer than
the sums (a job, a label, a node together with a group), everything is read as a rest. Rests are cut wherever a price changed, so that one
tariff holds in each. What still lasts is in no sum, and read for the whole time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from headrace.accounting.books.aggregate import PeriodSum
from headrace.accounting.books.costs import PriceList
from headrace.accounting.books.tariffs import NO_TARIFF, PriceRow, TariffRow
from headrace.accounting.storage.database import Connection
from headrace.accounting.storage.sql_statements import statements
from headrace.contracts.values.amounts import JOB
from headrace.contracts.values.durations import DAY, HOUR

_SQL = statements("usage")

FIELDS = ("tenant", "group", "user", "service_account", "pool", "policy", "profile", "queue", "node", "job")
"""Fields by which use can be grouped, besides `label:KEY`."""

LABEL = "label:"

SUMS_MAX = 400_000
"""Maximum number of sums of one query, because of memory."""

COLUMNS = {
    "tenant": "{}.tenant",
    "group": "{}.group_name",
    "user": "{}.user_name",
    "service_account": "CASE WHEN {0}.service_account THEN {0}.user_name ELSE '' END",
    "pool": "{}.pool",
    "policy": "{}.policy",
    "profile": "{}.profile",
    "queue": "{0}.policy || '/' || {0}.profile",
    "node": "{}.node",
    "job": "{}.job",
}
"""SQL of each field, with the name of the table."""

_NOWHERE = ("pool", "node")
"""Fields that a waiting job does not have."""

_OF_NODES = frozenset({"tenant", "pool", "node"})
"""Fields of the sums by node."""

_BEGINS, _ENDS = "($2::timestamptz[])[1]", "($2::timestamptz[])[cardinality($2::timestamptz[])]"

_PIECES = """generate_series(
        greatest(width_bucket(source.since, $2::timestamptz[]), 1),
        least(width_bucket(source.until - interval '1 microsecond', $2::timestamptz[]), cardinality($2::timestamptz[]) - 1)
    )"""
_PLAN = "SET LOCAL enable_sort = off; SET LOCAL work_mem = '64MB'"
"""PostgreSQL cannot know how few groups the rows make, and would sort them all."""

SHORT = 2 * HOUR
_FEW = "SET LOCAL enable_hashjoin = {0}; SET LOCAL enable_mergejoin = {0}; SET LOCAL enable_seqscan = {0}"
"""Nor how few intervals are in a short time: it would read every lease to look up a few."""

LONG = 7 * DAY
_MANY = "SET LOCAL enable_nestloop = {0}"
"""Nor how many jobs are in a long one: it would look up each of them alone."""


class TooManyLines(ValueError):
    """The answer has too many lines."""


class _Split(NamedTuple):
    """Whole days and hours as (period, first, the one after the last), and the bounds of the rests, in runs."""

    days: list[tuple[int, int, int]]
    hours: list[tuple[int, int, int]]
    left: list[list[int]]


class UsageReader:
    """One query over one connection, in one snapshot. `tenant` empty: all of them. `bounds`: of contiguous periods, in order.

    `only`: the jobs of the query; None: all.
    """

    def __init__(
        self,
        connection: Connection,
        tenant: str,
        fields: Sequence[str],
        bounds: Sequence[int],
        only: Sequence[str] | None = None,
    ) -> None:
        self._connection = connection
        self._tenant = tenant
        self._fields = tuple(fields)
        self._bounds = list(bounds)
        self._only = only
        self._labels = [field.removeprefix(LABEL) for field in fields if field.startswith(LABEL)]
        self._each_job = bool(self._labels) or "job" in fields
        self._by_node = "node" in fields and not self._each_job

    @property
    def covers(self) -> bool:
        """True if the entries suffice to compute idle reservations: they name their policies, and include all of them."""
        return "node" not in self._fields and not self._each_job

    async def prices(self) -> PriceList:
        """All prices so far."""
        tariffs = [TariffRow(*row) for row in await self._connection.fetch(_SQL["tariffs"])]
        return PriceList(tariffs, [PriceRow(*row) for row in await self._connection.fetch(_SQL["prices"])])

    async def entries(self, prices: PriceList) -> list[PeriodSum]:
        """All use, starts, suspensions, waits and kept units, without idle reservations. Raises `TooManyLines`."""
        await self._connection.execute(_PLAN)
        split = self._split(prices.moments, summed=self.covers or (self._by_node and _OF_NODES.issuperset(self._fields)))
        waits = self._split(prices.moments, summed=not self._each_job)
        found = [entry async for entry in self._sums(split, waits)]
        await self._connection.execute(_FEW.format("off" if _all_short(split.left + waits.left) else "on"))
        for bounds in split.left:
            found += await self._pieces("held", "leases", bounds, prices, ("reserved", "borrowed"))
            found += await self._pieces("suspended", "leases", bounds, prices, ("suspended", ""))
            found += await self._pieces("kept", "kept", bounds, prices, ("kept", ""))
            found += await self._pieces("provider_lost", "leases", bounds, prices, ("provider_lost", ""))
        for bounds in waits.left:
            found += await self._pieces("waited", "jobs", bounds, prices, ("waiting", ""))
        await self._connection.execute(_FEW.format("on"))
        for bounds in _cut([(self._bounds[0], self._bounds[-1])], [*self._bounds, *prices.moments]):
            found += await self._pieces("held_still", "leases", bounds, prices, ("reserved", "borrowed"))
            found += await self._pieces("lost", "leases", bounds, prices, ("lost_reserved", "lost_borrowed"))
            found += await self._pieces("suspended_still", "leases", bounds, prices, ("suspended", ""))
            found += await self._pieces("kept_still", "kept", bounds, prices, ("kept", ""))
            found += await self._pieces("provider_loses_still", "leases", bounds, prices, ("provider_lost", ""))
            found += await self._pieces("waits_still", "jobs", bounds, prices, ("waiting", ""))
        return found

    async def jobs(self) -> dict[tuple[int, tuple[str, ...], str], int]:
        """Number of jobs that held something, by period, names and key."""
        counts: dict[tuple[int, tuple[str, ...], str], int] = {}
        piece = "1" if len(self._bounds) == len(("since", "until")) else _PIECES
        sql = self._filled(_SQL["jobs"].replace("{piece}", piece), "leases")
        many = self._only is None and self._bounds[-1] - self._bounds[0] >= LONG
        await self._connection.execute(_MANY.format("off" if many else "on"))
        for number, names, keys, count in await self._fetch(sql, self._tenant, self._bounds, *self._more()):
            for key in {*_keys(keys), JOB}:
                place = (number - 1, tuple(names), key)
                counts[place] = counts.get(place, 0) + count
        return counts

    def _split(self, moments: Sequence[int], *, summed: bool) -> _Split:
        days, hours, left = [], [], []
        for number, (since, until) in enumerate(pairwise(self._bounds)):
            first, following = -(-since // HOUR), until // HOUR
            if not summed or first >= following:
                left.append((since, until))
                continue
            left += [(since, first * HOUR), (following * HOUR, until)]
            if not self.covers:
                hours.append((number, first, following))
                continue
            first_day, following_day = -(-first * HOUR // DAY), following * HOUR // DAY
            if first_day < following_day:
                days.append((number, first_day, following_day))
                hours += [(number, first, first_day * DAY // HOUR), (number, following_day * DAY // HOUR, following)]
            else:
                hours.append((number, first, following))
        pieces = [piece for piece in left if piece[0] < piece[1]]
        hours = [piece for piece in hours if piece[1] < piece[2]]
        return _Split(days, hours, list(_cut(pieces, [*self._bounds, *moments])))

    async def _sums(self, split: _Split, waits: _Split) -> AsyncIterator[PeriodSum]:
        wanted = [("days", split.days), ("hours", split.hours)]
        if not self.covers:
            wanted = [("node_hours", split.hours), ("waited_hours", waits.hours)]
        for name, pieces in wanted:
            if not pieces:
                continue
            sql = self._filled(_SQL[name], "days" if name == "days" else "hours", waits=name == "waited_hours")
            rows = await self._fetch(sql, self._tenant, *map(list, zip(*pieces, strict=True)))
            for period, tenant, policy, pool, names, key, tariff, *sums in rows:
                yield PeriodSum(period, tenant, policy, pool, tuple(names), key, tariff, *map(int, sums))

    async def _pieces(
        self, source: str, table: str, bounds: list[int], prices: PriceList, measures: tuple[str, str]
    ) -> list[PeriodSum]:
        form = "one" if len(bounds) == len(("since", "until")) else "many"
        sql = self._filled(_SQL[form].replace("{source}", _SQL[source]), table)
        rows = await self._fetch(sql, self._tenant, bounds, *self._more())
        return [entry for row in rows for entry in self._entries(row, bounds, prices, measures)]

    def _entries(self, row: Any, bounds: list[int], prices: PriceList, measures: tuple[str, str]) -> Iterator[PeriodSum]:
        number, tenant, policy, pool, names, key, *sums = row
        since = bounds[number - 1]
        period = bisect_right(self._bounds, since) - 1
        charged = measures[0] not in ("suspended", "waiting", "kept", "provider_lost")
        tariff = prices.at(pool, tenant, since) if charged else NO_TARIFF
        if measures[0] in ("waiting", "provider_lost"):
            for asked, units in _asked(*key):
                asked_for = {measures[0]: units * int(sums[0])}
                yield PeriodSum(period, tenant, policy, pool, tuple(names), asked, tariff, **asked_for)
            return
        measured = {measure: int(amount) for measure, amount in zip(measures, sums, strict=True) if measure}
        yield PeriodSum(period, tenant, policy, pool, tuple(names), key, tariff, **measured)

    async def _fetch(self, sql: str, *arguments: object) -> list[Any]:
        limited = f"SELECT * FROM ({sql}) AS found LIMIT {SUMS_MAX + 1}"  # noqa: S608 - of our own parts alone
        rows: list[Any] = await self._connection.fetch(limited, *arguments)
        if len(rows) > SUMS_MAX:
            raise TooManyLines(
                f"that comes to more than {SUMS_MAX} sums; ask for a shorter time, longer periods, or fewer names"
            )
        return rows

    def _more(self) -> tuple[object, ...]:
        labels = (self._labels,) if self._labels else ()
        return labels if self._only is None else (*labels, list(self._only))

    def _filled(self, sql: str, table: str, *, waits: bool = False) -> str:
        """A statement with the fields of the query; all parts are constants of this module."""
        columns = [self._column(field, table, waits=waits) for field in self._fields]
        places = range(1, len(columns) + 1)
        joined = f" JOIN headrace.jobs ON jobs.job = {table}.job" if self._labels and table != "jobs" else ""
        only = "" if self._only is None else f"AND {table}.job = ANY (${4 if self._labels else 3}::text[])"
        parts = {
            "{names}": f"ARRAY[{', '.join(columns)}]::text[]",
            "{source_names}": f"ARRAY[{', '.join(f'name{place}' for place in places)}]::text[]",
            "{named}": "".join(f"{column} AS name{place}, " for place, column in zip(places, columns, strict=True)),
            "{groups}": "".join(f"name{place}, " for place in places),
            "{jobs}": joined,
            "{only}": only,
            "{begins}": _BEGINS,
            "{ends}": _ENDS,
        }
        for name, part in parts.items():
            sql = sql.replace(name, part)
        return sql

    def _column(self, field: str, table: str, *, waits: bool) -> str:
        if field.startswith(LABEL):
            return f"coalesce(jobs.labels ->> ($3::text[])[{self._labels.index(field.removeprefix(LABEL)) + 1}], '')"
        if (waits or table == "jobs") and field in _NOWHERE:
            return "''"
        return COLUMNS[field].format(table)


def _cut(pieces: Sequence[tuple[int, int]], moments: Sequence[int]) -> Iterator[list[int]]:
    """Pieces in order as runs of bounds: pieces that touch are one run, cut at every time inside."""
    runs: list[list[int]] = []
    for since, until in pieces:
        if runs and runs[-1][-1] == since:
            runs[-1].append(until)
        else:
            runs.append([since, until])
    for run in runs:
        yield sorted({*run, *(moment for moment in moments if run[0] < moment < run[-1])})


def _all_short(runs: Sequence[list[int]]) -> bool:
    return all(run[-1] - run[0] <= SHORT for run in runs)


def _asked(request: dict[str, int], replicas: int) -> Iterator[tuple[str, int]]:
    """Request of all replicas of a job, and the one job that every job takes (R2)."""
    yield from ((key, int(units) * replicas) for key, units in request.items() if key != JOB)
    yield JOB, 1


def _keys(text: str) -> list[str]:
    """The keys of `{"cpu": 1, "gpu": 2}`, or of `["cpu", "gpu"]`."""
    return list(msgspec.json.decode(text, type=dict[str, int] | list[str]))
