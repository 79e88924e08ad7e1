from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values.durations import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    SPAN_MAX,
    DurationError,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0", 0),
        ("0s", 0),
        ("90s", 90 * SECOND),
        ("10m", 10 * MINUTE),
        ("1h30m", HOUR + 30 * MINUTE),
        ("2d", 2 * DAY),
        ("250ms", 250_000),
        ("7us", 7),
        (" 5s ", 5 * SECOND),
    ],
)
def test_spans_are_read_as_people_write_them(text, span):
    assert parse_duration(text) == span


@pytest.mark.parametrize("text", ["", "5", "-5s", "1.5h", "5 s", "s", "5x", "٥s", "1h 30m"])
def test_an_invalid_span_is_refused_with_the_way_out(text):
    with pytest.raises(DurationError) as refused:
        parse_duration(text)
    assert str(refused.value) == f"invalid duration {text.strip()!r}: use 90s, 10m, 1h30m or 2d"


def test_a_span_longer_than_any_machine_is_refused():
    with pytest.raises(DurationError) as refused:
        parse_duration("999999999999d")
    assert str(refused.value) == "999999999999d is too long; the longest is 104249d"


@given(st.integers(0, SPAN_MAX))
def test_writing_a_span_and_reading_it_gives_the_same_span(span):
    assert parse_duration(format_duration(span)) == span


def test_a_span_is_written_as_short_as_it_can_be():
    assert [format_duration(span) for span in (0, 90 * SECOND, DAY, -HOUR, 1_500)] == ["0s", "1m30s", "1d", "-1h", "1ms500us"]


def test_moments_are_shown_in_utc_with_milliseconds():
    assert format_time(1_795_248_000_123_456) == "2026-11-21T08:00:00.123Z"


@pytest.mark.parametrize(("moment", "text"), [(10**30, "9999-12-31T23:59:59.999Z"), (-(10**30), "0001-01-01T00:00:00.000Z")])
def test_a_moment_no_calendar_holds_is_shown_as_the_nearest_that_it_does(moment, text):
    assert format_time(moment) == text


@pytest.mark.parametrize(
    "text", ["2026-11-21T08:00:00Z", "2026-11-21T09:00:00+01:00", "2026-11-21T08:00", " 2026-11-21 08:00:00 "]
)
def test_moments_are_read_with_a_zone_or_as_utc(text):
    assert parse_time(text) == 1_795_248_000 * SECOND


def test_an_invalid_moment_is_refused_with_the_way_out():
    with pytest.raises(DurationError) as refused:
        parse_time("tomorrow")
    assert str(refused.value) == "invalid time 'tomorrow': use 2026-11-21T08:00:00Z"
