"""Prices and their history: which tariff was in force in a pool, for a tenant, at any time. Pure.

A *tariff* is every rate of one pool for one tenant (empty: for all that have no rates of their own there) since a log time. A new one
never changes the past: it begins with the record that states it, and use before that keeps the one before. Rates are integers of
millionths of the installation's currency for an hour of a key (a GPU, a core, a GiB).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headrace.contracts.documents.model import Pool, Share, Tenant
from headrace.contracts.values.money import millionths
from headrace.domain.state.state import State

NO_TARIFF = 0
"""Number of the tariff without any price."""

Place = tuple[str, str]
"""(pool, tenant)."""


class TariffRow(NamedTuple):
    """A tariff: the fact that stated it (sequence * 1000 + place), its pool and tenant, and since when."""

    tariff: int
    pool: str
    tenant: str
    since: int
    spot: bool


class PriceRow(NamedTuple):
    """One rate of a tariff: outside of reservations, and inside."""

    tariff: int
    pool: str
    tenant: str
    key: str
    on_demand: int
    reserved: int


class Rates(NamedTuple):
    """Rates of one tariff by key: (key, on demand, reserved)."""

    spot: bool
    by_key: tuple[tuple[str, int, int], ...]


NO_RATES = Rates(spot=False, by_key=())


def rates_of(pool: Pool, share: Share | None = None) -> Rates:
    """Rates of a pool, or of a tenant with a share there: its own first, then the pool's; without a reserved rate the one on demand."""
    own, own_reserved = (share.price, share.reserved_price) if share is not None else ({}, {})
    rates = []
    for key in sorted({*pool.price, *pool.reserved_price, *own, *own_reserved}):
        on_demand = own.get(key) or pool.price.get(key, "0")
        reserved = own_reserved.get(key) or own.get(key) or pool.reserved_price.get(key) or on_demand
        rates.append((key, millionths(on_demand), millionths(reserved)))
    return Rates(pool.burst is not None and pool.burst.spot, tuple(rates))


class Tariffs:
    """All tariffs so far. `state` is the fold, which has read the facts that state them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._since: dict[Place, list[int]] = {}
        self._numbers: dict[Place, list[int]] = {}
        self._latest: dict[Place, Rates] = {}

    def restore(self, tariffs: Iterable[TariffRow], prices: Iterable[PriceRow]) -> None:
        """Continue from stored tariffs, in their order."""
        by_key: dict[tuple[int, Place], list[tuple[str, int, int]]] = {}
        for price in prices:
            by_key.setdefault((price.tariff, (price.pool, price.tenant)), []).append(
                (price.key, price.on_demand, price.reserved)
            )
        for row in tariffs:
            place = (row.pool, row.tenant)
            self._append(row, Rates(row.spot, tuple(sorted(by_key.get((row.tariff, place), [])))))

    def at(self, pool: str, tenant: str, moment: int) -> int:
        """The number of the tariff in force, or `NO_TARIFF`."""
        for place in ((pool, tenant), (pool, "")):
            since = self._since.get(place)
            if since is not None:
                index = bisect_right(since, moment)
                if index:
                    return self._numbers[place][index - 1]
        return NO_TARIFF

    def only(self, pool: str, tenant: str, moment: int) -> int | None:
        """The tariff in force from `moment` on if it has not changed since; None: use `pieces`."""
        since = self._since.get((pool, ""))
        if (pool, tenant) in self._since or (since is not None and (len(since) > 1 or since[0] > moment)):
            return None
        return NO_TARIFF if since is None else self._numbers[pool, ""][0]

    def pieces(self, pool: str, tenant: str, since: int, until: int) -> Iterator[tuple[int, int, int]]:
        """`since` to `until` in pieces of one tariff each: (since, until, tariff)."""
        changes = {
            moment for place in ((pool, tenant), (pool, "")) for moment in self._since.get(place, ()) if since < moment < until
        }
        for ends in (*sorted(changes), until):
            yield since, ends, self.at(pool, tenant, since)
            since = ends

    def changed(self, number: int, pools: Iterable[str], now: int) -> Iterator[tuple[TariffRow, list[PriceRow]]]:
        """The tariffs that differ from the last ones, of these pools and all tenants with rates of their own there."""
        for name in sorted(pools):
            pool = self._state.pools.get(name)
            if pool is None:
                continue
            shares = dict(self._shares(name))
            known = {tenant for place, tenant in self._since if place == name and tenant}
            for tenant in ("", *sorted(known | shares.keys())):
                rates = rates_of(pool.document, shares.get(tenant))
                if rates == self._latest.get((name, tenant), NO_RATES):
                    continue
                row = TariffRow(number, name, tenant, now, rates.spot)
                self._append(row, rates)
                yield row, [PriceRow(number, name, tenant, *rate) for rate in rates.by_key]

    def _shares(self, pool: str) -> Iterator[tuple[str, Share]]:
        """Tenants with rates of their own in a pool."""
        for name, written in self._state.tenants.items():
            document = written.document
            for share in document.shares if isinstance(document, Tenant) else ():
                if share.pool == pool and (share.price or share.reserved_price):
                    yield name, share

    def _append(self, row: TariffRow, rates: Rates) -> None:
        place = (row.pool, row.tenant)
        self._since.setdefault(place, []).append(row.since)
        self._numbers.setdefault(place, []).append(row.tariff)
        self._latest[place] = rates
