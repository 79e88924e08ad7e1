"""The whole answer to *why does it wait* (R22): the one reason (`waits`), and around it what helps to do something about it.

Per pool what is missing and who has it (`needs`), who goes before it (`ahead`), whether it could take something back (`reclaims`), when
it may start (`forecast`), and the cheapest change that would start it (`changes`). A pure function of state, job and time; nothing is
recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.values.gpu_memory import memory_text
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.cheapest_change import cheapest_change
from headrace.domain.explain.expected_ends import ExpectedEnds
from headrace.domain.explain.forecast import Forecast, expected_start
from headrace.domain.explain.hold_reasons import keep_notes
from headrace.domain.explain.needs import holders, pool_need, waiters
from headrace.domain.explain.reclaim_reasons import reclaim_in
from headrace.domain.explain.suspended import explain_suspended, moving_to
from headrace.domain.explain.wait_reasons import other_tenants, pools_of, shown, wait_of, waits_in
from headrace.domain.model.job_states import JobState
from headrace.domain.queueing.queue_position import position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.contracts.messages.explanation import Holder, ReclaimView
    from headrace.domain.explain.wait_reasons import Wait
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

FOR_CAPACITY = frozenset({WaitReason.FRAGMENTED, WaitReason.WOULD_EXCEED_RESERVATION, WaitReason.NO_FREE_CAPACITY})
"""Reasons for which every holder of something in the pool is in the way."""
FROZEN = "nothing is granted there until it is opened again"
BY_RECLAIM = "it takes back what is borrowed, and those who hold it are gone at the end of their grace"


def explain(state: State, job: JobRecord, now: int) -> WhyView:
    """The whole answer to *why* at log time `now`."""
    if job.state is JobState.SUSPENDED:
        return explain_suspended(state, job, now)
    if job.state is not JobState.PENDING:
        message = job.message or _not_waiting(job)
        return WhyView(job=job.key, state=job.state, reason=job.reason, message=message, sequence=state.sequence, now=now)
    wait, pool = wait_of(state, job, now), waits_in(state, job)
    if pool is None:
        return WhyView(
            job=job.key,
            state="pending",
            reason=wait.reason,
            message=wait.message,
            blockers=wait.blockers,
            sequence=state.sequence,
            now=now,
        )
    return _in_full(state, job, pool, wait, now)


def _in_full(state: State, job: JobRecord, pool: PoolState, wait: Wait, now: int) -> WhyView:
    ends, pools = ExpectedEnds(state, now), pools_of(state, job)
    behind, behind_more = waiters(state, job, pool)
    held_by, holders_more = holders(state, job, pool, wait, ends)
    reclaim = reclaim_in(state, job, pool, now, ends)
    frozen = wait.reason is WaitReason.FROZEN
    forecast = Forecast(None, FROZEN) if frozen else _earlier(expected_start(state, job, pools, now), reclaim, job)
    return WhyView(
        job=job.key,
        state="pending",
        reason=wait.reason,
        message=wait.message,
        blockers=_lines(held_by, holders_more) if wait.reason in FOR_CAPACITY else wait.blockers,
        position=position(state, job),
        could_reclaim=reclaim.could,
        expected_start=forecast.start,
        assumption=forecast.assumption,
        pools=tuple(pool_need(state, job, one, now) for one in pools),
        behind=behind,
        behind_more=behind_more,
        holders=held_by,
        holders_more=holders_more,
        reclaim=reclaim,
        cheapest=cheapest_change(state, job, pools, wait, forecast, now),
        notes=(*_shares_note(job), *keep_notes(state, job, pool, wait.reason, now)),
        sequence=state.sequence,
        now=now,
    )


def _shares_note(job: JobRecord) -> tuple[str, ...]:
    """What a job may be given of each GPU model; all that is said of it is for one of these (R42, R43)."""
    choices = job.request.choices
    if choices is None:
        return ()
    which = "; what is said here is for the first" if len(choices.requests) > 1 and job.nomination is None else ""
    return (f"it asks for {memory_text(choices.memory, choices.shares)}{which}",)


def _earlier(forecast: Forecast, reclaim: ReclaimView, job: JobRecord) -> Forecast:
    """The start by taking back, where that comes before the others would end by themselves."""
    if job.nomination is not None or reclaim.at is None or (forecast.start is not None and forecast.start <= reclaim.at):
        return forecast
    return Forecast(reclaim.at, BY_RECLAIM)


def _lines(those: Sequence[Holder], more: int) -> tuple[str, ...]:
    """Holders as lines: own jobs by key, how many more of them there are, all others as one (R22)."""
    own = [holder.job for holder in those if holder.job]
    rest = [f"and {more} more"] if more else []
    return (*own, *rest, *(other_tenants(holder.request) for holder in those if not holder.job))


def _not_waiting(job: JobRecord) -> str:
    if job.state is JobState.STOPPING and job.stop is not None:
        for_whom = f" for {shown(job, job.stop.preemptor)}" if job.stop.preemptor else ""
        return f"it is being stopped ({job.stop.cause}){for_whom}{moving_to(job)}"
    where = ", ".join(sorted({lease.node for lease in job.leases.values()}))
    return f"it is not waiting: it is {job.state}" + (f" on {where}" if where else "")
