"""What instances of pools cost their operator in a month (R38): by offer, and for what: booting, jobs of a tenant, or idle. Pure.

The price of an instance is its order's. Until its node joins it boots; then a job has the part whose GPUs it holds, from its grant to its
end, and the rest is idle. Booting and idle are overhead. The parts of one instance and day are rounded so that they add up to its cost of
that day, which is rounded half to even, to a millionth of the currency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from headrace.accounting.books.costs import decimal, rounded
from headrace.accounting.reports import focus
from headrace.accounting.reports.invoice import QUANTITY_DIGITS, InvoiceHeading, csv_text
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import HOUR, format_time

BOOTING, USED, IDLE = "booting", "used", "idle"
COLUMNS = (
    "month",
    "pool",
    "provider",
    "offer",
    "market",
    "instance",
    "provider_id",
    "what",
    "tenant",
    "hours",
    "cost",
    "currency",
)
SPOT = "spot"


class Stay(NamedTuple):
    """An instance while it was there. `price`: of an hour, in millionths; `ended`: when it ended, or up to when the books reach."""

    instance: str
    pool: str
    provider: str
    provider_id: str
    offer: str
    market: str
    price: int
    created: int
    joined: int | None
    ended: int
    gpus: int


class Held(NamedTuple):
    """Units of an instance's GPUs that a job of the tenant held."""

    instance: str
    tenant: str
    since: int
    until: int
    units: int


class InstanceCharge(NamedTuple):
    """The cost of one part of an instance on one day. `units`: microseconds of it, times the units of all its GPUs (`whole`)."""

    since: int
    until: int
    stay: Stay
    what: str
    tenant: str
    units: int
    whole: int
    cost: int


class InstanceMonth(NamedTuple):
    """Contents of a statement of instances."""

    heading: InvoiceHeading
    charges: list[InstanceCharge]

    def text(self, form: str) -> str:
        """The statement as `json`, `csv` or `focus`."""
        if form == "focus":
            return csv_text([focus.COLUMNS, *(_focus_row(self.heading, charge) for charge in self.charges)])
        return _as_csv(self.heading, self.charges) if form == "csv" else _as_json(self.heading, self.charges)


def charges(stays: Iterable[Stay], held: Iterable[Held], bounds: Sequence[int]) -> list[InstanceCharge]:
    """The charges of every instance by day. `bounds`: of the days."""
    by_instance: dict[str, list[Held]] = {}
    for one in held:
        by_instance.setdefault(one.instance, []).append(one)
    return [
        charge
        for stay in sorted(stays)
        for since, until in pairwise(bounds)
        for charge in _of_day(stay, by_instance.get(stay.instance, ()), max(since, stay.created), min(until, stay.ended))
    ]


def _of_day(stay: Stay, held: Iterable[Held], since: int, until: int) -> Iterator[InstanceCharge]:
    if since >= until:
        return
    whole = max(1, stay.gpus) * GPU_UNITS
    booting = whole * max(0, min(until, stay.ended if stay.joined is None else stay.joined) - since)
    used: dict[str, int] = {}
    for one in held:
        if (long := min(until, one.until) - max(since, one.since)) > 0:
            used[one.tenant] = used.get(one.tenant, 0) + long * one.units
    parts = [(BOOTING, "", booting), *((USED, tenant, units) for tenant, units in sorted(used.items()))]
    total = whole * (until - since)
    parts.append((IDLE, "", total - sum(units for _, _, units in parts)))
    so_far = cost_so_far = 0
    for what, tenant, units in parts:
        so_far = min(total, so_far + units)
        cost = rounded(stay.price * so_far, HOUR * whole) - cost_so_far
        cost_so_far += cost
        if units > 0:
            yield InstanceCharge(since, until, stay, what, tenant, units, whole, cost)


def _hours(units: int, whole: int, digits: int = QUANTITY_DIGITS) -> str:
    """Hours of an instance with `digits` decimals, for display."""
    before, after = divmod(rounded(units * 10**digits, HOUR * whole), 10**digits)
    return f"{before}.{after:0{digits}}"


def _rows(heading: InvoiceHeading, found: Iterable[InstanceCharge]) -> list[tuple[str, ...]]:
    """A row for each part of each instance in the month."""
    sums: dict[tuple[Stay, str, str], list[int]] = {}
    for charge in found:
        cell = sums.setdefault((charge.stay, charge.what, charge.tenant), [0, charge.whole, 0])
        cell[0] += charge.units
        cell[2] += charge.cost
    return [
        (
            *(heading.month, stay.pool, stay.provider, stay.offer, stay.market, stay.instance, stay.provider_id),
            *(what, tenant, _hours(units, whole), decimal(cost), heading.currency),
        )
        for (stay, what, tenant), (units, whole, cost) in sums.items()
    ]


def _as_csv(heading: InvoiceHeading, found: Sequence[InstanceCharge]) -> str:
    return csv_text([COLUMNS, *_rows(heading, found)])


def _as_json(heading: InvoiceHeading, found: Sequence[InstanceCharge]) -> str:
    document: dict[str, Any] = {
        "month": heading.month,
        "timezone": heading.timezone,
        "since": format_time(heading.since),
        "until": format_time(heading.until),
        "final": heading.final,
        "reaches": format_time(heading.reaches),
        "currency": heading.currency,
        "lines": [dict(zip(COLUMNS[1:-1], row[1:-1], strict=True)) for row in _rows(heading, found)],
        "by_offer": _sums((f"{one.stay.pool}/{one.stay.offer}", one.cost) for one in found),
        "by_what": _sums((one.what, one.cost) for one in found),
        "by_tenant": _sums((one.tenant, one.cost) for one in found if one.tenant),
        "overhead": decimal(sum(one.cost for one in found if one.what != USED)),
        "total": decimal(sum(one.cost for one in found)),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _sums(costs: Iterable[tuple[str, int]]) -> dict[str, str]:
    sums: dict[str, int] = {}
    for name, cost in costs:
        sums[name] = sums.get(name, 0) + cost
    return {name: decimal(cost) for name, cost in sorted(sums.items())}


def _focus_row(heading: InvoiceHeading, charge: InstanceCharge) -> focus.FocusRow:
    """The provider's charge as far as the ledger knows it: an hour of an instance at the price of its offer."""
    stay, cost, unit = charge.stay, decimal(charge.cost), "Hours"
    amount = _hours(charge.units, charge.whole, focus.DIGITS)
    nulls = dict.fromkeys((name for name in focus.COLUMNS if name.startswith("CommitmentDiscount")), focus.NULL)
    tags = {"headrace/pool": stay.pool, "headrace/offer": stay.offer, "headrace/what": charge.what}
    return focus.FocusRow(
        **nulls,
        BilledCost=cost,
        BillingAccountId=stay.provider,
        BillingAccountName=stay.provider,
        BillingCurrency=heading.currency,
        BillingPeriodEnd=focus.moment(heading.until),
        BillingPeriodStart=focus.moment(heading.since),
        ChargeCategory="Usage",
        ChargeClass=focus.NULL,
        ChargeDescription=f"{charge.what} hours of instance {stay.instance} by offer {stay.offer} of pool {stay.pool}",
        ChargeFrequency="Usage-Based",
        ChargePeriodEnd=focus.moment(charge.until),
        ChargePeriodStart=focus.moment(charge.since),
        ConsumedQuantity=amount,
        ConsumedUnit=unit,
        ContractedCost=cost,
        ContractedUnitPrice=decimal(stay.price),
        EffectiveCost=cost,
        InvoiceIssuerName=stay.provider,
        ListCost=cost,
        ListUnitPrice=decimal(stay.price),
        PricingCategory="Dynamic" if stay.market == SPOT else "Standard",
        PricingQuantity=amount,
        PricingUnit=unit,
        ProviderName=stay.provider,
        PublisherName=stay.provider,
        ResourceId=stay.provider_id or stay.instance,
        ResourceName=stay.instance,
        ResourceType="Instance",
        ServiceCategory="Compute",
        ServiceName="Instances",
        ServiceSubcategory="Virtual Machines",
        SkuId=f"{stay.pool}/{stay.offer}",
        SkuMeter="Instance-Hours",
        SkuPriceDetails=focus.NULL,
        SkuPriceId=f"{stay.pool}/{stay.offer}/{decimal(stay.price)}",
        SubAccountId=charge.tenant,
        SubAccountName=charge.tenant,
        Tags=msgspec.json.encode(tags | ({"headrace/tenant": charge.tenant} if charge.tenant else {})).decode(),
    )
