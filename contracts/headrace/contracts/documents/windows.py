"""The forms of windows: when jobs of a policy may start (R33), and when the nodes of a pool take none (R41)."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.contracts.documents import fields as w
from headrace.contracts.documents import model as d
from headrace.contracts.documents.forms import Complaint, Several, Shape
from headrace.contracts.values.durations import format_time

MINUTES_OF_DAY = 24 * 60
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _check_window(window: d.Window) -> Iterator[Complaint]:
    if window.opens == window.closes:
        yield ("to",), 'the window never opens; the whole day is from "00:00" to "24:00"'


def _check_maintenance(window: d.MaintenanceWindow) -> Iterator[Complaint]:
    """R41: one time, or every week, and not for ever."""
    once = [key for key, value in (("begins", window.begins), ("ends", window.ends)) if value is not None]
    weekly = [
        key
        for key, value in (("days", window.days or None), ("from", window.opens), ("to", window.closes))
        if value is not None
    ]
    if (len(once), len(weekly)) not in ((2, 0), (0, 3)):
        yield (), "write begins and ends for one time, or days, from and to for every week"
    elif window.begins is not None and window.ends is not None and window.ends <= window.begins:
        yield ("ends",), f"it ends before it begins; write a time after {format_time(window.begins)}"
    elif weekly and window.opens == window.closes:
        yield ("to",), 'the window has no length; the whole day is from "00:00" to "24:00"'
    elif len(window.days) == len(DAYS) and window.opens == 0 and window.closes == MINUTES_OF_DAY:
        yield ("days",), "the nodes would never take a job; leave a day out, or drain them"
    if window.notice == 0:
        yield ("notice",), "write how long before the window jobs have to end in time, such as 12h, or leave it out"


WINDOW = Shape(
    d.Window,
    {
        "days": Several(w.choice(*DAYS), least=1),
        "opens": w.time_of_day(0, MINUTES_OF_DAY - 1),
        "closes": w.time_of_day(0, MINUTES_OF_DAY),
        "timezone": w.TIMEZONE,
        "on_close": w.choice("run_on", "preempt"),
    },
    written_as={"opens": "from", "closes": "to"},
    check=_check_window,
)
MAINTENANCE_WINDOW = Shape(
    d.MaintenanceWindow,
    {
        "begins": w.nullable(w.MOMENT),
        "ends": w.nullable(w.MOMENT),
        "days": Several(w.choice(*DAYS), least=1),
        "opens": w.nullable(w.time_of_day(0, MINUTES_OF_DAY - 1)),
        "closes": w.nullable(w.time_of_day(0, MINUTES_OF_DAY)),
        "timezone": w.TIMEZONE,
        "notice": w.nullable(w.DURATION),
        "reason": w.LINE,
    },
    written_as={"opens": "from", "closes": "to"},
    check=_check_maintenance,
)
