"""Reads use out of the books for any periods: whole days from their sums, the rest from the intervals themselves; each piece once.

Strategy: a period is cut into whole days of UTC, which are sums already, and what is left over at its ends. Where something finer is
asked for than the sums know (a node, a job, a label), all of it is left over. Left-over pieces are cut wherever a price changed, so that
one tariff holds in each. What still lasts is in no sum, and read for the whole time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from headrace.accounting.costs import PriceList
from headrace.accounting.database import Connection
from headrace.accounting.statements import statements
from headrace.accounting.tally import Entry
from headrace.accounting.tariffs import NO_TARIFF, PriceRow, TariffRow
from headrace.contracts.durations import DAY

_SQL = statements("usage")

FIELDS = ("tenant", "group", "user", "service_account", "pool", "policy", "profile", "queue", "node", "job")
"""What use can be grouped by, besides `label:KEY`."""

LABEL = "label:"

_COLUMNS = {
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
_NOWHERE = ("pool", "node")
"""What a job that waits has none of."""

_FINE = ("node", "job")

_BEGINS, _ENDS = "($2::timestamptz[])[1]", "($2::timestamptz[])[cardinality($2::timestamptz[])]"


class Reader:
    """One question over one connection, in one snapshot. `tenant` empty: all of them. `bounds`: of contiguous periods, in order."""

    def __init__(self, connection: Connection, tenant: str, fields: Sequence[str], bounds: Sequence[int]) -> None:
        self._connection = connection
        self._tenant = tenant
        self._fields = tuple(fields)
        self._bounds = list(bounds)
        self._labels = [field.removeprefix(LABEL) for field in fields if field.startswith(LABEL)]

    async def prices(self) -> PriceList:
        """Every price there was."""
        tariffs = [TariffRow(*row) for row in await self._connection.fetch(_SQL["tariffs"])]
        return PriceList(tariffs, [PriceRow(*row) for row in await self._connection.fetch(_SQL["prices"])])

    async def entries(self, prices: PriceList) -> list[Entry]:
        """All use, suspensions and waits; reservations that were idle are for whoever knows them to work out."""
        days, left = self._split(prices.moments)
        whole = _cut([(self._bounds[0], self._bounds[-1])], [*self._bounds, *prices.moments])
        found = [] if not days else [entry async for entry in self._days(days)]
        for bounds in left:
            found += await self._pieces("held", "leases", bounds, prices, ("reserved", "borrowed"))
            found += await self._pieces("suspended", "leases", bounds, prices, ("suspended", ""))
            found += await self._pieces("waited", "jobs", bounds, prices, ("waiting", ""))
        for bounds in whole:
            found += await self._pieces("held_still", "leases", bounds, prices, ("reserved", "borrowed"))
            found += await self._pieces("lost", "leases", bounds, prices, ("lost_reserved", "lost_borrowed"))
            found += await self._pieces("suspended_still", "leases", bounds, prices, ("suspended", ""))
            found += await self._pieces("waits_still", "jobs", bounds, prices, ("waiting", ""))
        return found

    async def jobs(self) -> dict[tuple[int, tuple[str, ...], str], int]:
        """How many jobs held something, by period, names and key."""
        counts: dict[tuple[int, tuple[str, ...], str], int] = {}
        sql = self._filled(_SQL["jobs"], "leases")
        for number, names, keys, count in await self._connection.fetch(sql, self._tenant, self._bounds, *self._more()):
            for key in {*_keys(keys), "job"}:
                place = (number - 1, tuple(names), key)
                counts[place] = counts.get(place, 0) + count
        return counts

    def _split(self, moments: Sequence[int]) -> tuple[list[tuple[int, int, int]], list[list[int]]]:
        """Whole days as (period, first day, day after the last), and the bounds of what is left over, in runs."""
        fine = bool(self._labels) or any(field in _FINE for field in self._fields)
        days, left = [], []
        for number, (since, until) in enumerate(pairwise(self._bounds)):
            first, following = -(-since // DAY), until // DAY
            if fine or first >= following:
                left.append((since, until))
                continue
            days.append((number, first, following))
            left += [(since, first * DAY), (following * DAY, until)]
        return days, list(_cut([piece for piece in left if piece[0] < piece[1]], [*self._bounds, *moments]))

    async def _days(self, days: list[tuple[int, int, int]]) -> Any:
        sql = self._filled(_SQL["days"], "days")
        for period, tenant, policy, pool, names, key, tariff, *sums in await self._connection.fetch(
            sql, self._tenant, *map(list, zip(*days, strict=True))
        ):
            yield Entry(period, tenant, policy, pool, tuple(names), key, tariff, *map(int, sums))

    async def _pieces(
        self, source: str, table: str, bounds: list[int], prices: PriceList, measures: tuple[str, str]
    ) -> list[Entry]:
        sql = self._filled(_SQL["cut"].replace("{told}", _SQL[source]), table)
        rows = await self._connection.fetch(sql, self._tenant, bounds, *self._more())
        return [self._entry(row, bounds, prices, measures) for row in rows]

    def _entry(self, row: Any, bounds: list[int], prices: PriceList, measures: tuple[str, str]) -> Entry:
        number, tenant, policy, pool, names, key, *sums = row
        since = bounds[number - 1]
        charged = measures[0] not in ("suspended", "waiting")
        return Entry(
            bisect_right(self._bounds, since) - 1,
            tenant,
            policy,
            pool,
            tuple(names),
            key,
            prices.at(pool, tenant, since) if charged else NO_TARIFF,
            **{measure: int(amount) for measure, amount in zip(measures, sums, strict=True) if measure},
        )

    def _more(self) -> tuple[list[str], ...]:
        return (self._labels,) if self._labels else ()

    def _filled(self, sql: str, table: str) -> str:
        """A statement with the fields asked for; everything that is put into it stands above."""
        names = ", ".join(self._column(field, table) for field in self._fields)
        joined = " JOIN headrace.jobs ON jobs.job = leases.job" if self._labels and table == "leases" else ""
        filled = sql.replace("{names}", f"ARRAY[{names}]::text[]").replace("{jobs}", joined)
        return filled.replace("{begins}", _BEGINS).replace("{ends}", _ENDS)

    def _column(self, field: str, table: str) -> str:
        if field.startswith(LABEL):
            return f"coalesce(jobs.labels ->> ($3::text[])[{self._labels.index(field.removeprefix(LABEL)) + 1}], '')"
        if table == "jobs" and field in _NOWHERE:
            return "''"
        return _COLUMNS[field].format(table)


def _cut(pieces: Sequence[tuple[int, int]], moments: Sequence[int]) -> Iterator[list[int]]:
    """Pieces in order as runs of bounds: pieces that touch are one run, cut at every moment inside."""
    runs: list[list[int]] = []
    for since, until in pieces:
        if runs and runs[-1][-1] == since:
            runs[-1].append(until)
        else:
            runs.append([since, until])
    for run in runs:
        yield sorted({*run, *(moment for moment in moments if run[0] < moment < run[-1])})


def _keys(text: str) -> list[str]:
    """Those of `{"cpu": 1, "gpu": 2}`, or `["cpu", "gpu"]`."""
    return list(msgspec.json.decode(text, type=dict[str, int] | list[str]))
