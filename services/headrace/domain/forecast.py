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


def expected_start(state: State, job: JobRecord, pool: PoolState, now: int) -> tuple[int | None, str]:
    """(log time, assumption) of the earliest start in `pool`; None where the running jobs' limits do not tell.

    Each running job is taken to end at its time limit, and nobody else to go first.
    """
    ends = sorted(
        (end, holder.key, holder)
        for node in pool.nodes.values()
        for holder in {lease.job.key: lease.job for lease in node.leases.values()}.values()
        if (end := _end_of(holder, now)) is not None
    )
    gone: list[tuple[JobRecord, Place]] = []
    found = None
    seen: set[str] = set()
    try:
        for end, key, holder in ends:
            if key in seen:
                continue
            seen.add(key)
            for lease in holder.leases.values():
                place = Place(node=lease.node, devices=lease.devices, amounts=lease.amounts)
                capacity.give_back(state, holder, pool, place)
                gone.append((holder, place))
            if _fits(state, job, pool):
                found = end
                break
    finally:
        for holder, place in reversed(gone):
            capacity.take(state, holder, pool, place)
    if found is None:
        return None, "the jobs that hold what it needs have no time limit"
    return found, "running jobs end at their time limits and nobody else goes first"


def _end_of(holder: JobRecord, now: int) -> int | None:
    """When a job that holds leases will be gone at the latest; None where nothing says so."""
    if holder.state is JobState.STOPPING and holder.stop is not None:
        return max(now, holder.stop_at + holder.stop.callback_grace + holder.stop.term_grace)
    if holder.time_limit is None or not holder.started_at or len({lease.pool for lease in holder.leases.values()}) != 1:
        return None
    return max(now, holder.started_at + holder.time_limit)


def _fits(state: State, job: JobRecord, pool: PoolState) -> bool:
    total = job.request.total
    return (
        over_capacity(pool, total) is None
        and over_limit(scopes_of(state, job.policy, pool.document.name), pool.governed, total, beyond=job.beyond) is None
        and find_places(state, job, pool) is not None
    )
