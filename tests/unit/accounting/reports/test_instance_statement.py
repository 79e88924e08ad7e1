"""What instances cost: booting, jobs and idle time add up to the price of each instance and day."""

from __future__ import annotations

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from headrace.accounting.books.charges import days
from headrace.accounting.books.costs import rounded
from headrace.accounting.reports.instance_statement import COLUMNS, Held, InstanceMonth, Stay, charges
from headrace.accounting.reports.invoice import InvoiceHeading
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import DAY, HOUR, MINUTE
from tests.unit.accounting.reports.focus_columns import violations_of

HEADING = InvoiceHeading("", "2026-11", "UTC", 0, 30 * DAY, "EUR", final=True, reaches=30 * DAY)
STAY = Stay("cloud-1", "cloud", "ec2", "us-east-1/i-1", "spot-b", "spot", 6_000_000, DAY, DAY + HOUR, DAY + 5 * HOUR, 2)
HALF = Held("cloud-1", "acme", DAY + HOUR, DAY + 3 * HOUR, GPU_UNITS)
WHOLE = Held("cloud-1", "beta", DAY + 4 * HOUR, DAY + 5 * HOUR, 2 * GPU_UNITS)


def parts(*held: Held, stay: Stay = STAY, bounds: tuple[int, ...] = (0, DAY, 2 * DAY)) -> list[tuple[str, str, int]]:
    return [(one.what, one.tenant, one.cost) for one in charges([stay], held, bounds)]


def test_the_cost_of_an_instance_is_split_among_booting_its_jobs_and_idle_time() -> None:
    assert parts(HALF, WHOLE) == [
        ("booting", "", 6_000_000),
        ("used", "acme", 6_000_000),
        ("used", "beta", 6_000_000),
        ("idle", "", 12_000_000),
    ]


def test_an_instance_whose_node_never_joined_boots_all_the_time() -> None:
    assert parts(stay=STAY._replace(joined=None, gpus=0)) == [("booting", "", 30_000_000)]


def test_an_instance_is_cut_at_the_ends_of_days_and_of_the_month() -> None:
    over = STAY._replace(joined=DAY, ended=3 * DAY)
    found = charges([over], [Held("cloud-1", "acme", DAY + 23 * HOUR, DAY + 25 * HOUR, 2 * GPU_UNITS)], days(0, 2 * DAY + HOUR))
    assert [(one.since, one.until, one.what, one.cost) for one in found] == [
        (DAY, 2 * DAY, "used", 6_000_000),
        (DAY, 2 * DAY, "idle", 23 * 6_000_000),
        (2 * DAY, 2 * DAY + HOUR, "used", 6_000_000),
    ]


@given(
    st.integers(0, 10**8),
    st.lists(st.tuples(st.integers(0, DAY), st.integers(0, DAY), st.integers(0, GPU_UNITS // 4)), max_size=4),
    st.integers(0, DAY),
)
def test_the_parts_of_a_day_add_up_to_its_cost_and_none_is_negative(
    price: int, leases: list[tuple[int, int, int]], end: int
) -> None:
    stay = STAY._replace(price=price, created=0, joined=min(end, 7 * MINUTE), ended=end)
    held = [Held("cloud-1", f"t{number % 2}", stay.joined + a, b, units) for number, (a, b, units) in enumerate(leases)]
    found = charges([stay], held, [0, DAY])
    assert sum(one.cost for one in found) == rounded(price * end, HOUR)
    assert all(one.cost >= 0 for one in found)


def test_every_form_has_the_same_total_and_the_export_is_as_focus_asks() -> None:
    month = InstanceMonth(HEADING, charges([STAY], [HALF, WHOLE], (0, DAY, 2 * DAY)))
    document = json.loads(month.text("json"))
    assert (document["by_what"], document["by_offer"], document["by_tenant"], document["overhead"], document["total"]) == (
        {"booting": "6.000000", "idle": "12.000000", "used": "12.000000"},
        {"cloud/spot-b": "30.000000"},
        {"acme": "6.000000", "beta": "6.000000"},
        "18.000000",
        "30.000000",
    )
    rows = list(csv.reader(io.StringIO(month.text("csv"))))
    assert (tuple(rows[0]), rows[1][-5:], len(rows)) == (COLUMNS, ["booting", "", "1.000000", "6.000000", "EUR"], 5)
    assert document["lines"][0]["what"] == "booting"
    text = month.text("focus")
    assert violations_of(text) == []
    (booting, used, *_) = csv.DictReader(io.StringIO(text))
    shown = ("ProviderName", "ResourceId", "PricingCategory", "ConsumedQuantity", "ConsumedUnit", "BilledCost", "SubAccountId")
    assert [[row[column] for column in shown] for row in (booting, used)] == [
        ["ec2", "us-east-1/i-1", "Dynamic", "1.000000000000", "Hours", "6.000000", ""],
        ["ec2", "us-east-1/i-1", "Dynamic", "1.000000000000", "Hours", "6.000000", "acme"],
    ]
    assert json.loads(used["Tags"])["headrace/what"] == "used"
