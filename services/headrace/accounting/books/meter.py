"""A meter: how much of one key a policy's leases use over time, split at every time into reserved and borrowed (R17).

Strategy: leases are ordered by R17 (non-preemptible first, then oldest grant); the reservation covers them from the front, so a change
moves only the edge between reserved and borrowed. Two heaps give the edge: the first lease with a borrowed part and the last one with a
reserved part. A release that becomes known late (R37: the node's time counts) changes the past: the meter goes back to that time and runs
forward again, so the result never depends on the order in which facts became known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, MutableMapping
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import Any, NamedTuple

PREEMPTIBLE = 1 << 62
"""Added to the number of a preemptible lease for its place in R17's order."""

BEYOND = 1 << 61
"""Added if the lease was granted over its policy's budget: it is borrowed, whatever the reservation has left (R33)."""

ALWAYS = -(1 << 62)
"""A time before all others."""

_SLACK = 64

_BEGIN, _END, _RESERVE = range(3)


Tag = Any
"""Value that the caller passes with a lease and gets back with its intervals; the meter ignores it."""


class LeaseUse(NamedTuple):
    """Use of a key by a lease from a time on: units reserved and borrowed; `until` a time, or None while it lasts."""

    until: int | None
    reserved: int
    borrowed: int


UseKey = tuple[int, str, int]
"""(lease number, key, since)."""

UseChanges = MutableMapping[UseKey, LeaseUse | None]
"""Intervals that are new or different; None: the interval does not exist any more."""


class PastUse(NamedTuple):
    """A stored interval: the lease's place in R17's order, then as `LeaseUse`; `tag` is what the lease was begun with."""

    order: int
    since: int
    until: int | None
    reserved: int
    borrowed: int
    tag: Tag = None


class Closed(NamedTuple):
    """An interval that has ended, for sums; with negative units: one that was changed and is taken back."""

    tag: Tag
    since: int
    until: int
    reserved: int
    borrowed: int


class Reservation(NamedTuple):
    """A policy's reservation is `amount` from `since` on. `number` orders two at the same time."""

    since: int
    number: int
    amount: int


class _Line:
    """One lease on the meter. `reserved` of its `amount` are covered since `since`."""

    __slots__ = ("amount", "in_held", "in_short", "order", "reserved", "since", "tag")

    def __init__(self, order: int, amount: int, tag: Tag) -> None:
        self.order = order
        self.amount = amount
        self.tag = tag
        self.since = 0
        self.reserved = 0
        self.in_short = False
        self.in_held = False

    @property
    def is_short(self) -> bool:
        """True if the reservation may cover more of it."""
        return self.reserved < self.amount and not self.order & BEYOND

    def closed(self, since: int, until: int, reserved: int, sign: int) -> Closed:
        """The interval from `since` until `until`, with `reserved` covered."""
        return Closed(self.tag, since, until, sign * reserved, sign * (self.amount - reserved))


class _Event(NamedTuple):
    """The begin or end of a lease, or a change of the reservation. `number` is the lease's order, or the reservation's number."""

    at: int
    number: int
    kind: int
    amount: int = 0
    tag: Tag = None


class _Step(NamedTuple):
    """A change of the meter, for undoing: the line did not exist (`since` None) or had `reserved` since `since`.

    Without a line: the reservation was `reserved`.
    """

    at: int
    line: _Line | None
    since: int | None
    reserved: int


def order_of(lease: int, *, preemptible: bool, over_budget: bool = False) -> int:
    """A lease's place in R17's order: non-preemptible ones first, then the oldest grant; last those that only borrow (R33)."""
    return lease + (PREEMPTIBLE if preemptible else 0) + (BEYOND if over_budget else 0)


class UsageMeter:
    """The use of `key` by one policy. It remembers what happened since `horizon`; before that, only what still lasts.

    Times are microseconds, amounts units of the key, both integers. Leases are identified by their number, which orders them by grant.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.horizon = ALWAYS
        self._reservation = 0
        self._covered = 0
        self._lines: dict[int, _Line] = {}
        self._short: list[int] = []
        self._held: list[int] = []
        self._events: list[_Event] = []
        self._steps: list[_Step] = []
        self._new: list[_Event] = []
        self._touched: dict[int, tuple[_Line, int | None, int]] = {}
        self._closed: list[Closed] = []

    def begin(self, at: int, order: int, amount: int, tag: Tag = None) -> None:
        """Begin a lease that holds `amount` from `at` on."""
        self._new.append(_Event(at, order, _BEGIN, amount, tag))

    def end(self, at: int, order: int) -> None:
        """End a lease at `at`; not before it began."""
        self._new.append(_Event(at, order, _END))

    def reserve(self, reservation: Reservation) -> None:
        """Change the policy's reservation."""
        self._new.append(_Event(reservation.since, reservation.number, _RESERVE, reservation.amount))

    @property
    def unknown_past(self) -> int | None:
        """The time since which the meter would have to remember in order to settle; None if it does."""
        earliest = min((event.at for event in self._new), default=self.horizon)
        return earliest if earliest < self.horizon else None

    def settle(self, changes: UseChanges) -> list[Closed]:
        """Compute the split since the earliest new event, and add every interval that is new or different to `changes`.

        Returns intervals that have ended since the last call, and with negative units those taken back; intervals that last are not
        returned.
        """
        if not self._new:
            return []
        start = min(event.at for event in self._new)
        self._go_back(start, changes)
        events = self._events
        known = bisect_left(events, start, key=_moment)
        events[known:] = sorted(events[known:] + self._new)
        self._new = []
        for index in range(known, len(events)):
            event = events[index]
            self._apply(event)
            if index + 1 == len(events) or events[index + 1].at != event.at:
                self._balance()
                self._note(event.at, changes)
        self._compact()
        closed, self._closed = self._closed, []
        return closed

    def forget(self, before: int) -> None:
        """Forget what ended before `before`; a later change of that past needs `restored`."""
        if before > self.horizon:
            self.horizon = before
            del self._steps[: bisect_left(self._steps, before, key=_moment)]
            del self._events[: bisect_left(self._events, before, key=_moment)]

    def restored(self, horizon: int, past: Iterable[PastUse], reservations: Iterable[Reservation]) -> UsageMeter:
        """A meter that remembers since `horizon`, made from stored intervals; new events of this one are new there.

        `past` has every interval that lasts or ended at `horizon` or later, `reservations` all changes, in order.
        """
        meter = UsageMeter(self.key)
        meter.horizon = horizon
        meter._new = self._new
        for reservation in reservations:
            if reservation.since >= horizon:
                meter._steps.append(_Step(reservation.since, None, None, meter._reservation))
                meter._events.append(_Event(reservation.since, reservation.number, _RESERVE, reservation.amount))
            meter._reservation = reservation.amount
        for order, intervals in groupby(sorted(past), key=lambda use: use.order):
            for stint in _stints(intervals):
                meter._restore_line(order, stint)
        meter._steps.sort(key=_moment)
        meter._events.sort()
        return meter

    def _restore_line(self, order: int, intervals: list[PastUse]) -> None:
        """Restore a lease's intervals, which follow each other without a gap from its begin to its end."""
        line = _Line(order, intervals[0].reserved + intervals[0].borrowed, intervals[0].tag)
        since: int | None = None
        if intervals[0].since >= self.horizon:
            self._events.append(_Event(intervals[0].since, order, _BEGIN, line.amount, line.tag))
        for use in intervals:
            if use.since >= self.horizon:
                self._steps.append(_Step(use.since, line, since, line.reserved))
            since, line.reserved = use.since, use.reserved
            line.since = since
        until = intervals[-1].until
        if until is None:
            self._lines[order] = line
            self._covered += line.reserved
            self._index(line)
        else:
            self._steps.append(_Step(until, line, since, line.reserved))
            self._events.append(_Event(until, order, _END))

    def _go_back(self, start: int, changes: UseChanges) -> None:
        """Undo every step at `start` or later."""
        steps = self._steps
        while steps and steps[-1].at >= start:
            step = steps.pop()
            line = step.line
            if line is None:
                self._reservation = step.reserved
                continue
            if self._lines.pop(line.order, None) is not None:
                self._covered -= line.reserved
                changes[self._lease(line), self.key, line.since] = None
            else:
                line.in_short = line.in_held = False
            if step.since is not None:
                self._closed.append(line.closed(step.since, step.at, step.reserved, -1))
                line.since, line.reserved = step.since, step.reserved
                self._lines[line.order] = line
                self._covered += line.reserved
                self._index(line)
                changes[self._lease(line), self.key, line.since] = LeaseUse(None, line.reserved, line.amount - line.reserved)

    def _apply(self, event: _Event) -> None:
        if event.kind == _RESERVE:
            self._steps.append(_Step(event.at, None, None, self._reservation))
            self._reservation = event.amount
        elif event.kind == _BEGIN:
            line = self._lines[event.number] = _Line(event.number, event.amount, event.tag)
            self._touched[event.number] = (line, None, 0)
            self._index(line)
        else:
            line = self._lines[event.number]
            self._touch(line)
            del self._lines[event.number]
            self._covered -= line.reserved

    def _balance(self) -> None:
        """Move the edge between reserved and borrowed to where the reservation ends."""
        while True:
            spare = self._reservation - self._covered
            first = self._first_short()
            if spare > 0 and first is not None:
                self._cover(first, min(spare, first.amount - first.reserved))
                continue
            last = self._last_held()
            if last is None:
                return
            if spare < 0:
                self._cover(last, -min(-spare, last.reserved))
            elif first is not None and first.order < last.order:
                moved = min(last.reserved, first.amount - first.reserved)
                self._cover(last, -moved)
                self._cover(first, moved)
            else:
                return

    def _cover(self, line: _Line, units: int) -> None:
        self._touch(line)
        line.reserved += units
        self._covered += units
        self._index(line)

    def _touch(self, line: _Line) -> None:
        if line.order not in self._touched:
            self._touched[line.order] = (line, line.since, line.reserved)

    def _note(self, at: int, changes: UseChanges) -> None:
        """Turn the changes at a time into steps and intervals."""
        for order, (line, since, reserved) in self._touched.items():
            lasts = order in self._lines
            if lasts and since is not None and line.reserved == reserved:
                continue
            lease = self._lease(line)
            if since is not None:
                changes[lease, self.key, since] = LeaseUse(at, reserved, line.amount - reserved)
                self._closed.append(line.closed(since, at, reserved, 1))
            if lasts:
                line.since = at
                changes[lease, self.key, at] = LeaseUse(None, line.reserved, line.amount - line.reserved)
            elif since is None:
                continue
            self._steps.append(_Step(at, line, since, reserved))
        self._touched.clear()

    def _index(self, line: _Line) -> None:
        if not line.in_short and line.is_short:
            line.in_short = True
            heappush(self._short, line.order)
        if line.reserved > 0 and not line.in_held:
            line.in_held = True
            heappush(self._held, -line.order)

    def _first_short(self) -> _Line | None:
        while self._short:
            line = self._lines.get(self._short[0])
            if line is not None and line.reserved < line.amount:
                return line
            heappop(self._short)
            if line is not None:
                line.in_short = False
        return None

    def _last_held(self) -> _Line | None:
        while self._held:
            line = self._lines.get(-self._held[0])
            if line is not None and line.reserved > 0:
                return line
            heappop(self._held)
            if line is not None:
                line.in_held = False
        return None

    def _compact(self) -> None:
        """Rebuild the heaps if most of their entries are leases that have ended, which stay until they come to the top."""
        most = 2 * len(self._lines) + _SLACK
        if len(self._short) > most or len(self._held) > most:
            self._short = [line.order for line in self._lines.values() if line.is_short]
            self._held = [-line.order for line in self._lines.values() if line.reserved > 0]
            heapify(self._short)
            heapify(self._held)
            for line in self._lines.values():
                line.in_short, line.in_held = line.is_short, line.reserved > 0

    @staticmethod
    def _lease(line: _Line) -> int:
        return line.order & (BEYOND - 1)


def _stints(intervals: Iterable[PastUse]) -> Iterator[list[PastUse]]:
    """A lease's intervals, split where it held nothing: while it was suspended (R37)."""
    stint: list[PastUse] = []
    for use in intervals:
        if stint and stint[-1].until != use.since:
            yield stint
            stint = []
        stint.append(use)
    if stint:
        yield stint


def _moment(entry: _Event | _Step) -> int:
    return entry.at
