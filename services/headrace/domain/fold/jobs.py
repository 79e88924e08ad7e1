"""The fold of jobs: from admission to their end (R13, R14, R29)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.transport.subjects import asker_of
from headrace.contracts.values.arrays import holds
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import array_of, index_of
from headrace.domain.fold import arrays
from headrace.domain.fold.gpu_models import choose
from headrace.domain.fold.holds import end_hold
from headrace.domain.fold.node_orders import cordon
from headrace.domain.fold.nodes import held, lack, release
from headrace.domain.fold.nominations import end_nomination, lift_bar
from headrace.domain.model.attempts import PastJob, new_attempt, new_ending
from headrace.domain.model.derived import NOTHING
from headrace.domain.model.job_states import BY_NAME, FINAL, HOLDING, JobState
from headrace.domain.model.jobs import new_job, new_lease
from headrace.domain.model.nodes import Probation
from headrace.domain.model.requests import intern_request, is_steady
from headrace.domain.state import capacity, rate_limit, used_ids
from headrace.domain.state.job_deadlines import watch
from headrace.domain.state.meters import charge
from headrace.domain.state.quota import open_scopes, open_user
from headrace.domain.state.state import IDS_REMEMBERED

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Profile
    from headrace.contracts.values.arrays import Ranges
    from headrace.domain.model.jobs import ArrayState, JobRecord
    from headrace.domain.state.state import State


def _account_numbered(state: State, fact: f.AccountNumberedV1, _sequence: int, _place: int) -> None:
    state.accounts.setdefault((fact.tenant, fact.user), fact.number)


def _job_admitted(state: State, fact: f.JobAdmittedV1, sequence: int, place: int) -> None:
    tenant, user, _ = fact.job.split(".")
    policy = state.policies.get((tenant, fact.policy))
    if policy is None:
        policy = state.deleted_policies.get((tenant, fact.policy))
        state.documents_sequence = sequence  # so that the allocator looks at it, and dismisses it
    if policy is None or fact.job in state.jobs or fact.job in state.arrays:
        return
    profile = state.profile(tenant, fact.profile)
    job = new_job(
        fact.job,
        policy,
        profile.name if profile is not None else fact.profile,  # one text for all jobs of the profile
        intern_request(
            *(state.requests, fact.request, fact.replicas, profile, fact.mig),
            contained=fact.contained,
            steady=is_steady(profile, state.terms.level, preemptible=fact.preemptible),
            memory=fact.gpu_memory,
            shares=fact.shares,
            by_model=fact.by_model,
        ),
        preemptible=fact.preemptible,
        beyond=user in policy.document.beyond_limit,
        priority=fact.priority,
        max_retries=fact.max_retries,
        time_limit=fact.time_limit,
        admitted_at=state.now,
        order=(sequence, place),
        name=fact.name,
        labels=fact.labels or NOTHING,
        digest=fact.digest,
        trace=fact.trace,
    )
    array = arrays.admit(state, job, fact.array) if fact.array is not None else None
    count = fact.array.count if fact.array is not None else 1
    if array is None:
        state.jobs[fact.job] = job
    used_ids.note(state, fact.job)
    if job.profile not in policy.profiles:
        open_scopes(state, policy, job.profile)
    open_user(policy, user)
    policy.count_pending(job, count)
    rate_limit.take(state, tenant)
    _count(state, job, profile, count)
    for dependency in fact.after:
        _wait_for(state, job, dependency.job, dependency.when)
    if array is None:
        state.pending.add(job, state.now)
    else:
        state.pending.add(job, state.now) if job.waits_for or job.doomed_by else arrays.advance(state, array)


def _count(state: State, job: JobRecord, profile: Profile | None, times: int) -> None:
    """It is part of what the pools that it may go to are asked for (R20); slices are since the rules were amended."""
    if job.request.shape.mig and not state.terms.amended:
        return
    for name in profile.pools if profile is not None else ():
        pool = state.pools.get(name)
        if pool is not None:
            pool.mix.count(job.request, times)


def _wait_for(state: State, job: JobRecord, other_key: str, when: str) -> None:
    ended = arrays.state_of(state, other_key)
    if ended is None or ended in FINAL:
        if when != "any" and ended is not JobState.SUCCEEDED:
            _doom(state, job, other_key)
        return
    job.waits_for = {**job.waits_for, other_key: when}
    state.dependants.setdefault(other_key, []).append(Dependency(job=job.key, when=when))


def _doom(state: State, job: JobRecord, other: str) -> None:
    """A job it depends on did not succeed: it can never start, and the allocator has to end it."""
    job.doomed_by = other
    state.pending.remove(job)
    state.pending.add(job, state.now)
    state.doomed[job.key] = job


def _job_rejected(state: State, fact: f.JobRejectedV1, _sequence: int, _place: int) -> None:
    tenant, user, _ = fact.job.split(".")
    _count_refusal(state, tenant, user)
    if fact.job not in state.jobs and fact.job not in state.arrays and fact.job not in state.answered:
        state.answered[fact.job] = PastJob(fact.digest, JobState.REJECTED, state.now)
        used_ids.note(state, fact.job)
        state.forgetting.append((state.now + IDS_REMEMBERED, fact.job))


def _wish_refused(state: State, fact: f.WishRefusedV1, _sequence: int, _place: int) -> None:
    _count_refusal(state, *asker_of(fact.subject))


def _count_refusal(state: State, tenant: str, user: str) -> None:
    second = state.now // SECOND
    last, count = state.refusals.get((tenant, user), (0, 0))
    state.refusals[tenant, user] = (second, count + 1 if last == second else 1)


def _nothing(_state: State, _fact: object, _sequence: int, _place: int) -> None:
    """For readers of the ledger only; the fold keeps nothing of it."""


def _cancel_requested(state: State, fact: f.JobCancelRequestedV1, _sequence: int, _place: int) -> None:
    job = state.jobs.get(fact.job)
    if job is not None and job.state not in FINAL:
        job.cancel_by = fact.by
        state.cancels[job.key] = job
    elif fact.job in state.arrays:
        arrays.ask_to_cancel(state, state.arrays[fact.job], fact.by, fact.elements)


def _requeue_requested(state: State, fact: f.JobRequeueRequestedV1, _sequence: int, _place: int) -> None:
    job = state.jobs.get(fact.job)
    if job is not None and job.attempt == fact.attempt and job.leases and job.state in HOLDING:
        state.requeues[job.key] = job
    elif job is None and fact.job in state.arrays:
        for element in arrays.chosen(state.arrays[fact.job], fact.elements):
            if element.leases and element.state in HOLDING and element.stop is None:
                state.requeues[element.key] = element


def _wishes_judged(state: State, fact: f.WishesJudgedV1, _sequence: int, _place: int) -> None:
    state.judged = max(state.judged, fact.through)


def _lease_granted(state: State, fact: f.LeaseGrantedV1, sequence: int, place: int) -> None:
    job, pool, node = state.jobs.get(fact.job), state.pools.get(fact.pool), state.nodes.get(fact.node)
    if job is None or pool is None or not _is_next(job, fact):
        return
    if node is None or node.leaves:  # it left, or its instance was released, before this record
        if job.state is JobState.STARTING:
            lack(state, job, fact.rank)
        return
    if job.state is JobState.PENDING:
        _leave_line(state, job, fact, sequence)
        choose(state, job, (fact,))
        for rank in range(fact.rank):
            lack(state, job, rank)
    if not node.healthy:  # it went while the grant was on its way
        state.unsettled[job.key] = job
    lease = new_lease(job, fact, node.name, sequence, place, state.now)
    if node.probation is not None:
        node.probation.job = job.key
        pool.index.put(node)
    capacity.take(state, job, pool, lease)
    if not state.terms.amended:
        charge(lease, lease.amounts, state.now)
    job.leases[fact.rank] = lease
    node.leases[f"{job.key}/{fact.rank}"] = lease
    attempt = job.attempts[-1]
    attempt.nodes += (fact.node,)
    attempt.devices += tuple(share.label for share in fact.devices)
    state.stir()
    watch(state, job)


def _is_next(job: JobRecord, fact: f.LeaseGrantedV1) -> bool:
    """Whether the grant begins the job's next attempt, or adds a replica to one that is being granted."""
    if job.state is JobState.PENDING:
        return fact.attempt == job.attempt + 1
    return job.state is JobState.STARTING and fact.attempt == job.attempt and fact.rank not in job.leases


def _leave_line(state: State, job: JobRecord, fact: f.LeaseGrantedV1, sequence: int) -> None:
    """From pending to starting: a new attempt begins, and what was kept for the job is now to be held by it."""
    end_nomination(state, job)
    end_hold(state, job.key)
    state.pending.remove(job)
    job.policy.count_pending(job, -1)
    job.state, job.attempt = JobState.STARTING, fact.attempt
    job.leases, job.endings = {}, ()
    job.started_at = job.resumed_at = job.paused = job.paused_saved = job.expired_nominations = 0
    job.attempts += (new_attempt(fact.attempt, fact.pool, state.now, sequence, fact.resume_from),)
    job.policy.jobs[job.key] = job
    if job.array is not None:
        arrays.advance(state, job.array)


def _lease_revoked(state: State, fact: f.LeaseRevokedV1, _sequence: int, _place: int) -> None:
    lease = held(state, fact.job, fact.attempt, fact.rank)
    if lease is not None:
        stopping = lease.job.state is JobState.STOPPING
        release(
            state, lease, new_ending(fact.rank, "revoked", stopping=stopping, message=fact.cause, node=lease.node), state.now
        )


def _stop_ordered(state: State, fact: f.StopOrderedV1, sequence: int, _place: int) -> None:
    job = state.jobs.get(fact.job)
    if job is None or not job.leases or job.attempt != fact.attempt:
        return
    if job.stop is None or fact.ladder.cause == "cancelled" or (job.stop.then == "suspend" != fact.ladder.then):
        job.stop = fact.ladder
    job.state, job.stop_sequence, job.stop_at = JobState.STOPPING, sequence, state.now
    for table in (state.cancels, state.requeues, state.forced):
        table.pop(job.key, None)
    state.suspended.pop(job.key, None)
    watch(state, job)
    state.stir()
    for lease in job.leases.values():
        state.pools[lease.pool].openings += 1


def _job_requeued(state: State, fact: f.JobRequeuedV1, _sequence: int, _place: int) -> None:
    job = state.jobs.get(fact.job)
    if job is None or job.leases or job.state not in HOLDING or job.attempt != fact.attempt:
        return
    _close_attempt(state, job, fact.cause)
    if fact.cause == "preempted":
        job.preemptions += 1
    elif fact.cause == "failed":
        job.retries_used += 1
    elif fact.cause in ("node_lost", "node_stopped", "start_timeout"):
        job.losses += 1
    job.state, job.stop, job.yields_to, job.suspended_at, job.suspended_by = JobState.PENDING, None, "", 0, ""
    job.min_runtime, job.not_before, job.pending_since = fact.min_runtime, fact.not_before, state.now
    job.last_since = state.now if fact.last else job.last_since
    job.request = job.request.first
    avoided = {node: until for node, until in job.avoids.items() if until > state.now}
    job.avoids = avoided | dict.fromkeys(fact.avoid, fact.avoid_until)
    job.policy.count_pending(job, 1)
    state.pending.add(job, state.now)
    if job.array is not None:
        arrays.advance(state, job.array)


def _preemption_forced(state: State, fact: f.PreemptionForcedV1, _sequence: int, _place: int) -> None:
    job = state.jobs.get(fact.job)
    if job is not None and job.attempt == fact.attempt and job.state in (JobState.STARTING, JobState.RUNNING) and job.leases:
        state.forced[job.key] = job


def _close_attempt(state: State, job: JobRecord, cause: str) -> None:
    """The attempt is over and settled."""
    state.unsettled.pop(job.key, None)
    state.requeues.pop(job.key, None)
    state.forced.pop(job.key, None)
    state.deadlines.clear(job.key)
    state.ladders.clear(job.key)
    if job.attempts:
        job.attempts[-1].close(job.endings, cause, state.now)


def _job_ended(state: State, fact: f.JobEndedV1, _sequence: int, _place: int) -> None:
    job = state.jobs.get(fact.job)
    if job is None or job.leases or job.state in FINAL:
        if job is None and fact.job in state.arrays:
            _end_unstarted(state, state.arrays[fact.job], BY_NAME[fact.state], fact.cause, "", fact.elements)
        return
    if job.state is not JobState.PENDING:
        _close_attempt(state, job, fact.cause)
    message = next((ending.message for ending in job.endings if ending.message), "")
    job.exit_code = fact.exit_code
    _finish(state, job, BY_NAME[fact.state], fact.cause, message)


def _job_dismissed(state: State, fact: f.JobDismissedV1, _sequence: int, _place: int) -> None:
    job = state.jobs.get(fact.job)
    if job is not None and job.state is JobState.PENDING:
        _finish(state, job, JobState.REJECTED, fact.reason, fact.message)
    elif job is None and fact.job in state.arrays:
        _end_unstarted(state, state.arrays[fact.job], JobState.REJECTED, fact.reason, fact.message, ())


def _end_unstarted(state: State, array: ArrayState, final: JobState, reason: str, message: str, indices: Ranges) -> None:
    """Elements of an array that were never granted anything have ended, those with a record and those without."""
    gone = arrays.end_waiting(state, array, final, reason, message, indices)
    for job in arrays.chosen(array, indices):
        if job.is_new_element and job.state is JobState.PENDING:
            _finish(state, job, final, reason, message)
    if gone is not None:
        for key in [key for key in state.dependants if array_of(key) == array.job.key]:
            if holds(gone.numbers, array.range.number(index_of(key))):
                _update_dependants(state, key, final)
    if arrays.finish(state, array, reason):
        _update_dependants(state, array.job.key, array.job.state)


def _finish(state: State, job: JobRecord, final: JobState, reason: str, message: str) -> None:
    if job.state is JobState.PENDING:
        job.policy.count_pending(job, -1)
        end_hold(state, job.key)
        state.pending.remove(job)
    end_nomination(state, job)
    if state.barred:
        lift_bar(state, job.key)
    for table in (state.cancels, state.unsettled, state.doomed, state.forced):
        if table:
            table.pop(job.key, None)
    job.state, job.ended_at, job.reason, job.message = final, state.now, reason, message
    job.stop, job.yields_to = None, ""
    job.policy.jobs.pop(job.key, None)
    state.ended.append(job)
    _update_dependants(state, job.key, final)
    if job.array is not None:
        arrays.element_ended(state, job.array, job)
        if arrays.finish(state, job.array, reason):
            _update_dependants(state, job.array.job.key, job.array.job.state)


def _update_dependants(state: State, key: str, ended: JobState) -> None:
    for dependency in state.dependants.pop(key, ()):
        array = state.arrays.get(dependency.job)
        dependant = state.jobs.get(dependency.job) if array is None else array.job
        if dependant is None or dependant.state is not JobState.PENDING:
            continue
        dependant.waits_for.pop(key, None)
        if dependency.when != "any" and ended is not JobState.SUCCEEDED:
            _doom(state, dependant, key)
        elif not dependant.waits_for:
            if array is None:
                state.pending.add(dependant, state.now)
            else:
                arrays.advance(state, array)


def _node_set_aside(state: State, fact: f.NodeSetAsideV1, _sequence: int, _place: int) -> None:
    node = state.nodes.get(fact.node)
    if node is not None and fact.until:
        before = node.probation.times if node.probation is not None else 0
        node.probation = Probation(before + 1, fact.until)
        state.set_aside[node.name] = node
    cordon(state, fact.node, fact.reason)


def _node_check_ordered(state: State, fact: f.NodeCheckOrderedV1, sequence: int, _place: int) -> None:
    node = state.set_aside.get(fact.node)
    if node is not None and node.probation is not None:
        node.probation.stage, node.probation.ordered = "checks", sequence


def _mix_learned(state: State, fact: f.MixLearnedV1, _sequence: int, _place: int) -> None:
    pool = state.pools.get(fact.pool)
    if pool is not None:
        pool.mix.learn(fact.requests)
        capacity.weigh(state, pool)


HANDLERS: dict[type, Any] = {
    f.AccountNumberedV1: _account_numbered,
    f.JobAdmittedV1: _job_admitted,
    f.JobRejectedV1: _job_rejected,
    f.WishRefusedV1: _wish_refused,
    f.JobCancelRequestedV1: _cancel_requested,
    f.JobRequeueRequestedV1: _requeue_requested,
    f.RefusalsCountedV1: _nothing,
    f.WishesJudgedV1: _wishes_judged,
    f.LeaseGrantedV1: _lease_granted,
    f.LeaseRevokedV1: _lease_revoked,
    f.StopOrderedV1: _stop_ordered,
    f.JobRequeuedV1: _job_requeued,
    f.JobEndedV1: _job_ended,
    f.PreemptionForcedV1: _preemption_forced,
    f.JobDismissedV1: _job_dismissed,
    f.NodeSetAsideV1: _node_set_aside,
    f.NodeCheckOrderedV1: _node_check_ordered,
    f.MixLearnedV1: _mix_learned,
}
