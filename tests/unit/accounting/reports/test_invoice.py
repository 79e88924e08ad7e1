from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pytest

from headrace.accounting.books.aggregate import AggregateLine
from headrace.accounting.books.charges import ON_DEMAND, RESERVED, Charge, ChargedAccount
from headrace.accounting.books.costs import hour_of
from headrace.accounting.reports.invoice import COLUMNS, InvoiceHeading, as_csv, as_json, items, quantity, unit_of
from headrace.contracts.values.durations import DAY

HOUR = hour_of("gpu")
HEADING = InvoiceHeading("acme", "2026-11", "UTC", 0, 30 * DAY, "EUR", final=True, reaches=30 * DAY)


def charge(day: int, tariff: int, kind: str, rate: int, units: int, cost: int) -> Charge:
    account = ChargedAccount("acme", "rnd", "p", "any", "alice", "", "hq", "gpu", tariff, kind == RESERVED)
    return Charge(day * DAY, (day + 1) * DAY, account, kind, rate, rate, rate, units, cost)


CHARGES = [
    charge(0, 1, ON_DEMAND, 2_500_000, HOUR, 2_500_000),
    charge(1, 2, ON_DEMAND, 2_500_000, HOUR // 3, 833_333),
    charge(1, 2, RESERVED, 1_000_000, HOUR, 1_000_000),
]


def test_a_line_is_everything_of_an_account_at_one_rate_whichever_tariff_said_it() -> None:
    assert [(item.kind, item.rate, item.units, item.cost) for item in items(CHARGES)] == [
        (ON_DEMAND, 2_500_000, HOUR + HOUR // 3, 3_333_333),
        (RESERVED, 1_000_000, HOUR, 1_000_000),
    ]


def test_the_lines_add_up_to_the_total_to_the_last_digit_in_both_forms() -> None:
    lines = items(CHARGES)
    rows = list(csv.DictReader(io.StringIO(as_csv(HEADING, lines))))
    assert tuple(rows[0]) == COLUMNS
    assert (rows[0]["unit"], rows[0]["quantity"], rows[0]["rate"], rows[0]["cost"]) == (
        "GPU-Hours",
        "1.333333",
        "2.500000",
        "3.333333",
    )
    assert sum(Decimal(row["cost"]) for row in rows[:-1]) == Decimal(rows[-1]["cost"]) == Decimal("4.333333")
    assert (rows[-1]["rate"], rows[-1]["quantity"]) == ("", "total")
    document = json.loads(
        as_json(HEADING, lines, {"gpu": AggregateLine(reserved=HOUR, idle=2 * HOUR, lost=HOUR, lost_cost=HOUR * 1_000_000)})
    )
    assert document["total"] == "4.333333"
    assert document["by_kind"] == {ON_DEMAND: "3.333333", RESERVED: "1.000000"}
    assert document["by_group"] == {"rnd": "4.333333"}
    assert document["by_pool"] == {"hq": "4.333333"}
    assert document["hours"]["gpu"] == {
        "reserved": "1.000000",
        "borrowed": "0.000000",
        "idle": "2.000000",
        "suspended": "0.000000",
        "waiting": "0.000000",
        "kept": "0.000000",
        "provider_lost": "0.000000",
        "lost": "1.000000",
    }
    assert document["lost_to_preemption"] == "1.000000"
    assert "reaches" not in document


def test_what_is_not_final_says_so_and_how_far_it_reaches() -> None:
    heading = HEADING._replace(final=False, reaches=DAY)
    assert json.loads(as_json(heading, [], {}))["reaches"] == "1970-01-02T00:00:00.000Z"
    assert as_csv(heading, []).splitlines()[1] == "2026-11,acme,,,,,,,,,,,total so far,0.000000,EUR"


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (0, "0.000000"),
        (HOUR // 2, "0.500000"),
        (HOUR // 3, "0.333333"),
        (2 * HOUR // 3, "0.666667"),
        (10**9 * HOUR, "1000000000.000000"),
    ],
)
def test_a_quantity_is_hours_to_six_digits(units: int, text: str) -> None:
    assert quantity("gpu", units) == text


def test_units_are_named_as_people_count_them() -> None:
    assert [unit_of(key) for key in ("gpu", "cpu", "memory", "license/abaqus")] == [
        "GPU-Hours",
        "CPU-Hours",
        "GiB-Hours",
        "license/abaqus-Hours",
    ]


def test_hours_of_a_governed_model_have_a_unit_of_their_own_and_costs_add_up_once() -> None:  # R43
    model = "gpu:H100-80GB"
    account = CHARGES[0].account
    beside = Charge(0, DAY, account._replace(key=model), ON_DEMAND, 1_000_000, 1_000_000, 1_000_000, HOUR, 1_000_000)
    lines = items([CHARGES[0], beside])
    assert [(unit_of(item.account.key), quantity(item.account.key, item.units), item.cost) for item in lines] == [
        ("GPU-Hours", "1.000000", 2_500_000),
        ("H100-80GB-Hours", "1.000000", 1_000_000),
    ]
    whole = {"gpu": AggregateLine(borrowed=HOUR), model: AggregateLine(borrowed=HOUR)}
    document = json.loads(as_json(HEADING, lines, whole))
    assert (document["total"], document["by_pool"], document["by_kind"]) == (
        "3.500000",
        {"hq": "3.500000"},
        {ON_DEMAND: "3.500000"},
    )
    assert {key: one["borrowed"] for key, one in document["hours"].items()} == {"gpu": "1.000000", model: "1.000000"}
