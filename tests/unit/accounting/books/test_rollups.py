from __future__ import annotations

from headrace.accounting.books.meter import Closed
from headrace.accounting.books.rollups import NodeSumRow, RollupAccount, Rollups, Summed, SumRow
from headrace.accounting.books.tariffs import TariffRow, Tariffs
from headrace.contracts.values.durations import DAY, HOUR
from headrace.domain.state.state import State

ME = RollupAccount("acme", "rnd", "p", "any", "alice", False, "hq")


def row(number: int, key: str, tariff: int, *sums: int) -> SumRow:
    return SumRow(number, "acme", "rnd", "p", "any", "alice", False, "hq", key, tariff, *sums)


def test_what_lasts_over_midnight_is_split_by_day_and_by_tariff() -> None:
    tariffs = Tariffs(State())
    tariffs.restore([TariffRow(7, "hq", "", 2 * DAY + 5, spot=False)], [])
    sums = Rollups(tariffs)
    sums.held("gpu", [Closed(ME, DAY - 10, 2 * DAY + 20, 3, 1)])
    taken = sums.take()
    assert taken.days == [
        row(0, "gpu", 0, 30, 10, 0, 0, 0, 0),
        row(1, "gpu", 0, 3 * DAY, DAY, 0, 0, 0, 0),
        row(2, "gpu", 0, 15, 5, 0, 0, 0, 0),
        row(2, "gpu", 7, 45, 15, 0, 0, 0, 0),
    ]
    assert taken.hours == [
        row(23, "gpu", 0, 30, 10, 0, 0, 0, 0),
        *(row(hour, "gpu", 0, 3 * HOUR, HOUR, 0, 0, 0, 0) for hour in range(24, 48)),
        row(48, "gpu", 0, 15, 5, 0, 0, 0, 0),
        row(48, "gpu", 7, 45, 15, 0, 0, 0, 0),
    ]
    assert sums.take() == Summed([], [], [])


def test_an_interval_that_was_another_one_after_all_leaves_the_difference() -> None:
    sums = Rollups(Tariffs(State()))
    sums.held("gpu", [Closed(ME, 0, 10, 2, 0), Closed(ME, 0, 10, -2, 0), Closed(ME, 0, 10, 0, 2)])
    sums.held("cpu", [Closed(ME, 0, 10, 2, 0), Closed(ME, 0, 10, -2, 0)])
    only = row(0, "gpu", 0, 0, 20, 0, 0, 0, 0)
    assert sums.take() == Summed([only], [only], [])


def test_suspensions_waits_and_what_was_kept_are_not_charged_so_they_have_no_tariff() -> None:  # R29, R37
    sums = Rollups(Tariffs(State()))
    sums.suspended(ME, "gpu", 4, 0, 10)
    sums.waited(ME, {"gpu": 1, "job": 1}, 0, 3)
    sums.kept(ME, "gpu", 2, 0, 5)
    rows = [row(0, "gpu", 0, 0, 0, 40, 3, 10, 0), row(0, "job", 0, 0, 0, 0, 3, 0, 0)]
    assert sums.take() == Summed(rows, rows, [])


def test_what_a_lease_held_before_its_job_ran_is_lost_by_the_provider_in_every_table() -> None:  # R36, R37
    sums = Rollups(Tariffs(State()))
    sums.provider_lost(ME._replace(node="n1"), {"gpu": 2, "job": 1}, 0, 10)
    rows = [row(0, "gpu", 0, 0, 0, 0, 0, 0, 20), row(0, "job", 0, 0, 0, 0, 0, 0, 10)]
    nodes = [NodeSumRow(0, "acme", "hq", "n1", key, 0, 0, 0, 0, 0, lost) for key, lost in (("gpu", 20), ("job", 10))]
    assert sums.take() == Summed(rows, rows, nodes)


def test_of_what_is_on_nodes_there_are_sums_by_node_too_and_a_node_is_not_a_part_of_an_account() -> None:
    sums = Rollups(Tariffs(State()))
    sums.held("gpu", [Closed(ME._replace(node=node), 0, 10, 2, 1) for node in ("n1", "n2")])
    sums.kept(ME._replace(node="n1"), "gpu", 3, HOUR, HOUR + 1)
    assert sums.take() == Summed(
        [row(0, "gpu", 0, 40, 20, 0, 0, 3, 0)],
        [row(0, "gpu", 0, 40, 20, 0, 0, 0, 0), row(1, "gpu", 0, 0, 0, 0, 0, 3, 0)],
        [
            NodeSumRow(0, "acme", "hq", "n1", "gpu", 0, 20, 10, 0, 0, 0),
            NodeSumRow(0, "acme", "hq", "n2", "gpu", 0, 20, 10, 0, 0, 0),
            NodeSumRow(1, "acme", "hq", "n1", "gpu", 0, 0, 0, 0, 3, 0),
        ],
    )


def test_who_wants_days_alone_gets_no_hours() -> None:
    sums = Rollups(Tariffs(State()), DAY)
    sums.held("gpu", [Closed(ME, HOUR - 5, HOUR + 5, 1, 0)])
    assert sums.take() == Summed([row(0, "gpu", 0, 10, 0, 0, 0, 0, 0)], [], [])
