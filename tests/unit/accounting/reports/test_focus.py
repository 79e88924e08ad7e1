"""Exports in the columns of FOCUS 1.2 (`focus_columns`)."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pytest

from headrace.accounting.books.charges import ON_DEMAND, PROVIDER_LOST, RESERVED, SPOT, Charge, ChargedAccount
from headrace.accounting.books.costs import hour_of, rounded
from headrace.accounting.reports.focus import COLUMNS, as_csv
from headrace.accounting.reports.invoice import InvoiceHeading
from headrace.contracts.values.durations import DAY
from tests.unit.accounting.reports.focus_columns import violations_of

HEADING = InvoiceHeading("acme", "2026-11", "UTC", 0, 30 * DAY, "EUR", final=True, reaches=30 * DAY)


def charge(kind: str, key: str = "gpu", group: str = "rnd", service_account: str = "", units: int = 12_345_678_901) -> Charge:
    account = ChargedAccount("acme", group, "p", "any", "alice", service_account, "hq", key, 7_000, kind == RESERVED)
    return Charge(DAY, 2 * DAY, account, kind, 1_750_000, 2_300_000, 2_500_000, units, rounded(units * 1_750_000, hour_of(key)))


CHARGES = [
    charge(ON_DEMAND),
    charge(RESERVED),
    charge(SPOT),
    charge(ON_DEMAND, "memory", "", "ci"),
    charge(RESERVED, "license/abaqus", units=1),
]


def test_an_export_has_the_columns_and_values_that_focus_asks_for() -> None:
    assert violations_of(as_csv(HEADING, CHARGES)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ProviderName", "Provider"),
        ("Usage-Based", "Often"),
        ("EUR", "Euro"),
        ("1970-01-02T00:00:00Z", "1970-01-09T00:00:00Z"),
        (",Committed,", ",Standard,"),
    ],
)
def test_what_is_not_as_focus_asks_is_complained_of(old: str, new: str) -> None:
    assert violations_of(as_csv(HEADING, CHARGES).replace(old, new)) != []


def test_what_the_provider_lost_is_shown_and_not_billed() -> None:  # R36
    account = ChargedAccount("acme", "rnd", "p", "any", "alice", "", "hq", "gpu", 0, inside=False)
    lost = Charge(DAY, 2 * DAY, account, PROVIDER_LOST, rate=0, own_rate=0, list_rate=0, units=3 * hour_of("gpu") // 2, cost=0)
    text = as_csv(HEADING, [lost])
    assert violations_of(text) == []
    (row,) = csv.DictReader(io.StringIO(text))
    assert {
        column: row[column] for column in ("BilledCost", "EffectiveCost", "ListCost", "ConsumedQuantity", "ConsumedUnit")
    } == {
        "BilledCost": "0.000000",
        "EffectiveCost": "0.000000",
        "ListCost": "0.000000",
        "ConsumedQuantity": "1.500000000000",
        "ConsumedUnit": "GPU-Hours",
    }
    assert row["ChargeDescription"] == "GPU-Hours lost by the provider of p/any in hq"


def test_what_is_billed_is_the_charge_to_the_last_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(HEADING, CHARGES))))
    assert tuple(rows[0]) == COLUMNS
    assert sum(Decimal(row["BilledCost"]) for row in rows) * 10**6 == sum(each.cost for each in CHARGES)
    assert [row["PricingCategory"] for row in rows] == ["Standard", "Committed", "Dynamic", "Standard", "Committed"]
    assert rows[1]["CommitmentDiscountId"] == "acme/p"
    assert json.loads(rows[3]["Tags"]) == {
        "headrace/policy": "p",
        "headrace/profile": "any",
        "headrace/user": "alice",
        "headrace/service-account": "ci",
    }
