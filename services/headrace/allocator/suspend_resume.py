"""Suspending and resuming (R29): whether suspended victims give a preemptor enough, and which suspended job goes on next.

A suspended job needs nothing to go on but the devices it had: the rest it never gave up. It is ranked like a pending job of its queue with
its admission time (R15), by what it would be charged again. All suspended jobs are looked at once in a round, which host memory bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.job_lifecycle import doubled
from headrace.contracts import facts as f
from headrace.contracts.values.amounts import CPU, GPU, MEMORY, add_to
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.model.dedication import may_use
from headrace.domain.queueing.gates import may_borrow, may_start, must_borrow
from headrace.domain.queueing.ranking import compose, dominant_share, ranks_by_firm, static_rank
from headrace.domain.state import capacity
from headrace.domain.state.quota import over_capacity, over_limit, over_reservation, scopes_of, to_grant, with_reservation

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from headrace.contracts.facts.fact import DeviceShare, Place
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


def frees_enough(state: State, job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> bool:
    """Whether the job can start at `places` though its victims there keep all but their devices: suspended, not gone."""
    asked: dict[str, Amounts] = {}
    for place in places:
        add_to(asked.setdefault(place.node, {}), place.amounts)
    for name, amounts in asked.items():
        node = state.nodes[name]
        if amounts.get(CPU, 0) > node.cpu_open or amounts.get(MEMORY, 0) > node.memory_open:
            return False
    rest = {key: value for key, value in job.request.total.items() if key != GPU}
    limits = scopes_of(state, job.policy, pool.document.name)
    return over_capacity(pool, rest) is None and over_limit(limits, pool.governed, rest, beyond=job.beyond) is None


class Resuming:
    """The suspended jobs that could go on, by pool, as one round finds them."""

    def __init__(self, state: State, skip: AbstractSet[str]) -> None:
        self._state = state
        self._by_pool: dict[str, list[JobRecord]] = {}
        for job in state.suspended.values():
            if job.key not in skip and self._could(job):
                self._by_pool.setdefault(next(iter(job.leases.values())).pool, []).append(job)

    def pools(self) -> list[str]:
        """Those in which somebody could go on, by name."""
        return sorted(self._by_pool)

    def best(self, pool: PoolState) -> tuple[Rank, JobRecord] | None:
        """The best-ranked job that may go on in a pool now. None while a search is under way there: what is free is kept (R19)."""
        if pool.search is not None:
            return None
        ranked = [
            (rank, job) for job in self._by_pool.get(pool.document.name, ()) if (rank := self._rank(job, pool)) is not None
        ]
        return min(ranked, key=lambda entry: entry[0], default=None)

    def take(self, job: JobRecord) -> None:
        """It goes on, here or elsewhere."""
        there = self._by_pool.get(next(iter(job.leases.values())).pool, [])
        if job in there:
            there.remove(job)

    def rank(self, job: JobRecord) -> Rank | None:
        """What a suspended job is ordered by where it was; None where it cannot go on there now."""
        pool = self._state.pools[next(iter(job.leases.values())).pool]
        return self._rank(job, pool) if job in self._by_pool.get(pool.document.name, ()) else None

    def _could(self, job: JobRecord) -> bool:
        """Whether all its devices are there, free for all its replicas, and on nodes in service, and nobody goes first there (R27)."""
        devices: dict[str, list[DeviceShare]] = {}
        for lease in job.leases.values():
            node = self._state.nodes[lease.node]
            if not node.grantable or lease.pool == job.barred_from:
                return False
            devices.setdefault(node.name, []).extend(lease.devices)
            home = self._state.pool_of(node)
            if home is None or not may_use(home.document, node, job.policy.key):
                return False
        if not all(capacity.is_open(self._state.nodes[name], shares) for name, shares in devices.items()):
            return False
        return may_start(self._state, job, next(iter(job.leases.values())).pool)

    def _rank(self, job: JobRecord, pool: PoolState) -> Rank | None:
        """What it is ordered by; None where its devices, a limit or its reservation is in its way now."""
        asked = resumed(job)
        if not self._could(job) or over_capacity(pool, asked) is not None:
            return None
        scopes = scopes_of(self._state, job.policy, pool.document.name)
        if over_limit(scopes, pool.governed, asked, beyond=job.beyond, against=to_grant(self._state)) is not None:
            return None
        inside = self._fits(job, pool, asked, firm=ranks_by_firm(self._state, preemptible=job.preemptible))
        if not inside and not (may_borrow(job) or self._fits(job, pool, asked, firm=not job.preemptible)):
            return None
        static = static_rank(self._state, job.policy, job.profile, pool)
        share = 0 if inside else dominant_share(self._state, job.policy, kept_by(job) if self._state.terms.amended else None)
        return (*compose(static, share, inside=inside), *place_in_line(job))

    def _fits(self, job: JobRecord, pool: PoolState, asked: Amounts, *, firm: bool) -> bool:
        """Whether what it is charged again fits in its unused reservation, by all use or by what cannot be preempted (R17)."""
        looked_at = with_reservation(self._state, job.policy, pool.document.name)
        return over_reservation(looked_at, pool.governed, asked, firm=firm) is None and not must_borrow(job.policy)


def kept_by(job: JobRecord) -> Amounts:
    """What a suspended job has held all along, and is charged for."""
    kept: Amounts = {}
    for lease in job.leases.values():
        add_to(kept, capacity.without_gpus(lease))
    return kept


def resumed(job: JobRecord) -> Amounts:
    """What the job is charged again when it goes on."""
    return {GPU: sum(lease.amounts.get(GPU, 0) for lease in job.leases.values())}


def resume(job: JobRecord) -> f.ResumeOrderedV1:
    """The order to go on; where it was a preemption, it counts as one (R29)."""
    own = doubled(job) if job.suspended_by == "preempted" else job.min_runtime
    return f.ResumeOrderedV1(job=job.key, attempt=job.attempt, min_runtime=own)
