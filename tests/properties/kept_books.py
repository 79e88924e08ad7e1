"""Books of a ledger as accounting keeps them, to be compared with those of the bookkeeper."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from headrace.accounting.books.aggregate import AggregateKey, AggregateLine, PeriodSum
from headrace.accounting.books.books import MEMORY, Books
from headrace.accounting.books.costs import PriceList, hour_of
from headrace.accounting.books.rows import LeaseRow
from headrace.accounting.books.tariffs import NO_TARIFF
from headrace.contracts.values.durations import DAY
from headrace.contracts.values.money import MILLION
from headrace.domain.fold.ledger import FoldedLedger
from tests.unit.accounting.conftest import Tables

FIELDS = ("tenant", "group", "user", "service_account", "pool", "policy", "profile")


def kept(messages, bundle: int, reopened: frozenset[int]) -> tuple[Tables, FoldedLedger]:
    """The books of a ledger, settled now and then, and closed and opened again behind some of its records."""
    ledger, tables = FoldedLedger(), Tables()
    books = Books(ledger.state)
    for message in messages:
        record = ledger.read(message)
        books.enter(message, record, "" if record is not None else ledger.void_reason)
        if message.sequence % bundle == 0 or message.sequence in reopened:
            tables.settle(books)
        if message.sequence in reopened:
            books = Books(ledger.state, tables.position)
            tables.restore(books, ledger.state.now - MEMORY)
    return tables.settle(books), ledger


def entries(tables: Tables, prices: PriceList, days: range, now: int) -> Iterator[PeriodSum]:
    """What the reader of the database does for whole days: sums of what is over, and what lasts in pieces."""
    for (day, tenant, group, policy, profile, user, service, pool, key, tariff), sums in tables.days.items():
        names = (tenant, group, user, user if service else "", pool, policy, profile)
        yield PeriodSum(day - days[0], tenant, policy, pool, names, key, tariff, *sums)
    yield from _lasting(tables, Pieces(prices, days), now)
    yield from _waiting(tables, days, now)
    yield from _kept(tables, days, now)


class Pieces(NamedTuple):
    """Cuts what a lease had at every midnight and wherever a price changed."""

    prices: PriceList
    days: range

    def of(self, lease: LeaseRow, key: str, since: int, until: int, **units: int) -> Iterator[PeriodSum]:
        service = lease.user_name if lease.service_account else ""
        names = (lease.tenant, lease.group_name, lease.user_name, service, lease.pool, lease.policy, lease.profile)
        cuts = {day * DAY for day in self.days} | set(self.prices.moments)
        for begun, ended in pairwise(sorted({since, until, *(moment for moment in cuts if since < moment < until)})):
            tariff = self.prices.at(lease.pool, lease.tenant, begun)
            spans = {measure: amount * (ended - begun) for measure, amount in units.items()}
            yield PeriodSum(begun // DAY - self.days[0], lease.tenant, lease.policy, lease.pool, names, key, tariff, **spans)


def _lasting(tables: Tables, pieces: Pieces, now: int) -> Iterator[PeriodSum]:
    for (number, key, since), use in tables.usage.items():
        lease, until = LeaseRow(**tables.leases[number]), use.until or now
        if use.until is None and since < now:
            yield from pieces.of(lease, key, since, now, reserved=use.reserved, borrowed=use.borrowed)
        if lease.lost_from is not None:
            begun, ended = max(since, lease.lost_from), min(until, lease.lost_until)
            if begun < ended:
                yield from pieces.of(lease, key, begun, ended, lost_reserved=use.reserved, lost_borrowed=use.borrowed)
    for row in tables.leases.values():
        lease = LeaseRow(**row)
        if lease.charged_at is None and lease.ended_at is None and lease.granted_at < now:
            for key, units in lease.amounts.items():
                for entry in pieces.of(lease, key, lease.granted_at, now, provider_lost=units):
                    yield entry._replace(tariff=NO_TARIFF)
    for suspension in tables.suspensions.values():
        if suspension.until is None and suspension.since < now:
            lease = LeaseRow(**tables.leases[suspension.lease])
            yield from pieces.of(lease, "gpu", suspension.since, now, suspended=suspension.units)


def _waiting(tables: Tables, days: range, now: int) -> Iterator[PeriodSum]:
    for job in tables.jobs.values():
        since = job.waiting_since
        if since is not None and since < now:
            asks = {key: units * job.replicas for key, units in job.request.items()} | {"job": 1}
            service = job.user_name if job.service_account else ""
            names = (job.tenant, job.group_name, job.user_name, service, "", job.policy, job.profile)
            midnights = (day * DAY for day in days)
            for begun, ended in pairwise([since, *(moment for moment in midnights if since < moment < now), now]):
                for key, units in asks.items():
                    yield PeriodSum(
                        begun // DAY - days[0], job.tenant, job.policy, "", names, key, 0, waiting=units * (ended - begun)
                    )


def _kept(tables: Tables, days: range, now: int) -> Iterator[PeriodSum]:
    for row in tables.kept.values():
        if row.until is None and row.since < now:
            service = row.user_name if row.service_account else ""
            names = (row.tenant, row.group_name, row.user_name, service, row.pool, row.policy, row.profile)
            midnights = (day * DAY for day in days)
            for begun, ended in pairwise([row.since, *(moment for moment in midnights if row.since < moment < now), now]):
                period, kept = begun // DAY - days[0], row.units * (ended - begun)
                yield PeriodSum(period, row.tenant, row.policy, row.pool, names, row.key, 0, kept=kept)


EXACT = ("reserved", "borrowed", "idle", "suspended", "waiting", "kept", "provider_lost", "lost")


def differences(
    found: dict[AggregateKey, AggregateLine], expected: dict[tuple[int, tuple[str, ...], str], dict[str, Fraction]]
) -> dict[Any, Any]:
    """Lines that are not the same, and what each side has; costs in millionths, before they are rounded."""
    ours = {
        tuple(place): {name: getattr(line, name) for name in EXACT}
        | {"cost": Fraction(line.cost, hour_of(place.key)), "lost_cost": Fraction(line.lost_cost, hour_of(place.key))}
        for place, line in found.items()
        if any(getattr(line, name) for name in EXACT)
    }
    theirs = {
        place: {name: int(line[name]) for name in EXACT} | {name: line[name] * MILLION for name in ("cost", "lost_cost")}
        for place, line in expected.items()
    }
    return {
        place: (ours.get(place), theirs.get(place))
        for place in ours.keys() | theirs.keys()
        if ours.get(place) != theirs.get(place)
    }
