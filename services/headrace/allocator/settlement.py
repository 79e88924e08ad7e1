"""What follows from what has happened to jobs: an attempt ended, a wish to cancel, a limit reached, documents changed.

Each function returns facts about jobs that need an answer, in the order in which the need arose. Nothing here looks at who else waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.durations import HOUR, MINUTE, SECOND
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.reasons import RejectReason
from headrace.domain.admissible import Rejection, never_fits
from headrace.domain.closings import holding_under, waiting_under
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.pending import JobGroup
    from headrace.domain.state import Ending, JobRecord, State

MIN_RUNTIME_FIRST = 60 * SECOND
MIN_RUNTIME_MAX = 1 * HOUR
BACK_OFF_FIRST = 1 * SECOND
BACK_OFF_MAX = 5 * MINUTE
_NODE_CAUSES = {"lost": "node_lost", "revoked": "node_lost", "refused": "refused", "never_started": "refused"}


def settle(state: State, now: int) -> Iterator[AnyFact]:
    """Everything that is due, each job at most once."""
    seen: set[str] = set()
    for source in (_endings, _cancels, _doomed, _time_limits, _closed):
        for job, facts in source(state, now):
            if job.key not in seen:
                seen.add(job.key)
                yield from facts


def _endings(state: State, now: int) -> Iterator[tuple[JobRecord, list[AnyFact]]]:
    for job in list(state.unsettled.values()):
        facts = _settle_leases(state, job) if job.leases else _settle_job(state, job, now)
        if facts:
            yield job, facts


def _settle_leases(state: State, job: JobRecord) -> list[AnyFact]:
    """News of a job that still holds leases: some on nodes that are gone (R32), or a gang that has lost a member (R35)."""
    facts: list[AnyFact] = [
        f.LeaseRevokedV1(job=job.key, attempt=job.attempt, rank=lease.rank, cause="node_lost")
        for lease in job.leases.values()
        if state.nodes[lease.node].status in ("lost", "stopped")
    ]
    if job.endings and any(not _is_success(ending) for ending in job.endings) and job.state is not JobState.STOPPING:
        facts.append(stop(job, "gang_broken"))
    return facts


def _settle_job(state: State, job: JobRecord, now: int) -> list[AnyFact]:
    """What becomes of the job; one that could never run again, because documents have changed since its grant, is dismissed at once."""
    settled = _settle_attempt(job, now)
    if isinstance(settled, f.JobRequeuedV1) and job.attempts[-1].sequence < state.documents_sequence:
        rejection = why_never(state, job)
        if rejection is not None:
            return [settled, _dismissed(job, rejection)]
    return [settled]


def _is_success(ending: Ending) -> bool:
    return ending.outcome == "exited" and ending.exit_code == 0


def _settle_attempt(job: JobRecord, now: int) -> AnyFact:
    """All leases of the attempt have ended: the job goes on, or has reached its end (R29, R30, R32)."""
    exit_code = next((ending.exit_code for ending in job.endings if ending.exit_code), None)
    if exit_code is None and all(ending.exit_code == 0 for ending in job.endings):
        exit_code = 0
    if any(ending.finished for ending in job.endings):
        return _ended(job, "succeeded", "finished", exit_code)
    yielded = job.stop is not None and any(ending.stopping or ending.outcome != "exited" for ending in job.endings)
    if not yielded and all(_is_success(ending) for ending in job.endings):
        return _ended(job, "succeeded", "exited", 0)
    if job.cancel_by:
        return _ended(job, "cancelled", "cancelled", exit_code)
    if yielded and job.stop is not None and job.stop.cause != "gang_broken":
        return _after_ladder(job, job.stop, exit_code)
    node_cause = next((_NODE_CAUSES[ending.outcome] for ending in job.endings if ending.outcome in _NODE_CAUSES), "")
    if node_cause:
        return _requeued(job, node_cause, not_before=now + _back_off(job) if node_cause == "node_lost" else 0)
    if job.retries_used < job.max_retries:
        return _requeued(job, "failed")
    return _ended(job, "failed", "exited", exit_code)


def _after_ladder(job: JobRecord, ladder: Ladder, exit_code: int | None) -> AnyFact:
    """The job was made to stop; what then is the ladder's `then` (R29)."""
    if ladder.cause == "time_limit":
        return _ended(job, "failed", "time_limit", exit_code)
    if ladder.cause == "cancelled" or ladder.then == "cancel":
        return _ended(job, "cancelled", ladder.cause, exit_code)
    most = job.policy.document.preemption.max_preemptions
    if ladder.cause == "preempted" and most is not None and job.preemptions >= most:
        return _ended(job, "cancelled", "max_preemptions", exit_code)
    if ladder.cause != "preempted":
        return _requeued(job, ladder.cause)
    served = max(job.min_runtime, job.policy.document.preemption.min_runtime, MIN_RUNTIME_FIRST)
    return _requeued(job, "preempted", min_runtime=min(2 * served, max(MIN_RUNTIME_MAX, served)))


def _back_off(job: JobRecord) -> int:
    return min(BACK_OFF_FIRST << min(job.losses, 30), BACK_OFF_MAX)


def _requeued(job: JobRecord, cause: str, *, min_runtime: int | None = None, not_before: int = 0) -> f.JobRequeuedV1:
    own = job.min_runtime if min_runtime is None else min_runtime
    return f.JobRequeuedV1(job=job.key, attempt=job.attempt, cause=cause, min_runtime=own, not_before=not_before)


def _ended(job: JobRecord, final: str, cause: str, exit_code: int | None) -> f.JobEndedV1:
    return f.JobEndedV1(job=job.key, attempt=job.attempt, state=final, cause=cause, exit_code=exit_code)


def stop(job: JobRecord, cause: str, *, preemptor: str = "", then: str = "") -> f.StopOrderedV1:
    """The order to stop, with the whole ladder the policy gives (R28)."""
    terms = job.policy.document.preemption
    then = then or {"preempted": terms.on_preempt, "cancelled": "cancel", "time_limit": "cancel"}.get(cause, "requeue")
    ladder = Ladder(
        cause=cause, callback_grace=terms.callback_grace, term_grace=terms.term_grace, then=then, preemptor=preemptor
    )
    return f.StopOrderedV1(job=job.key, attempt=job.attempt, ladder=ladder)


def _cancels(state: State, _now: int) -> Iterator[tuple[JobRecord, list[AnyFact]]]:
    for job in list(state.cancels.values()):
        if job.state is JobState.PENDING:
            yield job, [_ended(job, "cancelled", "cancelled", None)]
        elif job.leases and (job.stop is None or job.stop.cause != "cancelled"):
            yield job, [stop(job, "cancelled")]


def _doomed(state: State, _now: int) -> Iterator[tuple[JobRecord, list[AnyFact]]]:
    for job in list(state.doomed.values()):
        yield job, [_ended(job, "cancelled", "dependency_failed", None)]


def _time_limits(state: State, now: int) -> Iterator[tuple[JobRecord, list[AnyFact]]]:
    for job in list(state.limited.values()):
        if job.time_limit is not None and job.started_at + job.time_limit <= now and job.state is JobState.RUNNING:
            yield job, [stop(job, "time_limit")]


def _closed(state: State, _now: int) -> Iterator[tuple[JobRecord, list[AnyFact]]]:
    """What is deleted with its jobs (R11): those that wait are cancelled, those that run walk the ladder.

    A pool's jobs are stopped there only, and wait for another pool.
    """
    for closing in state.closings.values():
        if closing.mode != "cancel":
            continue
        for job in waiting_under(state, closing):
            yield job, [_ended(job, "cancelled", "deleted", None)]
        for job in holding_under(state, closing):
            if job.stop is None:
                yield job, [stop(job, "deleted", then="requeue" if closing.kind == "pool" else "cancel")]


def review_pending(state: State) -> Iterator[f.JobDismissedV1]:
    """After documents or capacity have changed: pending jobs that can now never run are dismissed (R10).

    One question for each group, and one for each job that stands aside.
    """
    for group in list(state.pending.groups.values()):
        rejection = why_never(state, group)
        if rejection is not None:
            for job in group.members.values():
                yield _dismissed(job, rejection)
    for job in state.pending.aside.values():
        rejection = why_never(state, job)
        if rejection is not None:
            yield _dismissed(job, rejection)


def _dismissed(job: JobRecord, rejection: Rejection) -> f.JobDismissedV1:
    return f.JobDismissedV1(job=job.key, reason=rejection.reason, message=rejection.message)


def why_never(state: State, group: JobGroup | JobRecord) -> Rejection | None:
    """Why the job, or no job of the group, can ever run; None: it may."""
    policy = group.policy
    profile = state.profile(policy.document.tenant, group.profile)
    if (
        profile is None
        or policy.key not in state.policies
        or all(link.name != group.profile for link in policy.document.profiles)
    ):
        return Rejection(RejectReason.QUEUE_DELETED, f"queue {policy.document.name}/{group.profile} is gone")
    return never_fits(state, policy, profile, group.request, preemptible=group.preemptible, beyond=group.beyond)


def next_time_limit(state: State) -> int | None:
    """When the next running job reaches its time limit."""
    return min((job.started_at + (job.time_limit or 0) for job in state.limited.values()), default=None)
