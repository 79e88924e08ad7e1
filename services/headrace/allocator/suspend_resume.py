"""Suspending and resuming (R29): whether suspended victims free enough for a preemptor, and which suspended job is resumed next.

To resume, a suspended job needs only the devices that it had: it kept all the rest. It is ranked like a pending job of its queue with its
admission time (R15), by what it would be charged again. All suspended jobs are checked once in a round; host memory bounds their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.job_lifecycle import doubled
from headrace.contracts import facts as f
from headrace.contracts.values.amounts import CPU, GPU, MEMORY, add_to, is_gpu
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.model.dedication import may_use
from headrace.domain.queueing.gates import may_borrow, may_start, must_borrow
from headrace.domain.queueing.ranking import dominant_share, rank_of_group, rank_of_job, ranks_by_firm, static_rank
from headrace.domain.state import capacity
from headrace.domain.state.quota import limits_of, over_capacity, over_limit, over_reservation, to_grant, with_reservation

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from headrace.contracts.facts.fact import DeviceShare, Place
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


def frees_enough(state: State, job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> bool:
    """True if the job can start at `places` although its suspended victims there keep everything except their devices."""
    asked: dict[str, Amounts] = {}
    for place in places:
        add_to(asked.setdefault(place.node, {}), place.amounts)
    for name, amounts in asked.items():
        node = state.nodes[name]
        if amounts.get(CPU, 0) > node.cpu_open or amounts.get(MEMORY, 0) > node.memory_open:
            return False
    rest = {key: value for key, value in job.request.total.items() if not is_gpu(key)}
    limits = limits_of(state, job, pool.document.name)
    return over_capacity(pool, rest) is None and over_limit(limits, pool.governed, rest, beyond=job.beyond) is None


class Resumption:
    """Suspended jobs that could be resumed in one round, by pool."""

    def __init__(self, state: State, skip: AbstractSet[str]) -> None:
        self._state = state
        self._by_pool: dict[str, list[JobRecord]] = {}
        for job in state.suspended.values():
            if job.key not in skip and self._could(job):
                self._by_pool.setdefault(next(iter(job.leases.values())).pool, []).append(job)

    def pools(self) -> list[str]:
        """Names of the pools in which a job could be resumed, sorted."""
        return sorted(self._by_pool)

    def best(self, pool: PoolState) -> tuple[Rank, JobRecord] | None:
        """The best-ranked job that may be resumed in a pool; None while a search keeps the free units there (R19)."""
        if pool.search is not None:
            return None
        ranked = [
            (rank, job) for job in self._by_pool.get(pool.document.name, ()) if (rank := self.rank_in(job, pool)) is not None
        ]
        return min(ranked, key=lambda entry: entry[0], default=None)

    def take(self, job: JobRecord) -> None:
        """Remove a job that was resumed or moved."""
        there = self._by_pool.get(next(iter(job.leases.values())).pool, [])
        if job in there:
            there.remove(job)

    def rank(self, job: JobRecord) -> Rank | None:
        """Rank of a suspended job where it was; None if it cannot be resumed there now."""
        pool = self._state.pools[next(iter(job.leases.values())).pool]
        return self.rank_in(job, pool) if job in self._by_pool.get(pool.document.name, ()) else None

    def _could(self, job: JobRecord) -> bool:
        """True if all its devices exist and are free on nodes in service, and no nomination goes first there (R27)."""
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

    def rank_in(self, job: JobRecord, pool: PoolState) -> Rank | None:
        """Rank of a suspended job; None if its devices, a limit or its reservation prevent resuming it now."""
        asked = resumed(job)
        if not self._could(job) or over_capacity(pool, asked) is not None:
            return None
        scopes = limits_of(self._state, job, pool.document.name)
        if over_limit(scopes, pool.governed, asked, beyond=job.beyond, against=to_grant(self._state)) is not None:
            return None
        inside = self._fits(job, pool, asked, firm=ranks_by_firm(self._state, preemptible=job.preemptible))
        if not inside and not (may_borrow(job) or self._fits(job, pool, asked, firm=not job.preemptible)):
            return None
        static = static_rank(self._state, job.policy, job.profile, pool)
        share = 0 if inside else dominant_share(self._state, job.policy, kept_by(job) if self._state.terms.amended else None)
        return rank_of_job(rank_of_group(static, share, inside=inside), place_in_line(job))

    def _fits(self, job: JobRecord, pool: PoolState, asked: Amounts, *, firm: bool) -> bool:
        """True if its renewed charge fits in its unused reservation, by all use or by non-preemptible use (R17)."""
        looked_at = with_reservation(self._state, job.policy, pool.document.name)
        return over_reservation(looked_at, pool.governed, asked, firm=firm) is None and not must_borrow(job.policy)


def kept_by(job: JobRecord) -> Amounts:
    """Amounts that a suspended job keeps, and is charged for."""
    kept: Amounts = {}
    for lease in job.leases.values():
        add_to(kept, capacity.without_gpus(lease))
    return kept


def resumed(job: JobRecord) -> Amounts:
    """Amounts that the job is charged again when it is resumed."""
    asked: Amounts = {GPU: 0}
    for lease in job.leases.values():
        add_to(asked, capacity.gpu_part(lease).amounts)
    return asked


def resume(job: JobRecord) -> f.ResumeOrderedV1:
    """The order to resume; a suspension by preemption counts as one (R29)."""
    own = doubled(job) if job.suspended_by == "preempted" else job.min_runtime
    return f.ResumeOrderedV1(job=job.key, attempt=job.attempt, min_runtime=own)
