"""Maintenance of nodes that is ahead or under way (R41): drains scheduled for nodes, and windows of pools, with what time makes of them.

All moments are microseconds of log time. Weekly windows are by the clocks of their time zone (`calendar`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.documents.model import MaintenanceWindow, Window
from headrace.contracts.values.durations import SPAN_MAX
from headrace.domain.model import calendar as c

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.time_rules import Calendar


@dataclass(slots=True, eq=False)
class ScheduledDrain:
    """A drain of a node that begins at `begins`, scheduled by `author`."""

    begins: int
    author: str
    reason: str


@dataclass(slots=True, eq=False)
class PoolMaintenance:
    """The window of a pool that counts now.

    Until `begins` only jobs start that end before; when it has `begun`, the nodes take none until `ends`.
    """

    begins: int
    ends: int
    begun: bool
    reason: str


@dataclass(slots=True, eq=False)
class Maintenance:
    """All that is ahead or under way: `drains` by node, `pools` by pool. `planned`: pools whose documents have windows."""

    drains: dict[str, ScheduledDrain] = field(default_factory=dict)
    pools: dict[str, PoolMaintenance] = field(default_factory=dict)
    planned: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        """Whether any maintenance keeps jobs from any node, now or later."""
        return bool(self.drains or self.pools)

    def under_way(self, pool: str) -> PoolMaintenance | None:
        """The window of a pool that has begun, if one has."""
        one = self.pools.get(pool)
        return one if one is not None and one.begun else None

    def outlasted(self, job: JobRecord, now: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Nodes, and pools, whose maintenance begins before the job would have ended if it started at `now`; those under way included."""
        end = end_of(job, now)
        nodes = sorted(name for name, drain in self.drains.items() if end is None or end > drain.begins)
        pools = sorted(name for name, one in self.pools.items() if one.begun or end is None or end > one.begins)
        return tuple(nodes), tuple(pools)

    def next_outlasted(self, job: JobRecord, now: int) -> int | None:
        """The next moment at which the job would outlast more than at `now`; None: never."""
        span = end_of(job, 0)
        if span is None:
            return None
        begins = (
            *(drain.begins for drain in self.drains.values()),
            *(one.begins for one in self.pools.values() if not one.begun),
        )
        return min((moment for begin in begins if (moment := begin - span + 1) > now), default=None)


def end_of(job: JobRecord, start: int) -> int | None:
    """When a job that starts at `start` is gone at the latest: by its time limit and the graces of its ladder; None: it has no limit."""
    return None if job.time_limit is None else start + run_and_grace(job, job.time_limit)


def run_and_grace(job: JobRecord, time_limit: int) -> int:
    """How long a job with a time limit holds what it has at the most, its start and pauses not counted (R28, R33)."""
    terms = job.policy.document.preemption
    return time_limit + terms.callback_grace + terms.term_grace


# ---- windows ----


class WindowTurn(NamedTuple):
    """What the windows of a pool say at a moment, as in `PoolMaintenance`; `begins` 0: nothing. `until`: how long; None: for ever."""

    begins: int
    ends: int
    begun: bool
    reason: str
    until: int | None


def turn_of_windows(windows: Sequence[MaintenanceWindow], calendars: Mapping[str, Calendar], now: int) -> WindowTurn:
    """The turn at `now`: the window that is open, joined with those that follow without a gap; else the first that is announced."""
    found = [(*times, window) for window in windows if (times := _next(window, calendars, now)) is not None]
    under_way = [window for begins, _, window in found if begins <= now]
    if under_way:
        ends = _joined(windows, calendars, now)
        return WindowTurn(now, ends, begun=True, reason=under_way[0].reason, until=ends)
    notices = [(begins if window.notice is None else begins - window.notice, begins, window) for begins, _, window in found]
    announced = [(begins, window) for notice, begins, window in notices if window.notice is None or notice <= now]
    until = min([begins for begins, _, _ in found] + [notice for notice, _, _ in notices if notice > now], default=None)
    if not announced:
        return WindowTurn(0, 0, begun=False, reason="", until=until)
    begins, window = min(announced, key=lambda one: one[0])
    return WindowTurn(begins, _joined(windows, calendars, begins), begun=False, reason=window.reason, until=until)


_JOINED_MAX = 64
"""Windows without a gap between them that are joined into one."""


def _joined(windows: Sequence[MaintenanceWindow], calendars: Mapping[str, Calendar], moment: int) -> int:
    """When the windows that are open at `moment`, and those that follow without a gap, have ended."""
    end = moment
    for _ in range(_JOINED_MAX):
        later = max(_ends_open(windows, calendars, end), default=end)
        if later == end:
            break
        end = later
    return end


def _ends_open(windows: Sequence[MaintenanceWindow], calendars: Mapping[str, Calendar], moment: int) -> Iterator[int]:
    for window in windows:
        times = _next(window, calendars, moment)
        if times is not None and times[0] <= moment:
            yield times[1]


def _next(window: MaintenanceWindow, calendars: Mapping[str, Calendar], now: int) -> tuple[int, int] | None:
    """From when to when the window is open next, or now (then it begins at `now` at the latest); None: never again."""
    if window.begins is not None and window.ends is not None:
        return (window.begins, window.ends) if now < window.ends else None
    if window.opens is None or window.closes is None:
        return None
    weekly = Window(days=window.days, opens=window.opens, closes=window.closes, timezone=window.timezone)
    clocks = calendars.get(window.timezone)
    begins = now if c.is_open(weekly, clocks, now) else c.next_edge([(weekly, clocks)], now)
    if begins is None:
        return None
    return begins, c.next_edge([(weekly, clocks)], begins) or SPAN_MAX
