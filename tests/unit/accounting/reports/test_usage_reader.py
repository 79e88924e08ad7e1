from __future__ import annotations

from typing import Any

import pytest

from headrace.accounting.books.aggregate import PeriodSum
from headrace.accounting.books.costs import PriceList
from headrace.accounting.books.tariffs import TariffRow
from headrace.accounting.reports.usage_reader import LONG, SUMS_MAX, TooManyLines, UsageReader
from headrace.contracts.values.durations import DAY, HOUR

ALL = ("held", "suspended", "kept", "provider_lost", "waited")


class Asked:
    """A connection that answers nothing, or `rows` to every question, and remembers what it was asked."""

    def __init__(self, rows: list[Any] | None = None) -> None:
        self.sums: dict[str, list[tuple[int, int, int]]] = {}
        self.intervals: dict[str, list[list[int]]] = {}
        self.plans: list[str] = []
        self._rows = rows or []

    async def execute(self, sql: str) -> None:
        self.plans.append(sql)

    async def fetch(self, sql: str, _tenant: str, *more: Any) -> list[Any]:
        name = next((name for name in ("days", "node_hours", "hours") if f"headrace.{name}" in sql), "")
        if name:
            waits = name == "hours" and "hours.waiting <> 0" in sql
            self.sums["waits" if waits else name] = list(zip(*more[:3], strict=True))
        elif (
            "several" not in sql
            and "until IS NULL" not in sql
            and "ended_at IS NULL" not in sql
            and "lost_until" not in sql
            and "waiting_since IS NOT NULL" not in sql
        ):
            tables = {
                "usage.reserved": "held",
                "suspensions.units": "suspended",
                "kept.units": "kept",
                "leases.granted_at AS since": "provider_lost",
                "wait.since": "waited",
            }
            table = next(name for mark, name in tables.items() if mark in sql)
            self.intervals.setdefault(table, []).append(more[0])
        return self._rows


async def asked(fields: tuple[str, ...], bounds: list[int], moments: tuple[int, ...] = ()) -> Asked:
    connection = Asked()
    prices = PriceList([TariffRow(moment, "hq", "", moment, spot=False) for moment in moments], [])
    assert await UsageReader(connection, "acme", fields, bounds).entries(prices) == []
    return connection


async def test_whole_days_and_hours_are_read_from_their_sums_and_the_ends_from_the_intervals() -> None:
    found = await asked(("group",), [DAY - 2 * HOUR - 10, 3 * DAY, 3 * DAY + HOUR + 20, 6 * DAY - 5])
    assert found.sums == {"days": [(0, 1, 3), (2, 4, 5)], "hours": [(0, 22, 24), (1, 72, 73), (2, 74, 96), (2, 120, 143)]}
    ends = [
        [DAY - 2 * HOUR - 10, DAY - 2 * HOUR],
        [3 * DAY + HOUR, 3 * DAY + HOUR + 20, 3 * DAY + 2 * HOUR],
        [6 * DAY - HOUR, 6 * DAY - 5],
    ]
    assert found.intervals == dict.fromkeys(ALL, ends)


async def test_nodes_have_sums_of_their_own_and_what_waits_is_on_none() -> None:
    found = await asked(("tenant", "node"), [0, DAY + 5])
    assert found.sums == {"node_hours": [(0, 0, 24)], "waits": [(0, 0, 24)]}
    assert found.intervals == {source: [[DAY, DAY + 5]] for source in ALL}


async def test_of_a_node_and_a_group_together_only_what_waits_is_summed() -> None:
    found = await asked(("node", "group"), [0, DAY, 2 * DAY])
    assert found.sums == {"waits": [(0, 0, 24), (1, 24, 48)]}
    assert found.intervals == {source: [[0, DAY, 2 * DAY]] for source in ALL[:4]}


@pytest.mark.parametrize("field", ["job", "label:project"])
async def test_what_no_sums_know_is_read_from_the_intervals_alone(field: str) -> None:
    found = await asked((field,), [0, DAY, 2 * DAY])
    assert found.sums == {}
    assert found.intervals == {source: [[0, DAY, 2 * DAY]] for source in ALL}


async def test_what_is_left_over_is_cut_where_a_price_changed() -> None:
    found = await asked(("job",), [0, DAY], (5, DAY, 2 * DAY))
    assert found.intervals == {source: [[0, 5, DAY]] for source in ALL}


async def test_what_is_asked_of_some_jobs_names_them() -> None:
    connection = Asked()
    reader = UsageReader(connection, "", ("job",), [0, DAY], only=["a.b.c"])
    assert await reader.entries(PriceList([], [])) == []
    assert connection.intervals == {source: [[0, DAY]] for source in ALL}


@pytest.mark.parametrize(
    ("span", "only", "setting"), [(LONG, None, "off"), (LONG - 1, None, "on"), (LONG, ["a.b.c"], "on"), (HOUR, None, "on")]
)
async def test_the_jobs_of_a_long_time_are_not_looked_up_one_by_one(span: int, only: list[str] | None, setting: str) -> None:
    connection = Asked()
    reader = UsageReader(connection, "", ("label:project",), [0, span], only)
    assert await reader.jobs() == {}
    assert connection.plans == [f"SET LOCAL enable_nestloop = {setting}"]


async def test_what_pending_jobs_asked_for_is_taken_apart() -> None:
    reader = UsageReader(Asked([(1, "acme", "p", "", ["x"], [{"gpu": 2, "cpu": 3}, 4], 10, 0)]), "acme", ("job",), [0, DAY])
    found = [entry for entry in await reader.entries(PriceList([], [])) if entry.waiting]
    both = [
        PeriodSum(0, "acme", "p", "", ("x",), key, 0, waiting=units * 10)
        for key, units in (("gpu", 8), ("cpu", 12), ("job", 1))
    ]
    assert found == both * 2


async def test_more_than_any_job_can_hold_is_not_read() -> None:
    with pytest.raises(TooManyLines, match=f"more than {SUMS_MAX} sums; ask for a shorter time"):
        await UsageReader(Asked([()] * (SUMS_MAX + 1)), "acme", ("job",), [0, DAY]).entries(PriceList([], []))
