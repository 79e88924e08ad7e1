"""Judges preemption's proposals, and ends nominations that are over (R26, R27). A plan is checked again before it is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.allocator.job_lifecycle import stop
from headrace.allocator.matching import match_again
from headrace.allocator.suspend_resume import frees_enough
from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.domain.model.dedication import may_use
from headrace.domain.model.job_states import JobState
from headrace.domain.model.preemption_state import RAN_OUT, nomination_time
from headrace.domain.preemption import victims
from headrace.domain.queueing.gates import may_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.fold.record_size import RecordCapacity
    from headrace.domain.model.jobs import JobRecord, Preemption
    from headrace.domain.model.preemption_state import Proposal, Search
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

SEARCH_MAX = 2 * SECOND
"""Maximum time for which a search delays other jobs (R19)."""


def judge_proposals(state: State, now: int, record: RecordCapacity) -> Iterator[AnyFact]:
    """Orders for proposals that are still legal and sufficient; dismissals for the others, and for searches without an answer.

    After an order no other proposal is judged in the same record: the order changes which proposals are legal.
    """
    for name in sorted(state.pools):
        search = state.pools[name].search
        if search is None:
            continue
        if search.proposal is not None:
            judged = _judge(state, search, search.proposal, now)
            if not record.takes(judged):
                if not record.is_untouched:
                    return  # the next record has space
                judged = _in_short(judged)
                if not record.takes(judged):
                    judged = [_dismissed(search, "it is too large for one record")]
            yield from judged
            if isinstance(judged[0], f.PreemptionOrderedV1):
                return
        elif now - search.opened_at >= SEARCH_MAX:
            yield _dismissed(search, "no answer within 2 s")
        elif search.job.state is not JobState.PENDING:
            yield _dismissed(search, "the preemptor waits no longer")


def _judge(state: State, search: Search, proposal: Proposal, now: int) -> list[AnyFact]:
    """The order with all its stops, or one dismissal."""
    pool = state.pools[search.pool]
    if not may_start(state, search.job, search.pool):
        return [_dismissed(search, "nothing is granted there any more")]
    plan = victims.VictimPlan(proposal.cause, proposal.victims, proposal.places)
    places = victims.review(state, search.job, pool, plan, now)
    if isinstance(places, str):
        return [_dismissed(search, places)]
    ordered = f.PreemptionOrderedV1(
        preemption=search.id,
        job=search.job.key,
        pool=search.pool,
        cause=plan.cause,
        victims=plan.victims,
        places=places,
        rule=proposal.rule,
    )
    suffices = frees_enough(state, search.job, pool, places)
    return [ordered, *(_stop(state.jobs[victim.job], search.job, suffices) for victim in plan.victims)]


def _stop(victim: JobRecord, preemptor: JobRecord, suffices: bool) -> f.StopOrderedV1:
    """The stop of a victim; a victim to be suspended that has to give more than its devices is requeued (R29)."""
    order = stop(victim, "preempted", preemptor=preemptor.key)
    return (
        order
        if suffices or order.ladder.then != "suspend"
        else stop(victim, "preempted", preemptor=preemptor.key, then="requeue")
    )


def _in_short(judged: Iterable[AnyFact]) -> list[AnyFact]:
    """An order that contains its victims' ladders instead of separate stops; each ladder once."""
    ordered, *stops = judged
    if not isinstance(ordered, f.PreemptionOrderedV1):
        return [ordered]
    of_job = {fact.job: fact.ladder for fact in stops if isinstance(fact, f.StopOrderedV1)}
    ladders = list(dict.fromkeys(of_job.values()))
    numbers = {ladder: number for number, ladder in enumerate(ladders)}
    victims = tuple(replace(victim, ladder=numbers[of_job[victim.job]]) for victim in ordered.victims)
    return [replace(ordered, victims=victims, ladders=tuple(ladders))]


def _dismissed(search: Search, why: str) -> AnyFact:
    return f.PreemptionDismissedV1(preemption=search.id, job=search.job.key, pool=search.pool, why=why)


def end_nominations(state: State, now: int) -> Iterator[AnyFact]:
    """Nominations with an unusable place, or whose preemptor has not started in time after the last victim left (R27)."""
    for preemption in state.preemptions.values():
        if preemption.kept:
            why = _why_over(state, preemption, now)
            if why:
                yield f.NominationEndedV1(preemption=preemption.id, job=preemption.job.key, why=why)
                if preemption.job.state is JobState.PENDING and (matched := match_again(state, preemption.job)) is not None:
                    yield matched


def _why_over(state: State, preemption: Preemption, now: int) -> str:
    pool = state.pools[preemption.pool]
    if not all(_is_usable(pool, preemption, place.node) for place in preemption.places):
        return "a place in it has become unusable"
    if not may_start(state, preemption.job, preemption.pool):
        return "nothing is granted there any more"
    stop = preemption.job.stop
    if stop is not None and stop.then != "requeue":
        return f"the job ends: {stop.cause}"
    end = nomination_end(state, preemption)
    return RAN_OUT if end is not None and now >= end else ""


def _is_usable(pool: PoolState, preemption: Preemption, name: str) -> bool:
    node = pool.nodes.get(name)
    if node is None or not node.grantable or name in preemption.job.avoiding:
        return False
    return may_use(pool.document, node, preemption.job.policy.key)


def nomination_end(state: State, preemption: Preemption) -> int | None:
    """End of a nomination, from when the last victim left or became overdue; None while some may leave in time (R27)."""
    if not all(lease.overdue for key in preemption.leaving for lease in state.jobs[key].leases.values()):
        return None
    since = preemption.all_left_at or max(preemption.overdue_at, preemption.released_at)
    timeout = state.pools[preemption.pool].document.nomination_timeout
    return since + nomination_time(timeout, preemption.job.expired_nominations, amended=state.terms.amended)
