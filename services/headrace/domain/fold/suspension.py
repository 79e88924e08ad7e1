"""The fold of suspending, resuming and moving (R29): devices are set free and held again, all the rest of a lease stays held meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.values.amounts import add_to
from headrace.domain.fold.nodes import held, note_left
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import Preemption
from headrace.domain.model.preemption_state import MOVED
from headrace.domain.state import capacity
from headrace.domain.state.idleness import unmark_idle
from headrace.domain.state.job_deadlines import watch
from headrace.domain.state.meters import charge

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State


def _lease_suspended(state: State, fact: f.LeaseSuspendedV1, _sequence: int, _place: int) -> None:
    lease = held(state, fact.job, fact.attempt, fact.rank)
    if lease is None or lease.suspended_at:
        return
    job, pool = lease.job, state.pools[lease.pool]
    if job.yields_to:
        capacity.yield_use(state, job, pool, lease, -1)
    if lease.overdue:
        capacity.count_overdue(state, pool, lease, -1)
    capacity.give_back(state, job, pool, capacity.gpu_part(lease))
    if lease.charged:
        charge(lease, capacity.without_gpus(lease), state.now)
    pool.openings += lease.overdue
    lease.suspended_at, lease.resuming, lease.overdue = state.now, False, False
    if lease.idle_at:
        unmark_idle(state, lease)
    state.stir()
    suspends = job.stop is None or job.stop.then == "suspend"
    if suspends and len(job.leases) == job.request.replicas and all(other.suspended_at for other in job.leases.values()):
        _job_suspended(state, job)
    watch(state, job)


def _job_suspended(state: State, job: JobRecord) -> None:
    """All leases are suspended: the job has been preempted, and is not a victim any more."""
    note_left(state, job, state.now)
    job.suspended_by = job.stop.cause if job.stop is not None else ""
    job.preemptions += job.suspended_by == "preempted"
    job.state, job.suspended_at, job.stop, job.yields_to = JobState.SUSPENDED, state.now, None, ""
    state.suspended[job.key] = job


def _resume_ordered(state: State, fact: f.ResumeOrderedV1, _sequence: int, _place: int) -> None:
    """Its devices are its own again from now on; it runs when its nodes say so."""
    job = state.jobs.get(fact.job)
    if job is None or job.state is not JobState.SUSPENDED or job.attempt != fact.attempt or not job.leases:
        return
    for lease in job.leases.values():
        pool = state.pools[lease.pool]
        lease.suspended_at, lease.resuming = 0, True
        capacity.take(state, job, pool, capacity.gpu_part(lease))
        if job.yields_to:
            capacity.yield_use(state, job, pool, lease, 1)
        if not state.terms.amended:
            charge(lease, lease.amounts, state.now)
    state.stir()
    job.paused += state.now - job.suspended_at
    job.state, job.resumed_at, job.min_runtime = JobState.STARTING, state.now, fact.min_runtime
    job.suspended_at, job.suspended_by = 0, ""
    state.suspended.pop(job.key, None)
    watch(state, job)


def _move_ordered(state: State, fact: f.MoveOrderedV1, sequence: int, _place: int) -> None:
    """Its new places are nominated, and what it still holds where it was suspended yields to them (R17, R29)."""
    job, pool = state.jobs.get(fact.job), state.pools.get(fact.pool)
    if job is None or pool is None or job.state is not JobState.SUSPENDED or job.attempt != fact.attempt:
        return
    if len(job.leases) < job.request.replicas or job.yields_to:  # it has ended in part, or was ordered to yield, meanwhile
        return
    total: dict[str, int] = {}
    for place in fact.places:
        add_to(total, place.amounts)
    id_ = f"{fact.job}@{sequence}"
    move = Preemption(id_, job, fact.pool, MOVED, (), fact.places, total, sequence, state.now, leaving={job.key}, settled=True)
    state.preemptions[id_] = move
    for lease in job.leases.values():
        capacity.yield_use(state, job, state.pools[lease.pool], capacity.held_by(lease), 1)
    job.nomination, job.yields_to = move, id_
    capacity.nominate(state, move)


def _lease_resumed(state: State, fact: f.LeaseResumedV1, _sequence: int, _place: int) -> None:
    lease = held(state, fact.job, fact.attempt, fact.rank)
    if lease is None or not lease.resuming:
        return
    job = lease.job
    lease.resuming = False
    charge(lease, lease.amounts, state.now)
    if job.state is JobState.STARTING and not any(other.resuming for other in job.leases.values()):
        job.state, job.resumed_at = JobState.RUNNING, state.now
        state.stir()
        watch(state, job)


HANDLERS: dict[type, Any] = {
    f.LeaseSuspendedV1: _lease_suspended,
    f.ResumeOrderedV1: _resume_ordered,
    f.MoveOrderedV1: _move_ordered,
    f.LeaseResumedV1: _lease_resumed,
}
