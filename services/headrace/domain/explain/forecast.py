"""When a waiting job may start: what is known of the future played forward on the state, which is left as it was. Pure.

Strategy: running jobs end when `ends` says; behind each end the next job that finds room starts (R15, R18), within its limits and its
reservation and beside what is kept for others (R16, `expected_holds`), and ends in its turn, until it is the job itself. Pools grow for it
where they can (R38, `expected_nodes`). Accounts and free places change as they would in the fold and are given back at the end. Simpler
than what will really happen: no new job comes, no policy takes anything back, and only the job's own pools are examined. The work is
bounded; what lies beyond is estimated from the pace up to there.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import format_time
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.backfill.hold_policy import ends_at
from headrace.domain.explain.expected_ends import ExpectedEnds
from headrace.domain.explain.expected_holds import ExpectedHolds, Occupancy
from headrace.domain.explain.expected_maintenance import ExpectedMaintenance
from headrace.domain.explain.expected_nodes import ExpectedNodes
from headrace.domain.placement.placement import find_places
from headrace.domain.queueing.gates import gated, opens_at, spent_for
from headrace.domain.queueing.queue_projection import ProjectedEntry, QueueProjection
from headrace.domain.state.meters import name_of
from headrace.domain.state.quota import over_capacity
from headrace.domain.state.trial import JobHolding, Trial, holding_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from headrace.contracts.facts.fact import Place
    from headrace.domain.model.jobs import JobRecord, Preemption
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

EFFORT_MAX = 3_000
"""Groups ranked, requests and ends looked at in one forecast: some 15 ms."""

NO_LIMIT = "nothing says when the jobs that hold what it needs will end: no time limit, no run of their queue in the last hour"
BY_LIMITS = "running jobs end at their time limits"
BY_HISTORY = "those without one after the mean run time of their queue in the last hour"
IN_TURN = "jobs that rank before it go first"
OVERTAKEN = "jobs behind it take what it has no room for"
BY_GROWTH = "nodes that its pools create are there when they have had the time to boot"
NO_NEW_JOB = "and no new job goes before it"
BY_PACE = "at the pace at which those before it start until"
BY_GRACE = "those that make room for it are gone at the end of their grace"
AS_PLANNED = "maintenance begins and ends as planned"
TOO_LONG = "it is too long to end before the next maintenance of its pools begins; a shorter time limit helps"
OVERDUE = "a job that makes room for it is overdue"
GATED = "its policy's windows and budgets let it start from"
NEVER_OPENS = "none of its policy's windows opens again"
UNKNOWN_DEPENDENCY = "nothing says when the job that it waits for will end"


class Forecast(NamedTuple):
    """The earliest start (log time; None if unknown), what it rests on, and the job whose end makes room, if it is one."""

    start: int | None
    assumption: str
    after: JobRecord | None = None


def expected_start(state: State, job: JobRecord, pools: Sequence[PoolState], now: int) -> Forecast:
    """The earliest start of a waiting job in `pools`, those of its order.

    A job for which places are kept starts there, when those that make room have left (R27).
    """
    ends = ExpectedEnds(state, now)
    if job.nomination is not None:
        gone = kept_until(state, job.nomination, ends, now)
        return Forecast(gone, BY_GRACE) if gone is not None else Forecast(None, OVERDUE)
    ready, opens = _ready_at(state, job, ends, now), _opens_at(state, job, now)
    if ready is None:
        return Forecast(None, UNKNOWN_DEPENDENCY)
    if opens is None:
        return Forecast(None, NEVER_OPENS)
    with Trial(state) as trial:
        found = _Run(state, trial, job, pools, now, ends).forward(max(ready, opens))
    return found if opens == now else found._replace(assumption=f"{GATED} {format_time(opens)} on, {found.assumption}")


def kept_until(state: State, preemption: Preemption, ends: ExpectedEnds, now: int) -> int | None:
    """When the last of those that make room will be gone; None: unknown."""
    known = [ends.of(state.jobs[key]) for key in preemption.leaving if key in state.jobs]
    if None in known:
        return None
    return max((end for end in known if end is not None), default=now)


def _ready_at(state: State, job: JobRecord, ends: ExpectedEnds, now: int) -> int | None:
    """From when on it stands in line: its back-off is over (R32), what it depends on has ended; None: unknown."""
    others = [state.jobs.get(key) for key in job.waits_for]  # of an array nothing says when it will end
    known = [ends.of(other) if other is not None else None for other in others]
    if job.doomed_by or None in known:
        return None
    if job.array is not None and job.array.is_full:
        first = min(
            (end for one in job.array.elements.values() if one.leases and (end := ends.of(one)) is not None), default=None
        )
        if first is None:
            return None
        known.append(first)
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
    """One run forward. Everything that it changes in the state is in `trial`."""

    def __init__(
        self, state: State, trial: Trial, job: JobRecord, pools: Sequence[PoolState], now: int, ends: ExpectedEnds
    ) -> None:
        self._state = state
        self._trial = trial
        self._job = job
        self._pools = {pool.document.name: pool for pool in pools if pool.document.name != job.barred_from}
        self._now = now
        self._ends = ends
        self._due: list[tuple[int, int, Callable[[], JobRecord | None]]] = []
        self._serial = 0
        self._turns = set[int]()
        self._line = QueueProjection(state, job, self._pools)
        self._requests = {
            name: [(request, pool.index.number(request.shape)) for request in self._line.requests]
            for name, pool in self._pools.items()
        }
        self._occupancy = Occupancy()
        self._maintenance = ExpectedMaintenance(state, trial, self._pools)
        self._holds = ExpectedHolds(state, self._pools, self._line, self._occupancy, self._maintenance)
        trial.note(self._holds.hide)
        if self._maintenance:
            trial.note(self._line.open_all())
        self._moment = now
        self._nodes = ExpectedNodes(state, trial, self._pools, now)
        self._is_in_line = False
        self._looked = 0
        self._handed_out = 0
        self._is_overtaken = False
        self._began = (now, 0)

    def forward(self, ready: int) -> Forecast:
        """Play until the job starts, nothing more is known to happen, or the bound is reached."""
        self._note_ends()
        for name, moment in self._nodes.on_the_way():
            self._happens(moment, partial(self._nodes.come, name, moment))
        for name, moment in self._maintenance.drains():
            self._happens(moment, partial(self._maintenance.drain, name))
        for name in self._maintenance.windows():
            self._turn_windows(name, self._now)
        if ready > self._now:
            self._happens(ready, self._open_gate)
        else:
            self._join()
        moment, after = self._now, None
        while True:
            self._update_holds(moment)
            if self._hand_out(moment):
                return Forecast(moment, self._assumption(), after)
            self._ask_for_nodes(moment)
            if not self._due:
                return Forecast(None, TOO_LONG if self._is_kept_away(moment) else NO_LIMIT)
            if self._is_far:
                return self._by_pace(moment)
            moment = self._due[0][0]
            self._update_holds(moment)  # before jobs at their limits have been told to stop
            after = self._go_on_to(moment)

    def _turn_windows(self, name: str, moment: int) -> None:
        """What the windows of a pool say from now on, and when they say something else (R41)."""
        following = self._maintenance.turn(name, moment)
        if following is not None:
            self._happens(following, partial(self._turn_windows, name, following))

    def _is_kept_away(self, moment: int) -> bool:
        """Whether the job would outlast the maintenance of all its pools."""
        return bool(self._pools) and not any(self._maintenance.may_start(self._job, name, moment) for name in self._pools)

    def _go_on_to(self, moment: int) -> JobRecord | None:
        """All that happens at the next moment; the first job whose end makes room, if one does."""
        after = None
        while self._due and self._due[0][0] == moment:
            gone = heapq.heappop(self._due)[2]()
            after = after or gone
        return after

    def _join(self) -> None:
        self._line.join(self._job)
        self._is_in_line = True

    def _open_gate(self) -> None:
        """It stands in line from now on, and nothing shuts it and its fellows out (R33)."""
        policy, gate = self._job.policy, self._job.policy.gate
        policy.gate = None
        self._trial.note(lambda: setattr(policy, "gate", gate))
        self._join()
        self._line.mark(self._job.policy)

    @property
    def _is_far(self) -> bool:
        """Whether enough has been looked at."""
        return self._looked + self._line.ranked + self._holds.effort > EFFORT_MAX

    def _assumption(self) -> str:
        parts = [BY_LIMITS]
        parts += [BY_HISTORY] if self._ends.by_history else []
        parts += [BY_GROWTH] if self._nodes.joined else []
        parts += [IN_TURN] if self._handed_out else []
        parts += [OVERTAKEN] if self._is_overtaken else []
        parts += [AS_PLANNED] if self._maintenance else []
        return ", ".join([*parts, NO_NEW_JOB])

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
                    self._happens(end, partial(self._leave, holder))
        for kept in self._state.preemptions.values():
            pool = self._pools.get(kept.pool) if kept.kept else None
            span = self._ends.span(kept.job) if pool is not None else None
            start = kept_until(self._state, kept, self._ends, self._now) if span is not None else None
            if pool is not None and span is not None and start is not None:
                self._happens(start + span, partial(self._end, JobHolding(kept.job, pool, (), kept)))

    def _happens(self, moment: int, what: Callable[[], JobRecord | None]) -> None:
        """That happens at that moment; it tells the job whose leases it ends."""
        self._serial += 1
        heapq.heappush(self._due, (moment, self._serial, what))

    def _leave(self, job: JobRecord) -> JobRecord | None:
        """A job lets go of its leases."""
        holding = holding_of(self._state, job)
        if holding is not None:
            self._end(holding)
        return job if holding is not None else None

    def _end(self, holding: JobHolding) -> None:
        self._hold(holding, -1)
        self._occupancy.leave(holding.job, holding.places)

    def _hold(self, holding: JobHolding, sign: int) -> None:
        (self._trial.hold if sign > 0 else self._trial.release)(holding)
        self._looked += 1
        self._line.mark(holding.job.policy)

    def _update_holds(self, moment: int) -> None:
        """See for whom something is to be kept at that moment (R16), and when that may end."""
        self._holds.update(self._requests, moment)
        for end in self._holds.turns_end(moment):
            if end not in self._turns:
                self._turns.add(end)
                self._happens(end, lambda: None)

    def _ask_for_nodes(self, moment: int) -> None:
        """Nothing more fits: have a pool grow for the job, if one can (R38)."""
        if not self._is_in_line or not any(pool.document.burst for pool in self._pools.values()) or self._is_kept_away(moment):
            return
        open_to = ((name, self._line.ahead(name, self._job)) for name in self._pools if self._line.is_open(name))
        for name, due in self._nodes.ask(self._job.request, open_to, moment):
            self._happens(due, partial(self._nodes.come, name, due))

    def _hand_out(self, moment: int) -> bool:
        """Let the next jobs take what fits, until the job itself is next; whether it is."""
        self._moment = moment
        for name, pool in sorted(self._pools.items()):
            full: set[Request] = set()
            while (best := self._best(name, pool, full, moment)) is not None:
                entry, places = best
                if entry.job is self._job:
                    return True
                self._start(name, entry, places, moment)
                if self._is_far:
                    return False
        return False

    def _start(self, name: str, entry: ProjectedEntry, places: tuple[Place, ...], moment: int) -> None:
        """Start another job than the one asked about."""
        job = entry.job
        is_before = entry.rank < self._line.standing(name, self._job)
        self._holds.hide()
        self._holds.end(job)
        holding = JobHolding(job, self._pools[name], places)
        self._hold(holding, 1)
        self._occupancy.come(job, places, moment)
        span = self._ends.span(job)
        if span is not None:
            self._happens(moment + span, partial(self._end, holding))
        self._line.leave(entry)
        if not is_before:
            self._is_overtaken = True
            return
        self._handed_out += _size(job.request)
        if not self._began[1]:
            self._began = (moment, self._handed_out)

    def _best(
        self, name: str, pool: PoolState, full: set[Request], moment: int
    ) -> tuple[ProjectedEntry, tuple[Place, ...]] | None:
        """The first in line that has room beside what is kept for those before it and not lent to it."""
        holds, holders = self._holds, self._holds.in_order(name)
        for length in range(len(holders) + 1):
            stage = [key for _, key in holders[:length]]
            holds.show(name, stage)
            best = self._best_that_fits(name, pool, full if not length else set(full))
            loans = holds.loans(name, stage, moment)
            for until in loans:
                holds.show(name, holds.lent_after(name, stage, until, moment))
                found = self._best_that_fits(name, pool, set(full), (moment, until))
                best = found if best is None or (found is not None and found[0] < best[0]) else best
            if best is None:
                return None
            if length == len(holders) or best[0].rank <= holders[length][0]:
                if loans:
                    holds.show(name, holds.not_lent(name, stage, best[0].job, moment))
                    best = best[0], self._find(best[0].job, pool) or best[1]
                return best
        return None

    def _best_that_fits(
        self, name: str, pool: PoolState, full: set[Request], ended: tuple[int, int] | None = None
    ) -> tuple[ProjectedEntry, tuple[Place, ...]] | None:
        """The same, with what is kept as it is shown; requests that do not fit are added to `full`.

        `ended`: a moment, and until when those have ended that are looked at if they are granted something then.
        """
        passed: set[str] = set()
        while True:
            best, feasible = None, pool.index.feasible()
            for request, bit in self._requests[name]:
                if request in full:
                    continue
                self._looked += 1
                if not feasible >> bit & 1 or over_capacity(pool, request.sums) is not None:
                    full.add(request)
                    continue
                if ended is None and not self._maintenance:
                    entry = self._line.first(name, request)
                else:
                    entry = self._first_of(name, request, ended, passed)
                if entry is not None and (best is None or entry < best):
                    best = entry
            if best is None:
                return None
            places = self._find(best.job, pool)
            if places is not None:
                return best, places
            if self._maintenance:  # others may be shorter
                passed.add(best.job.key)
            else:
                full.add(best.job.request)  # a gang; one replica of it would fit

    def _find(self, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
        with self._maintenance.seen_by(job, self._moment):
            return find_places(self._state, job, pool)

    def _first_of(
        self, name: str, request: Request, ended: tuple[int, int] | None, passed: AbstractSet[str]
    ) -> ProjectedEntry | None:
        """The best of those who ask for this, were not passed over, and would end in time if they were granted it (R16, R41)."""
        for entry in self._line.heads(name, request):
            end = ends_at(self._state, entry.job, ended[0]) if ended is not None else None
            if entry.job.key in passed or (ended is not None and (end is None or end > ended[1])):
                continue
            if self._maintenance.may_start(entry.job, name, self._moment):
                return entry
        return None


def _size(request: Request) -> int:
    """What it takes, as one number: GPUs, or 1 where it takes none."""
    return request.total.get(GPU, 0) or 1
