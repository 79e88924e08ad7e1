"""The fold of taking back: searches, proposals, orders, nominations (R19, R26, R27)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.values.amounts import add_to
from headrace.domain.fold import arrays
from headrace.domain.fold.gpu_models import choose
from headrace.domain.fold.holds import end_hold
from headrace.domain.fold.nodes import held, set_status
from headrace.domain.fold.nominations import end_nomination, lift_bar, lift_late
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import Preemption
from headrace.domain.model.preemption_state import RAN_OUT, Proposal, Search
from headrace.domain.state import capacity
from headrace.domain.state.idleness import mark_idle, unmark_idle
from headrace.domain.state.job_deadlines import watch
from headrace.domain.state.search_backoff import note_failed_search, note_found_victims

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State


def _reclaim_opened(state: State, fact: f.ReclaimOpenedV1, sequence: int, _place: int) -> None:
    job, pool = state.jobs.get(fact.job), state.pools.get(fact.pool)
    if job is not None and pool is not None:
        pool.search = Search(f"{fact.job}@{sequence}", job, fact.pool, fact.cause, sequence, state.now)


def _open_search(state: State, preemption: str, pool: str) -> Search | None:
    found = state.pools.get(pool)
    search = found.search if found is not None else None
    return search if search is not None and search.id == preemption else None


def _proposed(state: State, fact: f.PreemptionProposedV1, _sequence: int, _place: int) -> None:
    search = _open_search(state, fact.preemption, fact.pool)
    if search is not None and search.proposal is None:
        search.proposal = Proposal(fact.cause, fact.victims, fact.places, fact.rule)


def _none(state: State, fact: f.PreemptionNoneV1, _sequence: int, _place: int) -> None:
    search = _open_search(state, fact.preemption, fact.pool)
    if search is None:
        return
    pool = state.pools[fact.pool]
    pool.search = None
    note_failed_search(pool, search.job, state.now, fact.protected, fact.retry_at)


def _dismissed(state: State, fact: f.PreemptionDismissedV1, _sequence: int, _place: int) -> None:
    search = _open_search(state, fact.preemption, fact.pool)
    if search is not None:
        pool = state.pools[fact.pool]
        pool.search = None
        note_failed_search(pool, search.job, state.now)


def _ordered(state: State, fact: f.PreemptionOrderedV1, sequence: int, _place: int) -> None:
    job, pool = state.jobs.get(fact.job), state.pools.get(fact.pool)
    if job is None or pool is None or job.state is not JobState.PENDING or job.nomination is not None:
        return
    if _open_search(state, fact.preemption, fact.pool) is not None:
        pool.search = None
    total: dict[str, int] = {}
    for place in fact.places:
        add_to(total, place.amounts)
    victims = [state.jobs[victim.job] for victim in fact.victims if victim.job in state.jobs]
    preemption = Preemption(
        fact.preemption,
        job,
        fact.pool,
        fact.cause,
        fact.victims,
        fact.places,
        total,
        sequence,
        state.now,
        {victim.key for victim in victims if victim.leases and not victim.yields_to},
    )
    state.preemptions[fact.preemption] = preemption
    note_found_victims(pool)
    state.preemptions_ordered += len(fact.victims)
    state.pending.remove(job)
    end_hold(state, job.key)
    choose(state, job, fact.places)
    job.nomination = preemption
    state.pending.add(job, state.now)
    capacity.nominate(state, preemption)
    for victim in victims:
        _yield(state, victim, preemption)
    if not preemption.leaving:
        preemption.all_left_at = state.now
    if job.array is not None:
        arrays.advance(state, job.array)


def _yield(state: State, victim: JobRecord, preemption: Preemption) -> None:
    """What is suspended makes no room by going (R29), and so it goes on counting."""
    if victim.yields_to or not victim.leases:
        return
    victim.yields_to = preemption.id
    victim.barred_from = preemption.pool
    state.barred.setdefault(preemption.job.key, []).append(victim)
    for lease in victim.leases.values():
        if not lease.suspended_at:
            capacity.yield_use(state, victim, state.pools[lease.pool], lease, 1)


def _nomination_ended(state: State, fact: f.NominationEndedV1, _sequence: int, _place: int) -> None:
    """Who has not left yet stays barred: what it sets free is first the preemptor's, for which it was ordered to stop (R27)."""
    job = state.jobs.get(fact.job)
    if job is not None and job.nomination is not None and job.nomination.id == fact.preemption:
        leaving = () if job.nomination.settled else job.nomination.leaving
        end_nomination(state, job)
        lift_bar(state, job.key, but=leaving)
        if fact.why == RAN_OUT:
            job.expired_nominations += 1
        if job.state is JobState.PENDING:  # one that moves may not have left its former place yet (R29)
            state.pending.add(job, state.now)
        if job.array is not None:
            arrays.advance(state, job.array)


def _settled(state: State, fact: f.PreemptionSettledV1, _sequence: int, _place: int) -> None:
    preemption = state.preemptions.get(fact.preemption)
    if preemption is not None:
        preemption.settled = True
        if not preemption.kept:
            del state.preemptions[fact.preemption]
            lift_late(state, preemption)


def _overdue(state: State, fact: f.LeaseOverdueV1, _sequence: int, _place: int) -> None:
    lease = held(state, fact.job, fact.attempt, fact.rank)
    if lease is not None:
        if not lease.overdue:
            capacity.count_overdue(state, state.pools[lease.pool], lease, 1)
        lease.overdue = True
        state.stir()  # what it holds is no longer counted on
        watch(state, lease.job)
        preemption = state.preemptions.get(lease.job.yields_to)
        if preemption is not None:
            preemption.overdue_at = state.now


def _idled(state: State, fact: f.LeaseIdledV1, _sequence: int, _place: int) -> None:
    """A lease that is suspended, or that is not preemptible, is not marked (R39)."""
    lease = held(state, fact.job, fact.attempt, fact.rank)
    if lease is not None and lease.job.preemptible and not lease.suspended_at:
        mark_idle(state, lease)


def _used(state: State, fact: f.LeaseUsedV1, _sequence: int, _place: int) -> None:
    lease = held(state, fact.job, fact.attempt, fact.rank)
    if lease is not None:
        unmark_idle(state, lease)


def _node_lost(state: State, fact: f.NodeLostV1, _sequence: int, _place: int) -> None:
    set_status(state, fact.node, "lost")


HANDLERS: dict[type, Any] = {
    f.ReclaimOpenedV1: _reclaim_opened,
    f.PreemptionProposedV1: _proposed,
    f.PreemptionNoneV1: _none,
    f.PreemptionOrderedV1: _ordered,
    f.PreemptionDismissedV1: _dismissed,
    f.NominationEndedV1: _nomination_ended,
    f.PreemptionSettledV1: _settled,
    f.LeaseOverdueV1: _overdue,
    f.LeaseIdledV1: _idled,
    f.LeaseUsedV1: _used,
    f.NodeLostV1: _node_lost,
}
