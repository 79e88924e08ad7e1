"""Adds entries up into lines: by period, names and key; with idle reservations, and costs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.accounting.books.costs import PriceList, hour_of, rounded
from headrace.accounting.books.rows import ReservationRow


class PeriodSum(NamedTuple):
    """A sum over one period, in unit-microseconds: `names` are the values of the fields asked for."""

    period: int
    tenant: str
    policy: str
    pool: str
    names: tuple[str, ...]
    key: str
    tariff: int
    reserved: int = 0
    borrowed: int = 0
    suspended: int = 0
    waiting: int = 0
    kept: int = 0
    provider_lost: int = 0
    lost_reserved: int = 0
    lost_borrowed: int = 0


@dataclass(slots=True)
class AggregateLine:
    """Sums of one line in unit-microseconds; `cost` and `lost_cost` are exact until they are `priced`: millionths times an hour."""

    reserved: int = 0
    borrowed: int = 0
    idle: int = 0
    suspended: int = 0
    waiting: int = 0
    kept: int = 0
    provider_lost: int = 0
    lost: int = 0
    cost: int = 0
    lost_cost: int = 0

    def add(self, entry: PeriodSum, rates: tuple[int, int]) -> None:
        """Add an entry, at (on demand, reserved)."""
        on_demand, reserved = rates
        self.reserved += entry.reserved
        self.borrowed += entry.borrowed
        self.suspended += entry.suspended
        self.waiting += entry.waiting
        self.kept += entry.kept
        self.provider_lost += entry.provider_lost
        self.lost += entry.lost_reserved + entry.lost_borrowed
        self.cost += entry.reserved * reserved + entry.borrowed * on_demand
        self.lost_cost += entry.lost_reserved * reserved + entry.lost_borrowed * on_demand

    def priced(self, key: str) -> tuple[int, int]:
        """The cost, and the part of it that was lost, each rounded once to a millionth."""
        return rounded(self.cost, hour_of(key)), rounded(self.lost_cost, hour_of(key))


class AggregateKey(NamedTuple):
    """Key of a line: the number of its period, the values of the fields asked for, and the key."""

    period: int
    names: tuple[str, ...]
    key: str


def lines(
    entries: Iterable[PeriodSum],
    prices: PriceList,
    reservations: Sequence[ReservationRow],
    fields: Sequence[str],
    bounds: Sequence[int],
    cover: Iterable[PeriodSum] | None = None,
) -> dict[AggregateKey, AggregateLine]:
    """Every line that is not empty, in order. `bounds` are those of the periods; `reservations` are ordered by time.

    `cover`: entries of the same periods that name their policies, if the others do not.
    """
    entries = list(entries)
    cover = entries if cover is None else cover
    found: dict[AggregateKey, AggregateLine] = {}
    covered: dict[tuple[int, str, str, str], int] = {}
    for entry in entries:
        line = found.setdefault(AggregateKey(entry.period, entry.names, entry.key), AggregateLine())
        line.add(entry, prices.rates(entry.tariff, entry.pool, entry.tenant, entry.key))
    for entry in cover:
        if entry.reserved:
            place = (entry.period, entry.tenant, entry.policy, entry.key)
            covered[place] = covered.get(place, 0) + entry.reserved
    by_policy: dict[tuple[str, str, str], list[ReservationRow]] = {}
    for row in reservations:
        by_policy.setdefault((row.tenant, row.policy, row.key), []).append(row)
    for (tenant, policy, key), rows in by_policy.items():
        for period in range(len(bounds) - 1):
            whole, group = _reserved(rows, bounds[period], bounds[period + 1])
            idle = whole - covered.get((period, tenant, policy, key), 0)
            if idle:
                known = {"tenant": tenant, "group": group, "policy": policy}
                names = tuple(known.get(field, "") for field in fields)
                found.setdefault(AggregateKey(period, names, key), AggregateLine()).idle += idle
    return dict(sorted(found.items()))


def _reserved(rows: Sequence[ReservationRow], since: int, until: int) -> tuple[int, str]:
    """A reservation times the time it was in force in `[since, until)`, and the last group it was for."""
    total, group = 0, ""
    for index, row in enumerate(rows):
        ends = rows[index + 1].since if index + 1 < len(rows) else until
        begun, ended = max(row.since, since), min(ends, until)
        if row.amount and row.since < until:
            group = row.group_name
            total += row.amount * max(0, ended - begun)
    return total, group
