from __future__ import annotations

from headrace.accounting.books.meters import MeterKey, Meters
from headrace.accounting.books.rollups import Rollups
from headrace.accounting.books.rows import LeaseRow, ReservationRow
from headrace.accounting.books.tariffs import Tariffs
from headrace.domain.state.state import State


def lease(number: int, **more: bool) -> LeaseRow:
    names = ("alice", "rnd", "p", "any", "hq", "n1")
    return LeaseRow(number, f"acme.alice.{number}", 1, 0, "acme", *names, {}, {"gpu": 2}, True, 0, **more)


def test_a_reservation_is_noted_where_it_or_its_group_changes() -> None:
    meters = Meters()
    assert list(meters.reserve("acme", "p", {"gpu": 3}, "rnd", 5, 1)) == [ReservationRow("acme", "p", "gpu", 1, 5, 3, "rnd")]
    assert list(meters.reserve("acme", "p", {"gpu": 3}, "rnd", 6, 2)) == []
    assert list(meters.reserve("acme", "p", {"gpu": 3}, "dev", 7, 3)) == [ReservationRow("acme", "p", "gpu", 3, 7, 3, "dev")]
    assert list(meters.reserve("acme", "p", {}, "", 8, 4)) == [ReservationRow("acme", "p", "gpu", 4, 8, 0, "")]
    assert list(meters.reserve("acme", "p", {}, "", 9, 5)) == []


def test_what_was_granted_over_a_budget_is_borrowed_although_the_reservation_has_room() -> None:
    """R33."""
    meters, usage = Meters(), {}
    list(meters.reserve("acme", "p", {"gpu": 3}, "rnd", 0, 1))
    for each in (lease(1, over_budget=True), lease(2)):
        meters.begin(each, ("gpu",), 1, each.account)
    meters.settle(usage, Rollups(Tariffs(State())), 0)
    assert {key[0]: (use.reserved, use.borrowed) for key, use in usage.items()} == {1: (0, 2), 2: (2, 0)}
    assert meters.gaps() == []


def test_a_meter_that_has_to_remember_more_is_a_gap() -> None:
    meters = Meters()
    one = lease(1)
    meters.begin(one, ("gpu",), 1, one.account)
    meters.settle({}, Rollups(Tariffs(State())), 100)
    meters.end(one, ("gpu",), 50)
    assert [(gap.meter, gap.since) for gap in meters.gaps()] == [(MeterKey("acme", "p", "gpu"), 50)]
