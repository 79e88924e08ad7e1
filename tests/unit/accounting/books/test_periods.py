"""Hours, days and months of clocks: none is left out, none is there twice, whatever is done to the clocks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.accounting.books.periods import KINDS, BadPeriod, Period, month, periods, zone
from headrace.contracts.values.durations import DAY, HOUR, parse_time

ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns", "Africa/Cairo", "Pacific/Chatham")


def test_the_day_on_which_clocks_go_forward_has_23_hours_and_the_other_one_25() -> None:
    berlin = zone("Europe/Berlin")
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)):
        at = parse_time(f"{day}T12:00:00Z")
        (found,) = [period for period in periods(at - DAY, at + DAY, "day", berlin) if period.label == day]
        assert found.until - found.since == hours * HOUR
        assert len(periods(found.since, found.until, "hour", berlin)) == hours


def test_hours_that_a_clock_shows_twice_are_told_apart_by_their_offset() -> None:
    since = parse_time("2026-10-25T00:00:00Z")
    labels = [period.label for period in periods(since, since + 2 * HOUR, "hour", zone("Europe/Berlin"))]
    assert labels == ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00"]


def test_months_have_the_length_they_have_and_begin_where_clocks_say() -> None:
    february = month("2028-02", zone("UTC"))
    assert (february.until - february.since, february.label) == (29 * DAY, "2028-02")
    assert month("2026-11", zone("Europe/Berlin")).since == parse_time("2026-10-31T23:00:00Z")
    assert month("2026-12", zone("UTC")).until == parse_time("2027-01-01T00:00:00Z")


def test_the_first_and_the_last_may_be_parts_and_without_a_kind_it_is_one() -> None:
    since, until = parse_time("2026-11-20T18:00:00Z"), parse_time("2026-11-22T06:00:00Z")
    assert periods(since, until, "", zone("UTC")) == [Period(since, until, "")]
    found = periods(since, until, "day", zone("UTC"))
    assert [period.label for period in found] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    assert (found[0].since, found[-1].until) == (since, until)


def test_a_midnight_that_the_clock_leaves_out_is_when_it_jumps() -> None:
    """In Cairo clocks went from 0:00 to 1:00 on 2026-04-24."""
    at = parse_time("2026-04-24T10:00:00Z")
    (day,) = [period for period in periods(at - DAY, at + DAY, "day", zone("Africa/Cairo")) if period.label == "2026-04-24"]
    assert (day.since, day.until - day.since) == (parse_time("2026-04-23T22:00:00Z"), 23 * HOUR)


@given(st.sampled_from(ZONES), st.sampled_from(KINDS), st.integers(0, 3_000 * DAY), st.integers(1, 60 * DAY))
def test_periods_follow_each_other_and_are_all_of_the_time(name: str, per: str, after: int, span: int) -> None:
    since = parse_time("2024-01-01T00:00:00Z") + after
    found = periods(since, since + span, per, zone(name))
    assert (found[0].since, found[-1].until) == (since, since + span)
    assert all(left.until == right.since for left, right in pairwise(found))
    assert all(period.since < period.until for period in found)


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda: zone("Europe/Berlim"), "timezone: unknown zone 'Europe/Berlim'"),
        (lambda: zone("../etc/passwd"), "timezone: unknown zone"),
        (lambda: month("2026-13", zone("UTC")), "month: invalid month '2026-13'; write it as 2026-11"),
        (lambda: month("20-1", zone("UTC")), "month: invalid month '20-1'"),
        (lambda: month("november", zone("UTC")), "month: invalid month 'november'"),
        (lambda: periods(0, 1, "week", zone("UTC")), "per: unknown period 'week'; it is hour, day, month"),
        (lambda: periods(0, 20_000 * HOUR, "hour", zone("UTC")), "per: more than 10000 hours; ask for a shorter time"),
    ],
)
def test_an_invalid_zone_month_or_period_is_refused_with_its_name(ask, complaint: str) -> None:
    with pytest.raises(BadPeriod) as refusal:
        ask()
    assert str(refusal.value).startswith(complaint)
