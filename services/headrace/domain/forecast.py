"""When a waiting job may start: the running jobs' time limits played forward on the state, which is left as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.facts.fact import Place
from headrace.domain import capacity
from headrace.domain.placement import find_places
from headrace.domain.scopes import over_capacity, over_limit, scopes_of
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from headrace.domain.state import JobRecord, PoolState, State
    from headrace.domain.takings import Preemption


NO_LIMIT = "the jobs that hold what it needs have no time limit"
BY_LIMITS = "running jobs end at their time limits and nobody else goes first"
BY_GRACE = "those that make room for it are gone at the end of their grace"
OVERDUE = "a job that makes room for it is overdue"


def expected_start(state: State, job: JobRecord, pool: PoolState, now: int) -> tuple[int | None, str]:
    """(log time, assumption) of the earliest start in `pool`; None where the running jobs' limits do not tell.

    Each running job is taken to end at its time limit, and nobody else to go first. A job for which places are kept starts there,
    when those that make room have left (R27).
    """
    if job.nomination is not None:
        ends = [_end_of(victim, now) for victim in _leaving(state, job.nomination)]
        known = [end for end in ends if end is not None]
        return (max(known, default=now), BY_GRACE) if len(known) == len(ends) else (None, OVERDUE)
    holders = {lease.job.key: lease.job for node in pool.nodes.values() for lease in node.leases.values()}
    timed = sorted((end, key) for key, holder in holders.items() if (end := _end_of(holder, now)) is not None)
    gone: list[JobRecord] = []
    try:
        for end, key in timed:
            gone.append(holders[key])
            _let_go(state, holders[key], pool)
            if _fits(state, job, pool):
                return end, BY_LIMITS
    finally:
        for holder in reversed(gone):
            _hold_again(state, holder, pool)
    return None, NO_LIMIT


def _leaving(state: State, preemption: Preemption) -> list[JobRecord]:
    return [state.jobs[key] for key in preemption.leaving if key in state.jobs]


def _end_of(holder: JobRecord, now: int) -> int | None:
    """When a job that holds leases will be gone at the latest; None where nothing says so."""
    if any(lease.overdue for lease in holder.leases.values()):
        return None
    if holder.state is JobState.STOPPING and holder.stop is not None:
        return max(now, holder.stop_at + holder.stop.callback_grace + holder.stop.term_grace)
    if holder.time_limit is None or not holder.started_at or len({lease.pool for lease in holder.leases.values()}) != 1:
        return None
    return max(now, holder.started_at + holder.time_limit)


def _let_go(state: State, holder: JobRecord, pool: PoolState) -> None:
    """As the fold would release its leases; use that yields is out of the accounts already (R17)."""
    for place in _places(holder):
        capacity.give_back(state, holder, pool, place)
        if holder.yields_to:
            capacity.yield_use(state, holder, pool, place.amounts, -1)


def _hold_again(state: State, holder: JobRecord, pool: PoolState) -> None:
    """The inverse of `_let_go`."""
    for place in _places(holder):
        if holder.yields_to:
            capacity.yield_use(state, holder, pool, place.amounts, 1)
        capacity.take(state, holder, pool, place)


def _places(holder: JobRecord) -> list[Place]:
    return [Place(node=lease.node, devices=lease.devices, amounts=lease.amounts) for lease in holder.leases.values()]


def _fits(state: State, job: JobRecord, pool: PoolState) -> bool:
    total = job.request.total
    return (
        over_capacity(pool, total) is None
        and over_limit(scopes_of(state, job.policy, pool.document.name), pool.governed, total, beyond=job.beyond) is None
        and find_places(state, job, pool) is not None
    )
