from __future__ import annotations

from headrace.accounting.meter import Closed
from headrace.accounting.sums import Account, DayRow, Sums
from headrace.accounting.tariffs import TariffRow, Tariffs
from headrace.contracts.durations import DAY
from headrace.domain.state import State

ME = Account("acme", "rnd", "p", "any", "alice", False, "hq")


def row(day: int, key: str, tariff: int, *sums: int) -> DayRow:
    return DayRow(day, "acme", "rnd", "p", "any", "alice", False, "hq", key, tariff, *sums)


def test_what_lasts_over_midnight_is_split_by_day_and_by_tariff() -> None:
    tariffs = Tariffs(State())
    tariffs.restore([TariffRow(7, "hq", "", 2 * DAY + 5, spot=False)], [])
    sums = Sums(tariffs)
    sums.held("gpu", [Closed(ME, DAY - 10, 2 * DAY + 20, 3, 1)])
    assert sums.take() == [
        row(0, "gpu", 0, 30, 10, 0, 0),
        row(1, "gpu", 0, 3 * DAY, DAY, 0, 0),
        row(2, "gpu", 0, 15, 5, 0, 0),
        row(2, "gpu", 7, 45, 15, 0, 0),
    ]
    assert sums.take() == []


def test_an_interval_that_was_another_one_after_all_leaves_the_difference() -> None:
    sums = Sums(Tariffs(State()))
    sums.held("gpu", [Closed(ME, 0, 10, 2, 0), Closed(ME, 0, 10, -2, 0), Closed(ME, 0, 10, 0, 2)])
    sums.held("cpu", [Closed(ME, 0, 10, 2, 0), Closed(ME, 0, 10, -2, 0)])
    assert sums.take() == [row(0, "gpu", 0, 0, 20, 0, 0)]


def test_suspensions_and_waits_are_charged_to_nobody_so_they_have_no_tariff() -> None:
    sums = Sums(Tariffs(State()))
    sums.suspended(ME, "gpu", 4, 0, 10)
    sums.waited(ME, {"gpu": 1, "job": 1}, 0, 3)
    assert sums.take() == [row(0, "gpu", 0, 0, 0, 40, 3), row(0, "job", 0, 0, 0, 0, 3)]
