"""Sums by hour and by day of intervals that have ended, so that a month's statement depends on days and not on jobs. Pure.

Strategy: sums are stored of what is over (an interval of use, a start, a suspension, a wait, units kept), as differences, so that an
interval that turns out to have been another one is taken out again and the new one put in; what still lasts is added by queries. Hours and
days are those of UTC: any other period is whole hours, and a rest that is read from the intervals themselves. There are three tables, each
with no more than its queries need: days and hours by account, and hours by node, where accounts would make as many rows as there are jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from headrace.accounting.books.meter import Closed
from headrace.accounting.books.tariffs import NO_TARIFF, Tariffs
from headrace.contracts.values.amounts import Amounts, without_models
from headrace.contracts.values.durations import DAY, HOUR

HOURS_A_DAY = DAY // HOUR


class RollupAccount(NamedTuple):
    """The account of an amount; `pool` is empty before a grant. `node`: where it is, not a part of the account."""

    tenant: str
    group: str
    policy: str
    profile: str
    user: str
    service_account: bool
    pool: str
    node: str = ""


class SumRow(NamedTuple):
    """A difference of one account's amounts of one key on one day, or in one hour, at one tariff; in unit-microseconds.

    `number`: days, or hours, since 1970.
    """

    number: int
    tenant: str
    group_name: str
    policy: str
    profile: str
    user_name: str
    service_account: bool
    pool: str
    key: str
    tariff: int
    reserved: int
    borrowed: int
    suspended: int
    waiting: int
    kept: int
    provider_lost: int


class NodeSumRow(NamedTuple):
    """A difference of a tenant's amounts of one key on one node in one hour."""

    hour: int
    tenant: str
    pool: str
    node: str
    key: str
    tariff: int
    reserved: int
    borrowed: int
    suspended: int
    kept: int
    provider_lost: int


class Summed(NamedTuple):
    """Differences, each table in the order of its rows."""

    days: list[SumRow]
    hours: list[SumRow]
    nodes: list[NodeSumRow]


_RESERVED, _BORROWED, _SUSPENDED, _WAITING, _KEPT, _PROVIDER_LOST = range(6)
_OF_NODES = (_RESERVED, _BORROWED, _SUSPENDED, _KEPT, _PROVIDER_LOST)
_NOTHING = (0, 0, 0, 0, 0, 0)

_Table: TypeAlias = dict[tuple[Any, ...], list[int]]


class Rollups:
    """Collects differences until they are taken. `span`: the finest sum, an hour or a day."""

    def __init__(self, tariffs: Tariffs, span: int = HOUR) -> None:
        self._tariffs = tariffs
        self._span = span
        self._table: dict[tuple[int, RollupAccount, str, int], list[int]] = {}

    def held(self, key: str, closed: Iterable[Closed]) -> None:
        """Add use of a key, reserved and borrowed, priced at the tariff of its time; tags are accounts."""
        table, only, span = self._table, self._tariffs.only, self._span
        for account, since, until, reserved, borrowed in closed:
            tariff, number = only(account.pool, account.tenant, since), since // span
            if tariff is not None and until <= (number + 1) * span:  # nearly all short intervals
                place = (number, account, key, tariff)
                cell = table.get(place)
                if cell is None:
                    cell = table[place] = [*_NOTHING]
                cell[_RESERVED] += reserved * (until - since)
                cell[_BORROWED] += borrowed * (until - since)
                continue
            for begun, ended, tariff in self._tariffs.pieces(account.pool, account.tenant, since, until):
                self._add(account, key, tariff, begun, ended, ((_RESERVED, reserved), (_BORROWED, borrowed)))

    def suspended(self, account: RollupAccount, key: str, units: int, since: int, until: int) -> None:
        """Add units that a suspended job would have held; not charged (R29)."""
        self._add(account, key, NO_TARIFF, since, until, ((_SUSPENDED, units),))

    def kept(self, account: RollupAccount, key: str, units: int, since: int, until: int) -> None:
        """Add free units that were kept for a job; not charged (R37)."""
        self._add(account, key, NO_TARIFF, since, until, ((_KEPT, units),))

    def provider_lost(self, account: RollupAccount, amounts: Amounts, since: int, until: int) -> None:
        """Add what a lease held before its job ran; not charged (R36, R37)."""
        for key, units in amounts.items():
            self._add(account, key, NO_TARIFF, since, until, ((_PROVIDER_LOST, units),))

    def waited(self, account: RollupAccount, amounts: Amounts, since: int, until: int) -> None:
        """Add a job's request while it was pending; which GPU model it would be granted was open (R43)."""
        for key, units in without_models(amounts).items():
            self._add(account, key, NO_TARIFF, since, until, ((_WAITING, units),))

    def take(self) -> Summed:
        """All differences since the last call that are not zero."""
        cells, self._table = self._table, {}
        days: _Table = {}
        hours: _Table = {}
        nodes: _Table = {}
        hourly = self._span == HOUR
        for (number, account, key, tariff), cell in cells.items():
            *name, node = account
            day = number // HOURS_A_DAY if hourly else number
            _merge(days, (day, *name, key, tariff), cell)
            if hourly:
                _merge(hours, (number, *name, key, tariff), cell)
            if hourly and node:
                _merge(nodes, (number, account.tenant, account.pool, node, key, tariff), cell)
        return Summed(
            sorted(SumRow(*place, *cell) for place, cell in days.items() if any(cell)),
            sorted(SumRow(*place, *cell) for place, cell in hours.items() if any(cell)),
            sorted(NodeSumRow(*place, *(cell[measure] for measure in _OF_NODES)) for place, cell in nodes.items() if any(cell)),
        )

    def _add(
        self, account: RollupAccount, key: str, tariff: int, since: int, until: int, measures: tuple[tuple[int, int], ...]
    ) -> None:
        table, span = self._table, self._span
        number = since // span
        while since < until:
            ends = min(until, (number + 1) * span)
            place = (number, account, key, tariff)
            cell = table.get(place)
            if cell is None:
                cell = table[place] = [*_NOTHING]
            for measure, units in measures:
                cell[measure] += units * (ends - since)
            since, number = ends, number + 1


def _merge(table: _Table, place: tuple[Any, ...], cell: list[int]) -> None:
    """Add a cell; the list of a single one is shared until another is added."""
    there = table.get(place)
    table[place] = cell if there is None else [one + more for one, more in zip(there, cell, strict=True)]
