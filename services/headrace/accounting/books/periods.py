"""Hours, days and months of a time zone, as times in microseconds. Leap seconds are ignored, as in the ledger's time.

A period begins when a clock there first shows its beginning, and ends where the next one begins: so a day may have 23 or 25 hours, and
every time belongs to exactly one period. A beginning that the clock skips is the time at which it jumps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from headrace.contracts.values.durations import HOUR, MINUTE

HOURLY, DAILY, MONTHLY = "hour", "day", "month"
KINDS = (HOURLY, DAILY, MONTHLY)

PERIODS_MAX = 10_000
"""Maximum number of periods in one query."""

_MONTH = re.compile("([0-9]{4})-([0-9]{2})")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER = 15 * MINUTE
"""Hours begin on a quarter of UTC's hours in all present time zones."""


class BadPeriod(ValueError):
    """Unknown zone, month or kind of period; the text names the field and the way out."""


class Period(NamedTuple):
    """`[since, until)`, and its label: the beginning, as a clock there shows it."""

    since: int
    until: int
    label: str


def zone(name: str) -> ZoneInfo:
    """Time zone by its name in the time zone database. Raises `BadPeriod`."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadPeriod(f"timezone: unknown zone {name[:80]!r}; write one such as Europe/Berlin, or UTC") from None


def month(text: str, where: ZoneInfo) -> Period:
    """The month `2026-11` in a time zone. Raises `BadPeriod`."""
    written = _MONTH.fullmatch(text)
    try:
        year, number = (int(part) for part in (written.groups() if written else ()))
        first = datetime(year, number, 1, tzinfo=where)
        following = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=where)
    except ValueError:
        raise BadPeriod(f"month: invalid month {text[:80]!r}; write it as 2026-11") from None
    return Period(_moment(first), _moment(following), f"{year:04}-{number:02}")


def periods(since: int, until: int, per: str, where: ZoneInfo) -> list[Period]:
    """`[since, until)` cut at every beginning of a period; the first and the last may be parts. Without `per`: in one piece."""
    if not per:
        return [Period(since, until, "")]
    if per not in KINDS:
        raise BadPeriod(f"per: unknown period {per[:80]!r}; it is {', '.join(KINDS)}")
    found: list[Period] = []
    steps = _steps(since, per, where)
    begins, label = next(steps)
    while begins < until:
        ends, following = next(steps)
        if min(ends, until) > max(begins, since):
            found.append(Period(max(begins, since), min(ends, until), label))
        if len(found) > PERIODS_MAX:
            raise BadPeriod(f"per: more than {PERIODS_MAX} {per}s; ask for a shorter time")
        begins, label = ends, following
    return found


def _steps(since: int, per: str, where: ZoneInfo) -> Iterator[tuple[int, str]]:
    """Beginnings in order, the first of them not after `since`."""
    if per == HOURLY:
        yield from _hours(since, where)
        return
    local = (_EPOCH + timedelta(microseconds=since)).astimezone(where)
    day = datetime(local.year, local.month, 1 if per == MONTHLY else local.day)  # noqa: DTZ001  # a date of the clock there
    while True:
        yield _moment(day.replace(tzinfo=where)), day.strftime("%Y-%m-%d" if per == DAILY else "%Y-%m")
        day = day + timedelta(days=1) if per == DAILY else (day + timedelta(days=32)).replace(day=1)


def _hours(since: int, where: ZoneInfo) -> Iterator[tuple[int, str]]:
    moment = since // _QUARTER * _QUARTER - HOUR - HOUR
    first: tuple[int, str] | None = None
    while True:
        shown = (_EPOCH + timedelta(microseconds=moment)).astimezone(where)
        if shown.minute == 0:
            begins = (moment, shown.isoformat(timespec="minutes"))
            if moment > since:
                if first is not None:
                    yield first
                    first = None
                yield begins
            else:
                first = begins
        moment += _QUARTER


def _moment(local: datetime) -> int:
    return (local.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
