from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from headrace.contracts.documents.model import Window
from headrace.contracts.values.durations import DAY, HOUR, MINUTE, parse_time
from headrace.domain.model.calendar import is_open, last_close, moment_of, next_edge, offset_at, period_of
from headrace.domain.model.time_rules import Calendar

BERLIN = Calendar(
    "Europe/Berlin",
    (
        (parse_time("2025-10-26T01:00Z"), 3_600),
        (parse_time("2026-03-29T01:00Z"), 7_200),
        (parse_time("2026-10-25T01:00Z"), 3_600),
    ),
    parse_time("2027-03-01"),
)
WORK = Window(days=("mon", "tue", "wed", "thu", "fri"), opens=8 * 60, closes=20 * 60)
NIGHT = Window(days=("fri",), opens=22 * 60, closes=6 * 60)
ALWAYS = Window(days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"), opens=0, closes=24 * 60)


def at(text):
    return parse_time(text)


def test_offsets_are_those_stated_and_the_first_and_last_go_on():
    moments = ["2020-01-01", "2026-03-29T00:59:59Z", "2026-03-29T01:00Z", "2026-10-25T01:00Z", "2030-07-01"]
    assert [offset_at(BERLIN, at(text)) // HOUR for text in moments] == [1, 1, 2, 1, 1]
    assert offset_at(None, at("2026-07-01")) == 0


@pytest.mark.parametrize(
    ("window", "moment", "expected"),
    [
        (WORK, "2026-11-23T06:59:59Z", False),
        (WORK, "2026-11-23T07:00Z", True),
        (WORK, "2026-11-23T18:59:59Z", True),
        (WORK, "2026-11-23T19:00Z", False),
        (WORK, "2026-11-22T12:00Z", False),
        (WORK, "2026-07-06T06:00Z", True),
        (NIGHT, "2026-11-20T20:59Z", False),
        (NIGHT, "2026-11-20T21:00Z", True),
        (NIGHT, "2026-11-21T04:59Z", True),
        (NIGHT, "2026-11-21T05:00Z", False),
        (NIGHT, "2026-11-21T21:30Z", False),
        (ALWAYS, "2026-11-21T21:30Z", True),
    ],
)
def test_a_window_is_open_by_the_clocks_of_its_zone(window, moment, expected):
    assert is_open(window, BERLIN, at(moment)) is expected


def test_the_next_edge_is_that_of_any_window():
    both = [(WORK, BERLIN), (NIGHT, None)]
    assert next_edge(both, at("2026-11-20T18:00Z")) == at("2026-11-20T19:00Z")
    assert next_edge(both, at("2026-11-20T19:00Z")) == at("2026-11-20T22:00Z")
    assert next_edge(both, at("2026-11-20T22:00Z")) == at("2026-11-21T06:00Z")
    assert next_edge(both, at("2026-11-21T06:00Z")) == at("2026-11-23T07:00Z")
    assert next_edge([(ALWAYS, BERLIN)], at("2026-11-20T18:00Z")) is None
    assert next_edge([], at("2026-11-20T18:00Z")) is None


def test_it_last_closed_when_it_did():
    assert last_close(WORK, BERLIN, at("2026-11-22T12:00Z")) == at("2026-11-20T19:00Z")
    assert last_close(WORK, BERLIN, at("2026-11-20T19:00Z")) == at("2026-11-20T19:00Z")
    assert last_close(ALWAYS, BERLIN, at("2026-11-20T19:00Z")) is None


def test_a_window_within_the_hour_that_clocks_leave_out_does_not_open_that_day():
    gap = Window(days=("sun",), opens=2 * 60 + 15, closes=2 * 60 + 45)
    assert next_edge([(gap, BERLIN)], at("2026-03-28T12:00Z")) == at("2026-04-05T00:15Z")


def test_a_window_over_the_hour_that_clocks_show_twice_is_open_for_both():
    twice = Window(days=("sun",), opens=2 * 60, closes=3 * 60)
    opens = next_edge([(twice, BERLIN)], at("2026-10-24T12:00Z"))
    assert (opens, next_edge([(twice, BERLIN)], opens)) == (at("2026-10-25T00:00Z"), at("2026-10-25T02:00Z"))


@pytest.mark.parametrize(
    ("per", "moment", "begins", "ends"),
    [
        ("day", "2026-11-21T23:30Z", "2026-11-21T23:00Z", "2026-11-22T23:00Z"),
        ("week", "2026-11-22T22:59Z", "2026-11-15T23:00Z", "2026-11-22T23:00Z"),
        ("week", "2026-11-22T23:00Z", "2026-11-22T23:00Z", "2026-11-29T23:00Z"),
        ("month", "2026-12-31T22:59Z", "2026-11-30T23:00Z", "2026-12-31T23:00Z"),
        ("month", "2026-10-10", "2026-09-30T22:00Z", "2026-10-31T23:00Z"),
        ("year", "2026-07-01", "2025-12-31T23:00Z", "2026-12-31T23:00Z"),
    ],
)
def test_a_period_is_that_of_the_zones_calendar(per, moment, begins, ends):
    assert period_of(per, BERLIN, at(moment)) == (at(begins), at(ends))


def test_every_day_of_four_centuries_is_in_the_month_and_year_that_dates_say():
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for days in range(-30_000, 120_000, 13):
        date = epoch + timedelta(days=days)
        month, year = date.replace(day=1), date.replace(month=1, day=1)
        following = (month + timedelta(days=32)).replace(day=1)
        assert period_of("month", None, days * DAY + 5) == ((month - epoch).days * DAY, (following - epoch).days * DAY)
        assert period_of("year", None, days * DAY)[0] == (year - epoch).days * DAY
        assert period_of("week", None, days * DAY)[0] == (days - date.weekday()) * DAY


def test_clocks_are_read_as_the_database_reads_them():
    zone, epoch = ZoneInfo("Europe/Berlin"), datetime(1970, 1, 1, tzinfo=UTC)
    for hours in range(0, 24 * 400, 7):
        moment = at("2025-10-27") + hours * HOUR + 13 * MINUTE
        local = (epoch + timedelta(microseconds=moment)).astimezone(zone)
        minutes = local.hour * 60 + local.minute
        days = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
        expected = local.weekday() < 5 and 480 <= minutes < 1_200
        assert is_open(WORK, BERLIN, moment) is expected, (local, days[local.weekday()])


def test_a_time_that_clocks_leave_out_is_when_it_would_have_been():
    gap = at("2026-03-29T02:30Z")  # as clocks would show it
    assert moment_of(BERLIN, gap) == at("2026-03-29T01:30Z")
    assert moment_of(BERLIN, at("2026-10-25T02:30Z")) == at("2026-10-25T00:30Z")
