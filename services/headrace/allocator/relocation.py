"""Moves suspended jobs (R29): a job continues elsewhere from its checkpoint; chooses the job and makes the facts.

A suspended job that has a checkpoint and cannot be resumed where it is, is a candidate like a pending job of its queue with its admission
time (R15): it goes to the first pool of its order where it fits. Its held amounts count as free in every test, because they are released
when it starts anew. It never has victims searched for it, and gets no holds (R16, R19).

Naive meaning: rank all of them in the pool, and take the first that has a place. Places are searched in the order of rank, once for all
jobs that do not differ in anything that a place depends on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.job_lifecycle import stop
from headrace.allocator.matching import is_charged_otherwise
from headrace.allocator.pending_review import why_never
from headrace.contracts import facts as f
from headrace.domain.model.jobs import Preemption
from headrace.domain.model.preemption_state import MOVED
from headrace.domain.placement.placement import find_places
from headrace.domain.queueing.admissible import open_pools
from headrace.domain.queueing.gates import may_borrow, may_start
from headrace.domain.queueing.ranking import is_inside, may_hold_inside, rank
from headrace.domain.state import capacity
from headrace.domain.state.quota import limits_of, over_capacity, over_limit, to_grant
from headrace.domain.state.trial import Trial, holding_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Place
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

    Show = Callable[[PoolState, Rank], None]
    """Reserves the holds in a pool of jobs that rank before a rank (R16)."""
    GoesOn = Callable[[JobRecord], bool]
    """True if a suspended job could be resumed where it is."""

    Found = tuple[Rank, JobRecord, tuple[Place, ...]]
    """A job that could move, its rank in a pool, and its places there."""


class Relocation:
    """Suspended jobs that could move in one round at log time `now`. `skip`: jobs that this record settles."""

    def __init__(self, state: State, now: int, skip: AbstractSet[str]) -> None:
        self._state = state
        self._now = now
        self._jobs = [job for job in state.suspended.values() if job.key not in skip and self._may_move(job)]
        self._full: dict[str, set[tuple[object, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def pools(self) -> list[str]:
        """Pools that any of them could go to by the documents, by name."""
        return sorted({pool.document.name for job in self._jobs for pool in self._pools_of(job)})

    def best(self, pool: PoolState, goes_on: GoesOn, show: Show) -> Found | None:
        """The best-ranked job that moves to the pool now; None while a search is under way there, for which free units are kept (R19)."""
        if pool.search is not None:
            return None
        ranked = [
            (mine, job)
            for job in self._jobs
            if pool in self._pools_of(job) and not goes_on(job) and (mine := self._rank(job, pool)) is not None
        ]
        for mine, job in sorted(ranked, key=lambda entry: entry[0]):
            places = self._places(job, pool, mine, show)
            if places is None or self._fits_in_other_pool(job, pool, show) or why_never(self._state, job) is not None:
                continue
            if is_charged_otherwise(self._state, job):  # it has to wait in line first
                continue
            return mine, job, places
        return None

    def take(self, job: JobRecord) -> None:
        """Remove a job that was moved or resumed."""
        self._jobs = [other for other in self._jobs if other is not job]

    def _may_move(self, job: JobRecord) -> bool:
        """True if it has a checkpoint, and no event of it is still to be settled (R32, R35)."""
        nodes = [self._state.nodes.get(lease.node) for lease in job.leases.values()]
        is_whole = len(nodes) == job.request.replicas and not job.endings and not job.yields_to
        return bool(job.checkpoint) and is_whole and all(node is not None and node.healthy for node in nodes)

    def _pools_of(self, job: JobRecord) -> list[PoolState]:
        """The pools of its order that it may enter (R27), and that are open to it (R11, R33)."""
        profile = self._state.profile(job.tenant, job.profile)
        if profile is None:
            return []
        pools, (_, outlasted) = open_pools(self._state, job.policy, profile), self._state.pending.kept_from(job, self._now)
        closed = {job.barred_from, *outlasted}
        return [pool for pool in pools if pool.document.name not in closed and may_start(self._state, job, pool.document.name)]

    def _fits_in_other_pool(self, job: JobRecord, pool: PoolState, show: Show) -> bool:
        """True if it fits in an earlier pool of its order (R18)."""
        for earlier in self._pools_of(job):
            if earlier is pool:
                return False
            mine = self._rank(job, earlier) if earlier.search is None else None
            if mine is not None and self._places(job, earlier, mine, show) is not None:
                return True
        return False

    def _rank(self, job: JobRecord, pool: PoolState) -> Rank | None:
        """Rank of the job in the pool; None if a limit or its reservation prevents it now."""
        held = holding_of(self._state, job)
        if held is None:
            return None
        with Trial(self._state) as trial:
            trial.release(held)
            return self._rank_without(job, pool)

    def _rank_without(self, job: JobRecord, pool: PoolState) -> Rank | None:
        """Rank of the job with its held amounts removed from the scopes."""
        state, request = self._state, job.request
        scopes = limits_of(state, job, pool.document.name)
        if over_limit(scopes, pool.governed, request.total, beyond=job.beyond, against=to_grant(state)) is not None:
            return None
        inside = is_inside(state, job, pool)
        if not inside and not may_borrow(job) and not may_hold_inside(state, job, pool):
            return None
        return rank(state, job, job, pool, inside=inside)

    def _places(self, job: JobRecord, pool: PoolState, mine: Rank, show: Show) -> tuple[Place, ...] | None:
        """Places in the pool beside the holds of better-ranked jobs; not on a node on probation (R36)."""
        avoided, _ = self._state.pending.kept_from(job, self._now)
        away = tuple(sorted({*avoided, *self._state.set_aside}))
        nodes = tuple(lease.node for lease in job.leases.values())
        alike = (job.policy.key, job.request, job.preemptible, away, nodes)
        full = self._full.setdefault(pool.document.name, set())
        held = holding_of(self._state, job)
        if alike in full or held is None:
            return None
        show(pool, mine)
        with Trial(self._state) as trial:
            trial.release(held)
            trial.avoid(job, away)
            fits = over_capacity(pool, job.request.sums) is None
            places = find_places(self._state, job, pool) if fits else None
        if places is None:
            full.add(alike)
        return places


def move(job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> list[AnyFact]:
    """The decision, two facts of one record: the places are nominated, and the suspended attempt is stopped."""
    ordered = f.MoveOrderedV1(job=job.key, attempt=job.attempt, pool=pool.document.name, places=places)
    return [ordered, stop(job, MOVED, then="requeue")]


def nomination_of(state: State, job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> Preemption:
    """The nomination as the fold will have it, for use in this round."""
    total: Amounts = {}
    for place in places:
        capacity.add((total,), place.amounts, 1)
    return Preemption("", job, pool.document.name, MOVED, (), places, total, state.sequence, state.now, leaving={job.key})
