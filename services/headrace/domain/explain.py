"""The whole answer to *why does it wait* (R22): the one reason (`waits`), and around it what helps to do something about it.

A pure function of state, job and time; nothing is recorded. Others' jobs appear by name only within the asker's tenant; the rest is one
line ("other tenants: 3 GPUs").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.queries import WhyView
from headrace.contracts.reasons import WaitReason
from headrace.domain.ahead import position
from headrace.domain.eligibility import may_reclaim
from headrace.domain.forecast import expected_start
from headrace.domain.state import JobState
from headrace.domain.waits import named, pools_of, shown, wait_of, waits_in

if TYPE_CHECKING:
    from headrace.domain.state import JobRecord, PoolState, State

FOR_CAPACITY = frozenset({WaitReason.FRAGMENTED, WaitReason.WOULD_EXCEED_RESERVATION, WaitReason.NO_FREE_CAPACITY})
"""Reasons for which whoever holds something in the pool is in the way."""


def explain(state: State, job: JobRecord, now: int) -> WhyView:
    """The whole answer to *why* at log time `now`."""
    if job.state is not JobState.PENDING:
        return WhyView(job=job.key, state=job.state, reason=job.reason, message=job.message or _not_waiting(job))
    wait = wait_of(state, job, now)
    pool = waits_in(state, job)
    blockers = _in_the_way(job, pool) if pool is not None and wait.reason in FOR_CAPACITY else wait.blockers
    start, assumption = None, ""
    if pool is not None and wait.reason is not WaitReason.FROZEN:
        start, assumption = expected_start(state, job, pools_of(state, job), now)[:2]
    return WhyView(
        job=job.key,
        state="pending",
        reason=wait.reason,
        message=wait.message,
        blockers=blockers,
        position=position(state, job),
        could_reclaim=pool is not None and may_reclaim(state, job, pool),
        expected_start=start,
        assumption=assumption,
    )


def _not_waiting(job: JobRecord) -> str:
    if job.state is JobState.STOPPING and job.stop is not None:
        return f"it is being stopped ({job.stop.cause})" + (
            f" for {shown(job, job.stop.preemptor)}" if job.stop.preemptor else ""
        )
    where = ", ".join(sorted({lease.node for lease in job.leases.values()}))
    return f"it is not waiting: it is {job.state}" + (f" on {where}" if where else "")


def _in_the_way(job: JobRecord, pool: PoolState) -> tuple[str, ...]:
    """Who holds what it needs: jobs of the same tenant by name, all others as one line."""
    return named(job, {lease.job.key: lease.job for node in pool.nodes.values() for lease in node.leases.values()}.values())
