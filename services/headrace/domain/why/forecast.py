"""When a waiting job may start: what is known of the future played forward on the state, which is left as it was. Pure.

Strategy: running jobs end when `ends` says; behind each end, whoever ranks before the job and finds room goes first (R15, R18), within its
limits and its reservation, and ends in its turn; then the job itself. Accounts and free places change as they would in the fold and are
given back at the end. Simpler than what will really happen: who ranks behind the job takes nothing from it, nobody new comes, nobody takes
anything back, and only the job's own pools are looked at. The work is bounded; what lies beyond is told by the pace up to there.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import GPU
from headrace.contracts.durations import format_time
from headrace.contracts.reasons import WaitReason
from headrace.domain.meters import name_of
from headrace.domain.places.placement import find_places
from headrace.domain.queueing.gates import gated, opens_at, spent_for
from headrace.domain.queueing.line import Entry, Line
from headrace.domain.reclaim.holdings import Holding, hold, holding_of, let_go
from headrace.domain.scopes import over_capacity
from headrace.domain.why.ends import Ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.contracts.facts.fact import Place
    from headrace.domain.requests import Request
    from headrace.domain.state import JobRecord, PoolState, State
    from headrace.domain.takings import Preemption

EFFORT_MAX = 3_000
"""Groups ranked, requests and ends looked at in one forecast: some 15 ms."""

NO_LIMIT = "nothing says when the jobs that hold what it needs will end: no time limit, no run of their queue in the last hour"
BY_LIMITS = "running jobs end at their time limits"
BY_HISTORY = "those without one after the mean run time of their queue in the last hour"
IN_TURN = "jobs that rank before it go first"
NOBODY_NEW = "and nobody new goes before it"
BY_PACE = "at the pace at which those before it start until"
BY_GRACE = "those that make room for it are gone at the end of their grace"
OVERDUE = "a job that makes room for it is overdue"
GATED = "its policy's windows and budgets let it start from"
NEVER_OPENS = "none of its policy's windows opens again"
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
    ready, opens = _ready_at(state, job, ends, now), _opens_at(state, job, now)
    if ready is None:
        return Forecast(None, UNKNOWN_DEPENDENCY)
    if opens is None:
        return Forecast(None, NEVER_OPENS)
    run = _Run(state, job, pools, now, ends)
    try:
        found = run.forward(max(ready, opens))
        return found if opens == now else found._replace(assumption=f"{GATED} {format_time(opens)} on, {found.assumption}")
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


def _opens_at(state: State, job: JobRecord, now: int) -> int | None:
    """From when on its policy's windows and budgets let it start (R33); None: never, as they are."""
    reason, spent = gated(job), spent_for(job)
    if reason is None:
        return now
    if reason is WaitReason.OUTSIDE_WINDOW:
        return opens_at(state, job.policy, now)
    return job.policy.meters[name_of(spent)].ends if spent is not None else now


class _Run:
    """One run forward. Everything it changes in the state, `undo` changes back."""

    def __init__(self, state: State, job: JobRecord, pools: Sequence[PoolState], now: int, ends: Ends) -> None:
        self._state = state
        self._job = job
        self._pools = {pool.document.name: pool for pool in pools if pool.document.name != job.barred_from}
        self._now = now
        self._ends = ends
        self._gate = job.policy.gate
        self._changed: list[tuple[Holding, int]] = []
        self._due: list[tuple[int, int, JobRecord, Holding | None]] = []
        self._told = 0
        self._line = Line(state, job, self._pools)
        self._requests = {
            name: [(request, pool.index.number(request.shape)) for request in self._line.requests]
            for name, pool in self._pools.items()
        }
        self._looked = 0
        self._handed_out = 0
        self._began = (now, 0)

    def forward(self, ready: int) -> Forecast:
        """Play until the job starts, nothing more is known to happen, or the bound is reached."""
        self._note_ends()
        if ready > self._now:
            self._happens(ready, self._job)
        moment, after = self._now, None
        while True:
            if self._hand_out(moment, own=moment >= ready):
                return Forecast(moment, self._assumption(), after)
            if not self._due:
                return Forecast(None, NO_LIMIT)
            if self._is_far:
                return self._by_pace(moment)
            moment, after = self._due[0][0], None
            while self._due and self._due[0][0] == moment:
                _, _, job, holding = heapq.heappop(self._due)
                holding = holding or holding_of(self._state, job)
                if job is self._job:
                    self._open_gate()
                elif holding is not None:
                    self._hold(holding, -1)
                    after = job if after is None and job.leases else after

    def undo(self) -> None:
        """Leave the state as it was found."""
        for holding, sign in reversed(self._changed):
            (let_go if sign > 0 else hold)(self._state, holding)
        self._job.policy.gate = self._gate

    def _open_gate(self) -> None:
        """It stands in line from now on, and nothing shuts it and its fellows out (R33)."""
        self._job.policy.gate = None
        self._line.mark(self._job.policy)

    @property
    def _is_far(self) -> bool:
        """Whether enough has been looked at."""
        return self._looked + self._line.ranked > EFFORT_MAX

    def _assumption(self) -> str:
        parts = [BY_LIMITS]
        parts += [BY_HISTORY] if self._ends.by_history else []
        parts += [IN_TURN] if self._handed_out else []
        return ", ".join([*parts, NOBODY_NEW])

    def _by_pace(self, moment: int) -> Forecast:
        """Past the bound: as fast as until then, through all that is asked for before it."""
        first, handed_out = self._began
        if moment <= first or self._handed_out <= handed_out:
            return Forecast(None, f"more happens before it than is looked ahead: not before {format_time(moment)}")
        name = next(iter(self._pools))
        ahead = sum(_size(request) * count for request, count in self._line.ahead(name, self._job))
        start = moment + (moment - first) * ahead // (self._handed_out - handed_out)
        return Forecast(start, f"{BY_PACE} {format_time(moment)}; {self._assumption()}")

    def _note_ends(self) -> None:
        """The ends of all that hold leases in these pools; what is kept for a preemptor is held until that has run."""
        for policy in (*self._state.policies.values(), *self._state.deleted_policies.values()):
            for holder in policy.jobs.values():
                first = next(iter(holder.leases.values()), None)
                end = self._ends.of(holder) if first is not None and first.pool in self._pools else None
                if end is not None:
                    self._happens(end, holder)
        for kept in self._state.preemptions.values():
            pool = self._pools.get(kept.pool) if kept.kept else None
            span = self._ends.span(kept.job) if pool is not None else None
            start = kept_until(self._state, kept, self._ends, self._now) if span is not None else None
            if pool is not None and span is not None and start is not None:
                self._happens(start + span, kept.job, Holding(kept.job, pool, (), kept))

    def _happens(self, moment: int, job: JobRecord, holding: Holding | None = None) -> None:
        """At that moment the job lets go of what it holds; of its leases, where it is not told what."""
        self._told += 1
        heapq.heappush(self._due, (moment, self._told, job, holding))

    def _hold(self, holding: Holding, sign: int) -> None:
        (hold if sign > 0 else let_go)(self._state, holding)
        self._changed.append((holding, sign))
        self._looked += 1
        self._line.mark(holding.job.policy)

    def _hand_out(self, moment: int, *, own: bool) -> bool:
        """Whoever ranks before the job takes what fits; whether it then starts itself, where `own` says that it takes part."""
        full: set[tuple[str, Request]] = set()
        for name, pool in sorted(self._pools.items()):
            while (best := self._best(name, pool, full)) is not None:
                entry, places = best
                holding = Holding(entry.job, pool, places)
                self._hold(holding, 1)
                self._handed_out += _size(entry.job.request)
                span = self._ends.span(entry.job)
                if span is not None:
                    self._happens(moment + span, entry.job, holding)
                self._line.leave(entry)
                if not self._began[1]:
                    self._began = (moment, self._handed_out)
                if self._is_far:
                    return False
            if own and self._line.is_open(name) and self._places(self._job, pool) is not None:
                return True
        return False

    def _best(self, name: str, pool: PoolState, full: set[tuple[str, Request]]) -> tuple[Entry, tuple[Place, ...]] | None:
        """The first in line that has room, of those who rank before the job itself."""
        while True:
            mine, best, feasible = self._line.standing(name, self._job), None, pool.index.feasible()
            for request, bit in self._requests[name]:
                if (name, request) in full:
                    continue
                self._looked += 1
                if not feasible >> bit & 1 or over_capacity(pool, request.sums) is not None:
                    full.add((name, request))
                    continue
                entry = self._line.first(name, request)
                if entry is not None and entry[:2] < mine and (best is None or entry < best):
                    best = entry
            if best is None:
                return None
            places = self._places(best.job, pool)
            if places is not None:
                return best, places
            full.add((name, best.job.request))  # a gang, of which one replica would fit

    def _places(self, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
        return find_places(self._state, job, pool) if over_capacity(pool, job.request.sums) is None else None


def _size(request: Request) -> int:
    """What it takes, as one number: GPUs, or 1 where it takes none."""
    return request.total.get(GPU, 0) or 1
