"""Days, windows and periods in a time zone, with integers only (R33).

The fold has no database of time zones: governance states the offsets of a zone for the months to come (`calendar.stated`), and
here is only the arithmetic. A zone without a stated calendar is UTC; beyond what was stated the last offset goes on. All moments are
microseconds of log time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.durations import DAY, MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.contracts.documents.model import Window
    from headrace.domain.model.time_rules import Calendar

DAYS = ("thu", "fri", "sat", "sun", "mon", "tue", "wed")
"""The days of the week, from that of 1970-01-01 on."""

_DAYS_TO_MARCH_0 = 719_468
"""From 0000-03-01, where leap days fall on the end of a year, to 1970-01-01."""
_MONDAY = 4
_MONTHS = {"month": 1, "year": 12}


def offset_at(calendar: Calendar | None, moment: int) -> int:
    """Microseconds that clocks there are ahead of UTC."""
    if calendar is None:
        return 0
    found = 0
    for since, seconds in calendar.offsets:
        if since <= moment or not found:
            found = seconds
    return found * SECOND


def _local(calendar: Calendar | None, moment: int) -> int:
    return moment + offset_at(calendar, moment)


def _offsets(calendar: Calendar | None) -> set[int]:
    return {0} if calendar is None else {seconds * SECOND for _, seconds in calendar.offsets} or {0}


def moment_of(calendar: Calendar | None, local: int) -> int:
    """When clocks there first show `local`; a time that they leave out is when it would have been, had they not been changed."""
    shown = [local - offset for offset in _offsets(calendar) if _local(calendar, local - offset) == local]
    return min(shown) if shown else local - min(_offsets(calendar))


# ---- windows ----


def is_open(window: Window, calendar: Calendar | None, moment: int) -> bool:
    """Whether clocks there show a time in the window. One that closes before it opens goes on past midnight."""
    day, since_midnight = divmod(_local(calendar, moment), DAY)
    opens, closes = window.opens * MINUTE, window.closes * MINUTE
    if opens < closes:
        return _is_on(window, day) and opens <= since_midnight < closes
    return (_is_on(window, day) and since_midnight >= opens) or (_is_on(window, day - 1) and since_midnight < closes)


def _is_on(window: Window, day: int) -> bool:
    return DAYS[day % 7] in window.days


def next_edge(windows: Iterable[tuple[Window, Calendar | None]], moment: int) -> int | None:
    """When any of the windows next opens or closes; None: never."""
    return min(
        (edge for window, calendar in windows for edge in _edges(window, calendar, moment) if edge > moment), default=None
    )


def last_close(window: Window, calendar: Calendar | None, moment: int) -> int | None:
    """When the window last closed, at `moment` or in the two weeks before."""
    past = [edge for edge in _edges(window, calendar, moment, back=14) if edge <= moment and _closes_at(window, calendar, edge)]
    return max(past, default=None)


def _closes_at(window: Window, calendar: Calendar | None, edge: int) -> bool:
    return not is_open(window, calendar, edge) and is_open(window, calendar, edge - 1)


def _edges(window: Window, calendar: Calendar | None, moment: int, back: int = 1, ahead: int = 8) -> Iterator[int]:
    """The moments around `moment` at which it opens or closes; clocks that are changed may do that too."""
    today = _local(calendar, moment) // DAY
    for day in range(today - back, today + ahead + 1):
        for minutes in (window.opens, window.closes):
            local = day * DAY + minutes * MINUTE
            for offset in _offsets(calendar):
                edge = local - offset
                if is_open(window, calendar, edge) != is_open(window, calendar, edge - 1):
                    yield edge
    for since, _ in calendar.offsets if calendar is not None else ():
        if is_open(window, calendar, since) != is_open(window, calendar, since - 1):
            yield since


# ---- periods ----


def period_of(per: str, calendar: Calendar | None, moment: int) -> tuple[int, int]:
    """The day, week (from Monday), month or year around `moment`: its first moment, and that of the next one."""
    day = _local(calendar, moment) // DAY
    if per == "day":
        first, following = day, day + 1
    elif per == "week":
        first = day - (day - _MONDAY) % 7
        following = first + 7
    else:
        year, month, _ = _date(day)
        months = _MONTHS[per]
        month = month if months == 1 else 1
        first = _day(year, month)
        following = _day(year + (month - 1 + months) // 12, (month - 1 + months) % 12 + 1)
    return moment_of(calendar, first * DAY), moment_of(calendar, following * DAY)


def _date(day: int) -> tuple[int, int, int]:
    """Year, month, day of the month of a number of days since 1970-01-01, in the Gregorian calendar."""
    era, of_era = divmod(day + _DAYS_TO_MARCH_0, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * from_march + 2) // 5 + 1


def _day(year: int, month: int) -> int:
    """The number of days since 1970-01-01 of the first of a month."""
    era, of_era = divmod(year - (month <= 2), 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146_097 + 365 * of_era + of_era // 4 - of_era // 100 + of_year - _DAYS_TO_MARCH_0
