"""A tenant's statement of a month: the same bytes at every query, once it is final. Pure.

A statement is *final* when its month is over and nothing lasts that was held in it: then later facts cannot change what was used, and
prices never change the past. Its contents depend on the ledger alone, so books that are rebuilt from the ledger give the same bytes.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.accounting.books.aggregate import AggregateLine
from headrace.accounting.books.charges import Charge, ChargedAccount
from headrace.accounting.books.costs import decimal, hour_of
from headrace.contracts.spreadsheets import cell
from headrace.contracts.values.amounts import CPU, GPU, MEMORY, model_of
from headrace.contracts.values.durations import format_time

UNITS = {GPU: "GPU-Hours", CPU: "CPU-Hours", MEMORY: "GiB-Hours"}
COLUMNS = (
    *("month", "tenant", "group", "policy", "profile", "user", "service_account", "pool", "key", "unit", "kind"),
    *("rate", "quantity", "cost", "currency"),
)
ROUNDING = "each day's charge of an account is rounded once, half to even, to six decimals; all else is a sum of those"
QUANTITY_DIGITS = 6


class _Parts:
    """Text buffer for the module `csv`."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.write = self.parts.append


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows as in RFC 4180, with line feeds at the ends of lines; no cell is a formula."""
    out = _Parts()
    csv.writer(out, lineterminator="\n").writerows(map(cell, row) for row in rows)
    return "".join(out.parts)


class InvoiceHeading(NamedTuple):
    """Heading of a statement. `final`: it will not change any more; if not, it reaches to `reaches`."""

    tenant: str
    month: str
    timezone: str
    since: int
    until: int
    currency: str
    final: bool
    reaches: int


class Item(NamedTuple):
    """A line: all charges of an account at one rate in the month."""

    account: ChargedAccount
    kind: str
    rate: int
    units: int
    cost: int


def unit_of(key: str) -> str:
    """Unit of a quantity of the key."""
    return UNITS.get(key, f"{model_of(key) or key}-Hours")


def quantity(key: str, units: int, digits: int = QUANTITY_DIGITS) -> str:
    """Unit-microseconds as hours with `digits` decimals, half to even; for display, nothing is computed from it."""
    scaled, rest = divmod(units * 10**digits, hour_of(key))
    if 2 * rest > hour_of(key) or (2 * rest == hour_of(key) and scaled % 2):
        scaled += 1
    whole, decimals = divmod(scaled, 10**digits)
    return f"{whole}.{decimals:0{digits}}"


def items(charges: Iterable[Charge]) -> list[Item]:
    """The month's charges, those of an account at one rate together, over all tariffs."""
    sums: dict[tuple[ChargedAccount, str, int], list[int]] = {}
    for charge in charges:
        cell = sums.setdefault((charge.account._replace(tariff=0), charge.kind, charge.rate), [0, 0])
        cell[0] += charge.units
        cell[1] += charge.cost
    return sorted(Item(*place, *cell) for place, cell in sums.items())


def as_csv(heading: InvoiceHeading, lines: Sequence[Item]) -> str:
    """One row for each line, and the total."""
    rows: list[Sequence[str]] = [COLUMNS]
    for item in lines:
        account = item.account
        rows.append(
            (
                *(heading.month, account.tenant, account.group, account.policy, account.profile, account.user),
                *(account.service_account, account.pool, account.key, unit_of(account.key), item.kind, decimal(item.rate)),
                *(quantity(account.key, item.units), decimal(item.cost), heading.currency),
            )
        )
    empty = [""] * (len(COLUMNS) - 5)
    total = decimal(sum(item.cost for item in lines))
    rows.append((heading.month, heading.tenant, *empty, "total" if heading.final else "total so far", total, heading.currency))
    return csv_text(rows)


def as_json(heading: InvoiceHeading, lines: Sequence[Item], whole: Mapping[str, AggregateLine]) -> str:
    """The statement as one document, with the amounts that are not charged. `whole`: all of the tenant, by key."""
    document: dict[str, Any] = {
        "tenant": heading.tenant,
        "month": heading.month,
        "timezone": heading.timezone,
        "since": format_time(heading.since),
        "until": format_time(heading.until),
        "final": heading.final,
        "currency": heading.currency,
        "rounding": ROUNDING,
        "lines": [_line(item) for item in lines],
        "by_kind": _totals((item.kind, item.cost) for item in lines),
        "by_group": _totals((item.account.group, item.cost) for item in lines),
        "by_pool": _totals((item.account.pool, item.cost) for item in lines),
        "hours": {key: _hours(key, line) for key, line in sorted(whole.items())},
        "lost_to_preemption": decimal(sum(line.priced(key)[1] for key, line in whole.items())),
        "total": decimal(sum(item.cost for item in lines)),
    }
    if not heading.final:
        document["reaches"] = format_time(heading.reaches)
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _line(item: Item) -> dict[str, str]:
    account = item.account
    return {
        "group": account.group,
        "policy": account.policy,
        "profile": account.profile,
        "user": account.user,
        "service_account": account.service_account,
        "pool": account.pool,
        "key": account.key,
        "unit": unit_of(account.key),
        "kind": item.kind,
        "rate": decimal(item.rate),
        "quantity": quantity(account.key, item.units),
        "exact": str(item.units),
        "cost": decimal(item.cost),
    }


def _totals(costs: Iterable[tuple[str, int]]) -> dict[str, str]:
    sums: dict[str, int] = {}
    for name, cost in costs:
        sums[name] = sums.get(name, 0) + cost
    return {name: decimal(cost) for name, cost in sorted(sums.items())}


def _hours(key: str, line: AggregateLine) -> dict[str, str]:
    """Every part; reserved and borrowed were charged, lost is a part of them, and the rest was not charged."""
    parts = ("reserved", "borrowed", "idle", "suspended", "waiting", "kept", "provider_lost", "lost")
    return {part: quantity(key, getattr(line, part)) for part in parts}
