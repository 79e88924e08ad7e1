"""Durations and times as integers of microseconds, and their text for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"us": MICROSECOND, "ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_PART = re.compile(r"([0-9]{1,12})(us|ms|s|m|h|d)")
SPAN_MAX = 2**53 - 1  # 285 years; JSON readers in other languages lose digits above it
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT_MIN = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_MOMENT_MAX = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


class DurationError(ValueError):
    """A malformed duration or time; the message says how to write it."""


def parse_duration(text: str | int) -> int:
    """Microseconds for `90s`, `10m`, `1h30m`; `0` needs no unit. Raises DurationError if malformed."""
    written = str(text).strip()
    if written == "0":
        return 0
    total, position = 0, 0
    while match := _PART.match(written, position):
        total += int(match[1]) * _UNITS[match[2]]
        position = match.end()
    if not written or position != len(written):
        raise DurationError(f"invalid duration {written[:80]!r}: use 90s, 10m, 1h30m or 2d")
    if total > SPAN_MAX:
        raise DurationError(f"{written} is too long; the longest is {SPAN_MAX // DAY}d")
    return total


def format_duration(microseconds: int) -> str:
    """The shortest exact text for a duration: `1h30m`, `0s`."""
    if microseconds < 0:
        return "-" + format_duration(-microseconds)
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, microseconds = divmod(microseconds, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_time(microseconds: int) -> str:
    """A time as ISO 8601 in UTC with milliseconds; one outside of the years 1 to 9999 is shown as the nearest inside."""
    moment = _EPOCH + timedelta(microseconds=min(max(microseconds, _MOMENT_MIN), _MOMENT_MAX))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> int:
    """Microseconds since 1970 for an ISO 8601 time; UTC if it names no zone. Raises DurationError if malformed."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise DurationError(f"invalid time {text[:80]!r}: use 2026-11-21T08:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
