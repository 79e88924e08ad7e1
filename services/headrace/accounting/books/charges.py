"""Charges: the cost of one account on one day, of one key, at one rate. Everything that is billed is a sum of these. Pure.

A charge is rounded once, half to even, to a millionth of the currency (`costs`); statements and exports add charges up and round nothing,
so that they agree with each other to the last digit. A day is one of UTC, cut at the ends of the billing period.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace.accounting.books.aggregate import PeriodSum
from headrace.accounting.books.costs import PriceList, hour_of, rounded
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import DAY

FIELDS = ("group", "profile", "user", "service_account")
"""Fields by which entries are grouped, in addition to the fixed ones."""

RESERVED, ON_DEMAND, SPOT, PROVIDER_LOST = "reserved", "on demand", "spot", "lost by the provider"


class ChargedAccount(NamedTuple):
    """The account of a charge, its key and tariff; `inside` the reservation or not."""

    tenant: str
    group: str
    policy: str
    profile: str
    user: str
    service_account: str
    pool: str
    key: str
    tariff: int
    inside: bool


class Charge(NamedTuple):
    """One charge. `units` are unit-microseconds; rates are millionths an hour: the one applied, the tenant's own on demand, the pool's."""

    since: int
    until: int
    account: ChargedAccount
    kind: str
    rate: int
    own_rate: int
    list_rate: int
    units: int
    cost: int


def days(since: int, until: int) -> list[int]:
    """The bounds of the days of `[since, until)`."""
    return [since, *range((since // DAY + 1) * DAY, until, DAY), until]


def charges(entries: Iterable[PeriodSum], prices: PriceList, bounds: Sequence[int]) -> list[Charge]:
    """Charges in order. Keys without a price are left out, except GPUs, which are always shown.

    GPUs that the provider lost (R36) are shown at a price of zero.
    """
    sums: dict[tuple[int, ChargedAccount, bool], int] = {}
    for entry in entries:
        for inside, units, lost in (
            (True, entry.reserved, False),
            (False, entry.borrowed, False),
            (False, entry.provider_lost, True),
        ):
            if units:
                group, profile, user, service = entry.names
                whose = ChargedAccount(
                    entry.tenant, group, entry.policy, profile, user, service, entry.pool, entry.key, entry.tariff, inside
                )
                sums[entry.period, whose, lost] = sums.get((entry.period, whose, lost), 0) + units
    found = (
        (_loss(account, units, bounds[period], bounds[period + 1]))
        if lost
        else _charge(account, units, prices, bounds[period], bounds[period + 1])
        for (period, account, lost), units in sums.items()
        if units
    )
    return sorted(charge for charge in found if charge.rate or charge.list_rate or charge.account.key == GPU)


def _loss(account: ChargedAccount, units: int, since: int, until: int) -> Charge:
    """A row for what the provider lost, at a cost of zero."""
    return Charge(since, until, account, PROVIDER_LOST, rate=0, own_rate=0, list_rate=0, units=units, cost=0)


def _charge(account: ChargedAccount, units: int, prices: PriceList, since: int, until: int) -> Charge:
    own, reserved = prices.rates(account.tariff, account.pool, account.tenant, account.key)
    general = prices.at(account.pool, "", max(since, prices.since(account.tariff)))
    rate = reserved if account.inside else own
    return Charge(
        since=since,
        until=until,
        account=account,
        kind=SPOT if prices.is_spot(account.tariff, account.pool) else RESERVED if account.inside else ON_DEMAND,
        rate=rate,
        own_rate=own,
        list_rate=prices.rates(general, account.pool, "", account.key)[0],
        units=units,
        cost=rounded(units * rate, hour_of(account.key)),
    )
