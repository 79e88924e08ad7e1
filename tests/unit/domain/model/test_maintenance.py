"""What windows say at a moment, and what a job would outlast (R41)."""

from __future__ import annotations

import pytest

from headrace.contracts.documents.model import MaintenanceWindow, PreemptionTerms
from headrace.contracts.values.durations import DAY, HOUR, MINUTE, SECOND, SPAN_MAX
from headrace.domain.model.maintenance import Maintenance, PoolMaintenance, ScheduledDrain, WindowTurn, turn_of_windows
from headrace.domain.model.time_rules import Calendar
from tests.unit.domain.site import Site, policy

MONDAY = 4 * DAY
"""1970-01-05."""
ONCE = MaintenanceWindow(begins=MONDAY + 2 * HOUR, ends=MONDAY + 4 * HOUR, reason="switches")
WEEKLY = MaintenanceWindow(days=("mon",), opens=6 * 60, closes=8 * 60)


def turn(begins: int, ends: int, until: int | None, *, begun: bool = False, reason: str = "") -> WindowTurn:
    return WindowTurn(begins, ends, begun=begun, reason=reason, until=until)


def turn_at(*windows: MaintenanceWindow, at: int, clocks: tuple[Calendar, ...] = ()) -> WindowTurn:
    return turn_of_windows(windows, {one.zone: one for one in clocks}, at)


def test_a_window_for_one_time_is_ahead_then_open_and_then_no_more():
    begins, ends = MONDAY + 2 * HOUR, MONDAY + 4 * HOUR
    assert turn_at(ONCE, at=MONDAY) == turn(begins, ends, begins, reason="switches")
    assert turn_at(ONCE, at=begins) == turn(begins, ends, ends, begun=True, reason="switches")
    assert turn_at(ONCE, at=ends - 1) == turn(ends - 1, ends, ends, begun=True, reason="switches")
    assert turn_at(ONCE, at=ends) == turn(0, 0, None)


def test_a_weekly_window_is_ahead_from_the_end_of_the_one_before():
    assert turn_at(WEEKLY, at=MONDAY + 8 * HOUR) == turn(
        MONDAY + 7 * DAY + 6 * HOUR, MONDAY + 7 * DAY + 8 * HOUR, MONDAY + 7 * DAY + 6 * HOUR
    )
    assert turn_at(WEEKLY, at=MONDAY + 7 * HOUR).until == MONDAY + 8 * HOUR


def test_with_a_notice_a_window_counts_from_that_long_before():
    window = MaintenanceWindow(begins=MONDAY + 2 * HOUR, ends=MONDAY + 4 * HOUR, notice=HOUR)
    assert turn_at(window, at=MONDAY) == turn(0, 0, MONDAY + HOUR)
    assert turn_at(window, at=MONDAY + HOUR) == turn(MONDAY + 2 * HOUR, MONDAY + 4 * HOUR, MONDAY + 2 * HOUR)


def test_the_first_that_is_announced_counts_and_windows_without_a_gap_are_one():
    later = MaintenanceWindow(begins=MONDAY + 4 * HOUR, ends=MONDAY + 6 * HOUR)
    unannounced = MaintenanceWindow(begins=MONDAY + HOUR, ends=MONDAY + 90 * MINUTE, notice=MINUTE)
    found = turn_at(later, ONCE, WEEKLY, unannounced, at=MONDAY)
    assert found == turn(MONDAY + 2 * HOUR, MONDAY + 8 * HOUR, MONDAY + 59 * MINUTE, reason="switches")


def test_a_weekly_window_is_by_the_clocks_of_its_zone():
    window = MaintenanceWindow(days=("mon",), opens=6 * 60, closes=8 * 60, timezone="Test/East")
    east = Calendar("Test/East", ((0, 3_600),), 400 * DAY)
    assert turn_at(window, at=MONDAY, clocks=(east,)) == turn(MONDAY + 5 * HOUR, MONDAY + 7 * HOUR, MONDAY + 5 * HOUR)


def test_windows_that_never_close_are_joined_for_as_long_as_is_looked_ahead():
    always = MaintenanceWindow(days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"), opens=0, closes=24 * 60)
    assert turn_at(always, at=MONDAY) == turn(MONDAY, SPAN_MAX, SPAN_MAX, begun=True)


def jobs() -> dict[str, object]:
    site = Site(policy("dev", preemption=PreemptionTerms(callback_grace=20 * SECOND, term_grace=10 * SECOND)))
    return {"endless": site.admit("endless"), "short": site.admit("short", time_limit=HOUR)}


@pytest.mark.parametrize(
    ("name", "now", "outlasted"),
    [
        ("endless", 0, (("n1", "n2"), ("hall", "open"))),
        ("short", 0, ((), ("open",))),
        ("short", HOUR - 30 * SECOND, ((), ("open",))),
        ("short", HOUR - 30 * SECOND + 1, (("n1",), ("open",))),
        ("short", 2 * HOUR, (("n1",), ("hall", "open"))),
    ],
)
def test_what_begins_before_a_job_and_its_grace_have_ended_is_outlasted(name, now, outlasted):
    maintenance = Maintenance(
        {"n1": ScheduledDrain(2 * HOUR, "a.b", ""), "n2": ScheduledDrain(4 * HOUR, "a.b", "")},
        {"hall": PoolMaintenance(3 * HOUR, 4 * HOUR, False, ""), "open": PoolMaintenance(0, 9 * HOUR, True, "")},
    )
    assert maintenance.outlasted(jobs()[name], now) == outlasted


def test_the_next_moment_at_which_a_job_outlasts_more_is_the_first_after_the_last_in_time():
    maintenance = Maintenance(
        {"n1": ScheduledDrain(2 * HOUR, "a.b", "")}, {"hall": PoolMaintenance(3 * HOUR, 4 * HOUR, False, "")}
    )
    found = jobs()
    first, second = HOUR - 30 * SECOND + 1, 2 * HOUR - 30 * SECOND + 1
    assert [maintenance.next_outlasted(found["short"], now) for now in (0, first, second)] == [first, second, None]
    assert maintenance.next_outlasted(found["endless"], 0) is None
