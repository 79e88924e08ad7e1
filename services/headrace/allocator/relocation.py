"""Moving suspended jobs (R29): which of them goes on in another place, from its checkpoint, and the facts that say so.

A suspended job that has a checkpoint and cannot go on where it is, is a candidate like a pending job of its queue with its admission time
(R15): it aims at the first pool of its order that has room for it. What it holds where it was suspended counts as gone in every test,
because it has left when it starts anew. It never has victims looked for, and nothing is kept for it (R16, R19).

Naive meaning: rank all of them in the pool, and take the first that has a place. Places are looked for in the order of rank, once for all
jobs that differ in nothing that a place depends on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.job_lifecycle import stop, why_never
from headrace.contracts import facts as f
from headrace.domain.indexes.pending import avoided
from headrace.domain.model.jobs import Preemption
from headrace.domain.model.preemption_state import MOVED
from headrace.domain.placement.placement import find_places
from headrace.domain.preemption.holdings import hold, holding_of, let_go
from headrace.domain.queueing.admissible import open_pools
from headrace.domain.queueing.gates import may_borrow, may_start
from headrace.domain.queueing.ranking import is_inside, may_hold_inside, rank
from headrace.domain.state import capacity
from headrace.domain.state.quota import over_capacity, over_limit, scopes_of, to_grant

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
    """Puts out of reach what is kept in a pool for jobs that rank before a rank (R16)."""
    GoesOn = Callable[[JobRecord], bool]
    """Whether a suspended job could go on where it is."""

    Found = tuple[Rank, JobRecord, tuple[Place, ...]]
    """A job that could move, its rank in a pool, and its places there."""


class Moving:
    """The suspended jobs that could move, as one round at log time `now` finds them. `skip`: jobs that this record settles."""

    def __init__(self, state: State, now: int, skip: AbstractSet[str]) -> None:
        self._state = state
        self._now = now
        self._jobs = [job for job in state.suspended.values() if job.key not in skip and self._may_move(job)]
        self._full: dict[str, set[tuple[object, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def pools(self) -> list[str]:
        """Those that any of them could go to as documents have it, by name."""
        return sorted({pool.document.name for job in self._jobs for pool in self._pools_of(job)})

    def best(self, pool: PoolState, goes_on: GoesOn, show: Show) -> Found | None:
        """The best-ranked job that moves to the pool now; None while a search is under way there: what is free is kept (R19)."""
        if pool.search is not None:
            return None
        ranked = [
            (mine, job)
            for job in self._jobs
            if pool in self._pools_of(job) and not goes_on(job) and (mine := self._rank(job, pool)) is not None
        ]
        for mine, job in sorted(ranked, key=lambda entry: entry[0]):
            places = self._places(job, pool, mine, show)
            if places is None or self._goes_elsewhere(job, pool, show) or why_never(self._state, job) is not None:
                continue
            return mine, job, places
        return None

    def take(self, job: JobRecord) -> None:
        """It moves, or goes on where it is."""
        self._jobs = [other for other in self._jobs if other is not job]

    def _may_move(self, job: JobRecord) -> bool:
        """Whether it has a checkpoint, and nothing has happened to it that is still to be settled (R32, R35)."""
        nodes = [self._state.nodes.get(lease.node) for lease in job.leases.values()]
        is_whole = len(nodes) == job.request.replicas and not job.endings and not job.yields_to
        return bool(job.checkpoint) and is_whole and all(node is not None and node.healthy for node in nodes)

    def _pools_of(self, job: JobRecord) -> list[PoolState]:
        """The pools of its order that it may enter (R27), and that are open to it (R11, R33)."""
        profile = self._state.profile(job.tenant, job.profile)
        if profile is None:
            return []
        pools = open_pools(self._state, job.policy, profile)
        return [
            pool for pool in pools if pool.document.name != job.barred_from and may_start(self._state, job, pool.document.name)
        ]

    def _goes_elsewhere(self, job: JobRecord, pool: PoolState, show: Show) -> bool:
        """Whether an earlier pool of its order has room for it (R18)."""
        for earlier in self._pools_of(job):
            if earlier is pool:
                return False
            mine = self._rank(job, earlier) if earlier.search is None else None
            if mine is not None and self._places(job, earlier, mine, show) is not None:
                return True
        return False

    def _rank(self, job: JobRecord, pool: PoolState) -> Rank | None:
        """What it is ordered by in the pool; None where a limit or its reservation is in its way now."""
        held = holding_of(self._state, job)
        if held is None:
            return None
        let_go(self._state, held)
        try:
            return self._rank_without(job, pool)
        finally:
            hold(self._state, held)

    def _rank_without(self, job: JobRecord, pool: PoolState) -> Rank | None:
        """The same, with what it holds out of the accounts."""
        state, request = self._state, job.request
        scopes = scopes_of(state, job.policy, pool.document.name)
        if over_limit(scopes, pool.governed, request.total, beyond=job.beyond, against=to_grant(state)) is not None:
            return None
        inside = is_inside(state, job, pool)
        if not inside and not may_borrow(job) and not may_hold_inside(state, job, pool):
            return None
        return rank(state, job, job, pool, inside=inside)

    def _places(self, job: JobRecord, pool: PoolState, mine: Rank, show: Show) -> tuple[Place, ...] | None:
        """Where it would go in the pool, beside what is kept there for jobs that rank before it; not on a node on probation (R36)."""
        away = tuple(sorted({*avoided(job, self._now), *self._state.set_aside}))
        nodes = tuple(lease.node for lease in job.leases.values())
        alike = (job.policy.key, job.request, job.preemptible, away, nodes)
        full = self._full.setdefault(pool.document.name, set())
        held = holding_of(self._state, job)
        if alike in full or held is None:
            return None
        show(pool, mine)
        let_go(self._state, held)
        avoiding, job.avoiding = job.avoiding, away
        try:
            fits = over_capacity(pool, job.request.sums) is None
            places = find_places(self._state, job, pool) if fits else None
        finally:
            job.avoiding = avoiding
            hold(self._state, held)
        if places is None:
            full.add(alike)
        return places


def move(job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> list[AnyFact]:
    """The decision, of two facts that stand in one record: the places are nominated, and the suspended attempt is stopped."""
    ordered = f.MoveOrderedV1(job=job.key, attempt=job.attempt, pool=pool.document.name, places=places)
    return [ordered, stop(job, MOVED, then="requeue")]


def nomination_of(state: State, job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> Preemption:
    """What the fold will keep for it, for this round to count with."""
    total: Amounts = {}
    for place in places:
        capacity.add((total,), place.amounts, 1)
    return Preemption("", job, pool.document.name, MOVED, (), places, total, state.sequence, state.now, leaving={job.key})
