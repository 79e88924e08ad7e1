"""The time zone database of this machine, read only here. Its contents become facts (`calendars`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from headrace.contracts.values.durations import SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = timedelta(days=7)
"""Step of the search: zones do not change their offset twice within a week."""


def offsets_of(zone: str, since: int, until: int) -> tuple[tuple[int, int], ...] | None:
    """(moment in microseconds, seconds east of UTC from then on) between two moments, the first at `since`; None for an unknown zone."""
    try:
        clock = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return None
    at, end = _EPOCH + timedelta(microseconds=since), _EPOCH + timedelta(microseconds=until)
    found = [(since, _seconds(clock, at))]
    while at < end:
        later = min(at + _STEP, end)
        if _seconds(clock, later) != found[-1][1]:
            change = _change(clock, at, later)
            found.append(((change - _EPOCH) // timedelta(microseconds=1), _seconds(clock, change)))
            later = change
        at = later
    return tuple(found)


def _seconds(clock: ZoneInfo, at: datetime) -> int:
    offset = at.astimezone(clock).utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=SECOND)


def _change(clock: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first second at which the offset differs from that of `before`."""
    was = _seconds(clock, before)
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        before, after = (middle, after) if _seconds(clock, middle) == was else (before, middle)
    return after


def known_zones() -> set[str]:
    """The names of all zones, for hints after a misspelt one."""
    return available_timezones()
