"""When a waiting job may start: what is known of the future played forward on the state, which is left as it was. Pure.

Strategy: running jobs end when `ends` says; behind each end, whoever ranks before the job and finds room goes first (R15, R18), within its
limits and its reservation, and ends in its turn; then the job itself. Accounts and free places change as they would in the fold and are
given back at the end. Simpler than what will really happen: who ranks behind the job takes nothing from it, nobody new comes, nobody takes
anything back, and only the job's own pools are looked at. The work is bounded; past the bound the answer is "not before".
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.durations import format_time
from headrace.domain.ends import Ends
from headrace.domain.holdings import Holding, hold, holding_of, let_go
from headrace.domain.line import Entry, Line
from headrace.domain.placement import find_places
from headrace.domain.scopes import over_capacity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.contracts.facts.fact import Place
    from headrace.domain.state import JobRecord, PoolState, State
    from headrace.domain.takings import Preemption

EFFORT_MAX = 20_000
"""Ends and waiting jobs looked at in one forecast."""

NO_LIMIT = "nothing says when the jobs that hold what it needs will end: no time limit, no run of their queue in the last hour"
BY_LIMITS = "running jobs end at their time limits"
BY_HISTORY = "those without one after the mean run time of their queue in the last hour"
IN_TURN = "jobs that rank before it go first"
NOBODY_NEW = "and nobody new goes before it"
BY_GRACE = "those that make room for it are gone at the end of their grace"
OVERDUE = "a job that makes room for it is overdue"
UNKNOWN_DEPENDENCY = "nothing says when the job that it waits for will end"


class Forecast(NamedTuple):
    """The earliest start (log time; None where nothing tells), what it rests on, and the job whose end makes room, if it is one."""

    start: int | None
    assumption: str
    after: JobRecord | None = None


def expected_start(state: State, job: JobRecord, pools: Sequence[PoolState], now: int) -> Forecast:
    """The earliest start of a waiting job in `pools`, those of its order.

    A job for which places are kept starts there, when those that make room have left (R27).
    """
    ends = Ends(state, now)
    if job.nomination is not None:
        gone = kept_until(state, job.nomination, ends, now)
        return Forecast(gone, BY_GRACE) if gone is not None else Forecast(None, OVERDUE)
    ready = _ready_at(state, job, ends, now)
    if ready is None:
        return Forecast(None, UNKNOWN_DEPENDENCY)
    run = _Run(state, job, pools, now, ends)
    try:
        return run.forward(ready)
    finally:
        run.undo()


def kept_until(state: State, preemption: Preemption, ends: Ends, now: int) -> int | None:
    """When the last of those that make room will be gone; None: nobody knows."""
    known = [ends.of(state.jobs[key]) for key in preemption.leaving if key in state.jobs]
    if None in known:
        return None
    return max((end for end in known if end is not None), default=now)


def _ready_at(state: State, job: JobRecord, ends: Ends, now: int) -> int | None:
    """From when on it stands in line: its back-off is over (R32), what it depends on has ended; None: nobody knows."""
    others = [state.jobs.get(key) for key in job.waits_for]
    known = [ends.of(other) if other is not None else None for other in others]
    if job.doomed_by or None in known:
        return None
    return max((now, job.not_before, *(end for end in known if end is not None)))


class _Run:
    """One run forward. Everything it changes in the state, `undo` changes back."""

    def __init__(self, state: State, job: JobRecord, pools: Sequence[PoolState], now: int, ends: Ends) -> None:
        self._state = state
        self._job = job
        self._pools = {pool.document.name: pool for pool in pools if pool.document.name != job.barred_from}
        self._now = now
        self._ends = ends
        self._effort = EFFORT_MAX
        self._changed: list[tuple[Holding, int]] = []
        self._due: list[tuple[int, int, Holding | None]] = []
        self._told = 0
        self._line = Line(state, job, self._pools)
        self._others_went = False

    def forward(self, ready: int) -> Forecast:
        """Play until the job starts, nothing more is known to happen, or the bound is reached."""
        self._note_ends()
        if ready > self._now:
            self._happens(ready, None)
        moment, after = self._now, None
        while True:
            if self._hand_out(moment, own=moment >= ready):
                return Forecast(moment, self._assumption(), after)
            if not self._due:
                return Forecast(None, NO_LIMIT)
            if self._effort <= 0:
                return Forecast(None, f"more happens before it than is looked ahead: not before {format_time(moment)}")
            moment, after = self._due[0][0], None
            while self._due and self._due[0][0] == moment:
                gone = heapq.heappop(self._due)[2]
                if gone is not None:
                    self._hold(gone, -1)
                    after = gone.job if after is None and gone.job.leases else after

    def undo(self) -> None:
        """Leave the state as it was found."""
        for holding, sign in reversed(self._changed):
            (let_go if sign > 0 else hold)(self._state, holding)

    def _assumption(self) -> str:
        parts = [BY_LIMITS]
        parts += [BY_HISTORY] if self._ends.by_history else []
        parts += [IN_TURN] if self._others_went else []
        return ", ".join([*parts, NOBODY_NEW])

    def _note_ends(self) -> None:
        """The ends of all that hold leases in these pools; what is kept for a preemptor is held until that has run."""
        for policy in (*self._state.policies.values(), *self._state.deleted_policies.values()):
            for holder in policy.jobs.values():
                first = next(iter(holder.leases.values()), None)
                end = self._ends.of(holder) if first is not None and first.pool in self._pools else None
                holding = holding_of(self._state, holder) if end is not None else None
                if end is not None and holding is not None:
                    self._happens(end, holding)
        for kept in self._state.preemptions.values():
            pool = self._pools.get(kept.pool) if kept.kept else None
            span = self._ends.span(kept.job) if pool is not None else None
            start = kept_until(self._state, kept, self._ends, self._now) if span is not None else None
            if pool is not None and span is not None and start is not None:
                self._happens(start + span, Holding(kept.job, pool, (), kept))

    def _happens(self, moment: int, holding: Holding | None) -> None:
        self._told += 1
        heapq.heappush(self._due, (moment, self._told, holding))

    def _hold(self, holding: Holding, sign: int) -> None:
        (hold if sign > 0 else let_go)(self._state, holding)
        self._changed.append((holding, sign))
        self._line.mark(holding.job.policy)
        self._effort -= 1

    def _hand_out(self, moment: int, *, own: bool) -> bool:
        """Whoever ranks before the job takes what fits; whether it then starts itself, where `own` says that it takes part."""
        full: set[tuple[str, int]] = set()
        self._effort -= self._line.refresh()
        for _, pool in sorted(self._pools.items()):
            while True:
                best = self._best(pool, full, own=own)
                if best is None:
                    break
                entry, places = best
                if entry.job is self._job:
                    return True
                holding = Holding(entry.job, pool, places)
                self._hold(holding, 1)
                self._others_went = True
                span = self._ends.span(entry.job)
                if span is not None:
                    self._happens(moment + span, holding)
                self._line.leave(entry)
                self._effort -= self._line.refresh()
        return False

    def _best(self, pool: PoolState, full: set[tuple[str, int]], *, own: bool) -> tuple[Entry, tuple[Place, ...]] | None:
        """The first in line that has room, up to the job itself."""
        name = pool.document.name
        for entry in self._line.of(name):
            mine, request = entry.job is self._job, entry.job.request
            if not entry.closed and (own or not mine) and (name, request.order) not in full:
                places = find_places(self._state, entry.job, pool) if over_capacity(pool, request.total) is None else None
                self._effort -= 1
                if places is not None:
                    return entry, places
                full.add((name, request.order))
            if mine:
                return None
        return None
