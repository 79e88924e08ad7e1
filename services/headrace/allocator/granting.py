"""Grants free units (R15-R19): the best-ranked candidate of each pool, one grant, then the next.

Strategy: grants are tried on the state and undone at the end of the round (`Trial`), so that the round sees its own effects. The order
of candidates is kept from round to round (`candidate_index`), what fits where during the round (`feasibility_cache`); both are sets of
requests.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.allocator.array_lines import ArrayLines, join_line
from headrace.allocator.backfill_reservations import lapsed
from headrace.allocator.feasibility_cache import FeasibilityCache
from headrace.allocator.hold_placement import HoldPlacement
from headrace.allocator.model_choices import ModelChoicesInLine
from headrace.allocator.reclaim_requests import ReclaimRequests
from headrace.allocator.relocation import Relocation, move, nomination_of
from headrace.allocator.request_bitsets import bits_of
from headrace.allocator.suspend_resume import Resumption, resume
from headrace.contracts import facts as f
from headrace.domain.model.job_states import JobState
from headrace.domain.model.preemption_state import MOVED
from headrace.domain.placement.placement import find_places
from headrace.domain.preemption.eligibility import RECLAIM
from headrace.domain.queueing.gates import may_start, must_borrow
from headrace.domain.queueing.ranking import is_inside
from headrace.domain.state import capacity
from headrace.domain.state.quota import limits_of, over_capacity, over_limit, to_start
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from headrace.allocator.candidate_index import CandidateIndex
    from headrace.allocator.pool_queue import PoolQueue
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Place
    from headrace.domain.fold.record_size import RecordCapacity
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

GRANTS_MAX = 400
"""Maximum leases of one round, unless one gang has more: bounds the time until the next round."""


class _Round:
    """One round on one state, tried in `trial`."""

    def __init__(
        self, state: State, trial: Trial, index: CandidateIndex, now: int, skip: AbstractSet[str], record: RecordCapacity
    ) -> None:
        self.state = state
        self.index = index
        self.now = now
        self.skip = skip
        self.passed_over: AbstractSet[str] = frozenset()
        if skip:
            self.passed_over = {key for key in skip if key in state.jobs and state.jobs[key].state is JobState.PENDING}
        self.record = record
        self.is_full = False
        self.facts: list[AnyFact] = []
        self.resumption = Resumption(state, skip)
        self.moving = Relocation(state, now, skip if state.terms.amended else state.suspended.keys())
        self._unbounded = index.unbounded
        self._trial = trial
        self._arrays: ArrayLines | None = None
        self._tried = 0
        self._feasibility = FeasibilityCache(state, index, now)
        trial.note(self._feasibility.leave)
        self.reclaims = ReclaimRequests(state, index, self._feasibility, now, skip)
        self._idle: dict[str, int] = {}
        self._models = ModelChoicesInLine(state, trial, index, self._feasibility) if state.pending.choosing else None

    def grant_nominated(self) -> None:
        """Grant to preemptors first, in the order of their preemptions: their places are reserved, so no other job loses its turn (R27)."""
        if not self.state.preemptions:
            return
        for preemption in sorted(self.state.preemptions.values(), key=lambda one: (one.sequence, one.id)):
            job = preemption.job
            if job.nomination is not preemption or job.key in self.skip or job.state is not JobState.PENDING:
                continue
            if not may_start(self.state, job, preemption.pool):
                continue
            pool = self.state.pools[preemption.pool]
            before = self._trial.mark
            self._trial.lift(preemption)
            places = self._places(job, pool)
            inside = is_inside(self.state, job, pool) if preemption.cause == MOVED else preemption.cause == RECLAIM
            if places is None or not self._hold(job, pool, places, inside=inside, rule="R27"):
                self._trial.undo(before)
                continue
            self._feasibility.lifted.add(preemption.pool)

    def keep(self) -> None:
        """Lift holds that have lapsed, and place holds for jobs that have waited too long, before any grant (R16)."""
        self.index.refresh()
        if self.state.holds:
            self._keep_on()
        if self._models is not None:
            self._models.advance(may_take=False)
        queues = self.index.in_order()
        for queue in queues:
            queue.advance(self.now)
        for queue in queues:
            for hold in self._new_holds(queue) if queue.backfill.due or queue.backfill.resting else ():
                placed = f.HoldPlacedV1(job=hold.job.key, pool=hold.pool, places=hold.places)
                if not self.record.takes((placed,)):
                    return
                self.facts.append(placed)
                self._feasibility.keep(hold, queue)

    def _keep_on(self) -> None:
        lifted = list(self.record.fill(lapsed(self.state, self.index, self.now, self.skip)))
        self.facts += lifted
        gone = {fact.job for fact in lifted} | self.skip
        for hold in self.state.holds.values():
            if hold.job.key not in gone:
                self._feasibility.keep(hold, self.index.queues[hold.pool])

    def _new_holds(self, queue: PoolQueue) -> Iterator[Hold]:
        placing = HoldPlacement(self.state, self.index, self._feasibility, queue, self.now, self.skip)
        while (hold := placing.next()) is not None:
            yield hold

    def grant_pending(self) -> None:
        """Grant the best of each pool, pools by name, until nothing more fits or the round is full; then open searches."""
        if self._models is not None:
            self._models.advance(may_take=True)  # units may have been kept since
        queues = self.index.in_order()
        while self._tried < GRANTS_MAX and not self.is_full and (self.index.has_line or self.state.suspended):
            moves = self._feasibility.moves
            granted = any(self._idle.get(queue.name) != self._feasibility.moves and self._grant_best(queue) for queue in queues)
            if not granted and self._feasibility.moves == moves:
                break  # else a gang turned out not to fit, and may go to a pool that was looked at before (R18)
        for name in sorted({*self.resumption.pools(), *self.moving.pools()}) if self.state.suspended else ():
            while name not in self.index.queues and self._resume_before(self.state.pools[name], None):
                pass
        for queue in queues:
            self.reclaims.open(queue)

    def _grant_best(self, queue: PoolQueue) -> bool:
        """Grant the pool's best candidate. Returns False if none fits."""
        while True:
            found = self._feasibility.best(queue, self._allowed)
            if self.state.suspended and self._resume_before(queue.pool, None if found is None else found[0].rank, queue):
                self._feasibility.resumed(queue)
                if self._models is not None:
                    self._models.advance(may_take=True)
                return True
            if found is None:
                self._idle[queue.name] = self._feasibility.moves
                return False
            if self.reclaims.keeps_from(queue, found[0].rank):
                found = self._feasibility.best(queue, self._beside_the_search(queue))
                if found is None:
                    return False
            best, stage = found
            job = best.job
            places, inside = self._feasibility.find(queue, stage, job), best.inside or not job.preemptible  # R17
            if places is None or not self._hold(job, queue.pool, places, inside=inside, rule="R15"):
                if self.is_full:
                    return False
                self._feasibility.fail(queue, stage, best.number)
                continue
            self._leave_line(best.candidates.pending_class.groups[best.number], job)
            self.index.refresh()
            self._feasibility.granted(queue, job)
            if self._models is not None:
                self._models.advance(may_take=True)
            return True

    def _resume_before(self, pool: PoolState, rank: Rank | None, queue: PoolQueue | None = None) -> bool:
        """Resume the best-ranked suspended job, here or where it was, if it ranks before `rank`.

        Returns False if none was resumed (R29).
        """
        found = self._feasibility.best_suspended(pool, self.resumption)
        moves = self._feasibility.best_moving(pool, self.moving, self.resumption) if self.moving else None
        if moves is not None and (found is None or moves[0] < found[0]):
            return self._goes_first(moves[0], rank, queue) and self._move(moves[1], pool, moves[2])
        return found is not None and self._goes_first(found[0], rank, queue) and self._resume(found[1], pool)

    def _goes_first(self, mine: Rank, rank: Rank | None, queue: PoolQueue | None) -> bool:
        """True if a suspended job of the rank `mine` is next in a pool, before the candidate of `rank`."""
        if (rank is not None and rank < mine) or self.is_full:
            return False
        return queue is None or not self.reclaims.keeps_from(queue, mine)

    def _resume(self, job: JobRecord, pool: PoolState) -> bool:
        """Resume the job where it was. Returns False if this record has no space for it."""
        fact = resume(job)
        if not self.record.takes((fact,)):
            self.is_full = not self.record.is_untouched
            return False
        for lease in job.leases.values():
            self._try(job, pool, capacity.gpu_part(lease))
        self._goes_on(job, [fact])
        return True

    def _move(self, job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> bool:
        """Move the job to other places. Returns False if this record has no space for it."""
        facts = move(job, pool, places)
        if not self.record.takes(facts):
            self.is_full = not self.record.is_untouched
            return False
        for lease in job.leases.values():
            self._trial.yield_use(job, self.state.pools[lease.pool], capacity.held_by(lease))
        self._trial.nominate(nomination_of(self.state, job, pool, places))
        self._goes_on(job, facts)
        return True

    def _goes_on(self, job: JobRecord, facts: list[AnyFact]) -> None:
        self.resumption.take(job)
        self.moving.take(job)
        self.facts += facts
        self.index.refresh()

    def _allowed(self, candidates: PoolCandidates, requests: int) -> int:
        """The requests whose head does not go to an earlier pool of its order (R18, R19)."""
        if not self.passed_over and not candidates.earlier:
            return requests
        if self.passed_over:
            for number in bits_of(requests):
                if candidates.pending_class.heads[number][1].key in self.passed_over:
                    requests &= ~(1 << number)
        for earlier in candidates.earlier:
            if not requests:
                break
            requests &= ~self._feasibility.grantable(earlier, requests)
            requests &= ~self.reclaims.waits_for(earlier, requests)
        return requests

    def _beside_the_search(self, queue: PoolQueue) -> Callable[[PoolCandidates, int], int]:
        """As `_allowed`, but only requests for other GPU models than those of the job for which victims are searched."""
        first, beside = self.reclaims.job_in(queue), 0
        models = frozenset(first.request.shape.models) if first is not None else frozenset()
        for number, request in enumerate(self.index.needs.requests):
            if models and request.shape.models and models.isdisjoint(request.shape.models):
                beside |= 1 << number
        return lambda candidates, requests: self._allowed(candidates, requests & beside)

    def _places(self, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
        total = job.request.total
        if over_capacity(pool, job.request.sums) is not None:
            return None
        scopes, against = limits_of(self.state, job, pool.document.name), to_start(self.state)
        if over_limit(scopes, pool.governed, total, beyond=job.beyond, against=against):
            return None
        return find_places(self.state, job, pool)

    def _leave_line(self, group: JobGroup, job: JobRecord) -> None:
        group.leave(job)
        self.state.pending.mark(group)
        self._trial.note(partial(join_line, self.state, group, job))
        if job.array is not None:
            if self._arrays is None:
                self._arrays = ArrayLines(self.state, self._trial)
            self._arrays.granted(job.array, group, job)

    def _hold(self, job: JobRecord, pool: PoolState, places: tuple[Place, ...], *, inside: bool, rule: str) -> bool:
        """Grant on trial. Returns False if this record has no space for it; then the round is full, unless the record is empty."""
        facts = leases(job, pool, places, inside=inside, rule=rule)
        if not self.record.takes(facts):
            self.is_full = not self.record.is_untouched
            return False
        for place in places:
            self._try(job, pool, place)
        self.facts += facts
        return True

    def _try(self, job: JobRecord, pool: PoolState, place: Place) -> None:
        node = self.state.nodes[place.node]
        if node.probation is not None and not node.probation.job:  # only one job runs on probation (R36)
            self._trial.note(partial(_set_probation, pool, node, ""))
            _set_probation(pool, node, job.key)
        self._trial.take(job, pool, place, {key: units for key, units in place.amounts.items() if key not in self._unbounded})
        self._tried += 1


def _set_probation(pool: PoolState, node: NodeState, job: str) -> None:
    """The job that the node tries on probation; empty: none."""
    if node.probation is not None:
        node.probation.job = job
        pool.index.put(node)


def leases(job: JobRecord, pool: PoolState, places: tuple[Place, ...], *, inside: bool, rule: str) -> list[AnyFact]:
    """The facts that begin the job's next attempt: one lease for each replica."""
    over_budget = must_borrow(job.policy)
    return [
        f.LeaseGrantedV1(
            job=job.key,
            attempt=job.attempt + 1,
            rank=number,
            node=place.node,
            pool=pool.document.name,
            devices=place.devices,
            amounts=place.amounts,
            inside=inside,
            resume_from=job.checkpoint,
            rule=rule,
            over_budget=over_budget,
        )
        for number, place in enumerate(places)
    ]


def grant(
    state: State, index: CandidateIndex, now: int, skip: AbstractSet[str], record: RecordCapacity, *, in_line: bool = True
) -> list[AnyFact]:
    """All grants of one round, and the searches that it opens; empty if no job waits.

    `skip`: jobs about which this record states facts already; `record`: what is left of it; without `in_line` only jobs with reserved
    places get grants (R27).
    """
    if not (state.pending.groups or state.preemptions or state.holds or state.suspended):
        return []
    with Trial(state) as trial:
        turn = _Round(state, trial, index, now, skip, record)
        turn.grant_nominated()
        if in_line:
            turn.keep()
            turn.grant_pending()
    opened = turn.reclaims.facts(state)
    return [*turn.facts, *record.fill(opened)]
