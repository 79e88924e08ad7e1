"""Consequences of events of jobs: an ended attempt, a request to cancel or requeue, a limit reached, changed documents.

Each function yields facts about jobs that need an answer, in the order in which the need arose, independent of other waiting jobs.
Facts that are yielded together are in one record, or in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from headrace.allocator.array_lines import cancel_order, with_others
from headrace.allocator.matching import match_again
from headrace.allocator.pending_review import dismissed, why_never
from headrace.contracts import facts as f
from headrace.contracts.documents.model import REQUEUE_LAST
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.model.attempts import DISPUTED
from headrace.domain.model.job_states import JobState
from headrace.domain.placement.offers import leaves_by
from headrace.domain.queueing.freeze_drain import holding_under, waiting_under

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.contracts.facts import AnyFact
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State

    Due = tuple[JobRecord, *tuple[Sequence[AnyFact], ...]]
    """A job, and the facts to state about it, in units."""

MIN_RUNTIME_FIRST = 60 * SECOND
MIN_RUNTIME_MAX = 1 * HOUR
BACK_OFF_FIRST = 1 * SECOND
BACK_OFF_MAX = 5 * MINUTE
AVOIDED_FOR = 10 * MINUTE
"""Time for which a job avoids a node that refused its start (R36)."""
REASON_MAX = 256
REFUSALS_MAX = 3
"""Refused starts of different jobs in a row, after which a node is set aside (R36)."""
ASIDE_FIRST, ASIDE_MAX = 10 * MINUTE, 24 * HOUR
"""Time for which a node is set aside first, which doubles each time in a row, and its maximum."""
_OVERTIME = {JobState.STARTING: "start_timeout", JobState.RUNNING: "time_limit", JobState.SUSPENDED: "suspend_max"}
_LOSSES = ("node_lost", "node_stopped", "start_timeout")
_STOPPABLE = (JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED)


def due_transitions(state: State, now: int) -> Iterator[Sequence[AnyFact]]:
    """All facts that are due, each job by at most one source, in units that belong together."""
    seen = set[str]()
    for job, *units in _due(state, now):
        if job.key not in seen:
            seen.add(job.key)
            yield from units


def _due(state: State, now: int) -> Iterator[Due]:
    """The same by job, from every source. Most tables are mostly empty."""
    yield from _endings(state, now)
    if state.cancels:
        yield from _cancels(state, now)
    if state.forced:
        yield from _stops(state.forced, "preempted")  # by an operator, inside a reservation or not (R24)
    if state.requeues:
        yield from _stops(state.requeues, "requeued")  # by the owner (R29)
    if state.doomed:
        yield from _doomed(state, now)
    yield from _overtime(state, now)
    if state.draining:
        yield from _drains(state, now)
    if state.terms.closings:
        yield from _closed(state, now)
    if state.terms.timed:
        yield from _windows(state, now)


def _endings(state: State, now: int) -> Iterator[Due]:
    """Ends of attempts. Jobs whose attempt on a lost node is not confirmed as ended remain unsettled, and are checked each time."""
    for job in list(state.unsettled.values()):
        if not job.leases:
            yield job, _after_attempt(state, job, now)
        elif facts := _after_losses(state, job):
            yield job, *([fact] for fact in facts)


def _after_losses(state: State, job: JobRecord) -> list[AnyFact]:
    """Facts about a job that still holds leases: some on lost nodes (R32), or a gang that has lost a member (R35)."""
    facts: list[AnyFact] = [
        f.LeaseRevokedV1(job=job.key, attempt=job.attempt, rank=lease.rank, cause=cause)
        for lease in job.leases.values()
        if (cause := _why_gone(state, job, lease))
    ]
    if any(lease.suspended_at for lease in job.leases.values()):
        facts += _end_suspension(state, job)
    elif any(not ending.is_success for ending in job.endings) and job.state is not JobState.STOPPING:
        facts.append(stop(job, "gang_broken"))
    return facts


def _end_suspension(state: State, job: JobRecord) -> list[AnyFact]:
    """Requeue a gang if one node could not suspend its part (R35), and a suspended job that has lost its devices (R29)."""
    if job.state is JobState.STOPPING and job.endings and job.stop is not None and job.stop.then == "suspend":
        return [stop(job, job.stop.cause, preemptor=job.stop.preemptor, then="requeue")]
    if job.state is not JobState.SUSPENDED:
        return []
    if job.endings:
        return [stop(job, "suspension_lost")]
    there = {(lease.node, device.name) for lease in job.leases.values() for device in state.nodes[lease.node].devices}
    gone = any((lease.node, share.device) not in there for lease in job.leases.values() for share in lease.devices)
    return [stop(job, "device_lost")] if gone else []


def _why_gone(state: State, job: JobRecord, lease: LeaseState) -> str:
    """Reason to revoke a lease without an end reported by its node (R32); empty to keep it."""
    status = state.nodes[lease.node].status
    if lease.empty and (lease.overdue or status != "ready"):
        return "confirmed_empty"
    if status == "stopped":
        through = state.nodes[lease.node].stopped_through
        return "node_stopped" if not through or lease.sequence <= through else ""
    return "node_lost" if status == "lost" and job.policy.document.preemption.on_node_lost != "wait" else ""


def _after_attempt(state: State, job: JobRecord, now: int) -> list[AnyFact]:
    """The job's next state; one that can never run again, because documents changed since its grant, is dismissed at once.

    One that may be given other GPU models now is matched with them at once, so that it is not granted any before (R43).
    """
    settled = _attempt_outcome(job, now)
    if isinstance(settled, f.JobRequeuedV1):
        changed = job.attempts[-1].sequence < state.documents_sequence
        if changed and (rejection := why_never(state, job)) is not None:
            return [settled, dismissed(job, rejection)]
        if (matched := match_again(state, job)) is not None:
            return [settled, matched]
    return [settled]


def _attempt_outcome(job: JobRecord, now: int) -> AnyFact:
    """All leases of the attempt have ended: the job continues, or has ended (R29, R30, R32)."""
    if job.state is not JobState.SUSPENDED and all(ending.is_plain for ending in job.endings):
        return _ended(job, "succeeded", "exited", 0)
    exit_code = next((ending.exit_code for ending in job.endings if ending.exit_code), None)
    if exit_code is None and all(ending.exit_code == 0 for ending in job.endings):
        exit_code = 0
    if any(ending.finished for ending in job.endings):
        return _ended(job, "succeeded", "finished", exit_code)
    if job.state is JobState.SUSPENDED:
        return _requeued(job, _node_cause(job) or "suspension_lost", now)
    yielded = job.stop is not None and any(ending.stopping or ending.outcome != "exited" for ending in job.endings)
    if not yielded and all(ending.is_success for ending in job.endings):
        return _ended(job, "succeeded", "exited", 0)
    if job.cancel_by:
        return _ended(job, "cancelled", "cancelled", exit_code)
    if yielded and job.stop is not None and job.stop.cause != "gang_broken":
        return _after_ladder(job, job.stop, exit_code, now)
    node_cause = _node_cause(job)
    if node_cause:
        return _requeued(job, node_cause, now)
    if job.retries_used < job.max_retries:
        return _requeued(job, "failed", now)
    return _ended(job, "failed", "exited", exit_code)


def _node_cause(job: JobRecord) -> str:
    """The node's fault that ended the attempt (R32, R36); empty if the job itself ended it. An earlier stop is not a fault."""
    outcomes = {ending.outcome for ending in job.endings}
    if outcomes & {"lost", "revoked"}:
        causes = {ending.message for ending in job.endings if ending.outcome == "revoked"}
        return "node_stopped" if causes == {"node_stopped"} and "lost" not in outcomes else "node_lost"
    return "refused" if outcomes & {"refused", DISPUTED} or outcomes == {"never_started"} else ""


def _after_ladder(job: JobRecord, ladder: Ladder, exit_code: int | None, now: int) -> AnyFact:
    """Next state of a job that was stopped: the ladder's `then` (R29)."""
    if ladder.cause == "time_limit":
        return _ended(job, "failed", "time_limit", exit_code)
    if ladder.cause == "preempted" and _is_preempted_too_often(job):
        return _ended(job, "cancelled", "max_preemptions", exit_code)
    if ladder.cause == "cancelled" or ladder.then == "cancel":
        return _ended(job, "cancelled", ladder.cause, exit_code)
    return _requeued(job, ladder.cause, now)


def _is_preempted_too_often(job: JobRecord) -> bool:
    most = job.policy.document.preemption.max_preemptions
    return most is not None and job.preemptions >= most


def doubled(job: JobRecord) -> int:
    """The job's own minimum run time after one more preemption (R29)."""
    served = max(job.min_runtime, job.policy.document.preemption.min_runtime, MIN_RUNTIME_FIRST)
    return min(2 * served, max(MIN_RUNTIME_MAX, served))


def _back_off(job: JobRecord) -> int:
    return min(BACK_OFF_FIRST << min(job.losses, 30), BACK_OFF_MAX)


def _requeued(job: JobRecord, cause: str, now: int) -> f.JobRequeuedV1:
    """Requeue: delayed after a loss (R32), avoiding a node that refused the start (R36), counting preemptions (R29), perhaps last (R29)."""
    disputed = cause == "refused" and all(ending.outcome != "refused" for ending in job.endings)
    disputed = disputed and any(ending.outcome == DISPUTED for ending in job.endings)
    blamed = {"refused": ("refused",), "start_timeout": ("refused", "never_started")}.get(cause, ())
    avoid = tuple(sorted({ending.node for ending in job.endings if ending.outcome in blamed}))
    return f.JobRequeuedV1(
        job=job.key,
        attempt=job.attempt,
        cause=cause,
        min_runtime=doubled(job) if "preempted" in (cause, job.suspended_by) else job.min_runtime,
        not_before=now + _back_off(job) if cause in _LOSSES else now + BACK_OFF_FIRST if disputed else 0,
        avoid=avoid,
        avoid_until=now + AVOIDED_FOR if avoid else 0,
        may_overlap=any(ending.outcome == "revoked" and ending.message == "node_lost" for ending in job.endings),
        last=cause == "preempted" and job.policy.document.preemption.on_preempt == REQUEUE_LAST,
    )


def _ended(job: JobRecord, final: str, cause: str, exit_code: int | None) -> f.JobEndedV1:
    array = job.array
    elements = () if array is None or array.job is not job else array.range.indices(array.range.numbers(()))
    return f.JobEndedV1(job=job.key, attempt=job.attempt, state=final, cause=cause, exit_code=exit_code, elements=elements)


def stop(job: JobRecord, cause: str, *, preemptor: str = "", then: str = "") -> f.StopOrderedV1:
    """The order to stop, with the whole ladder of the policy (R28)."""
    terms = job.policy.document.preemption
    then = then or {
        "preempted": _after_preemption(job),
        "window": _after_preemption(job),
        "cancelled": "cancel",
        "time_limit": "cancel",
    }.get(cause, "requeue")
    ladder = Ladder(
        cause=cause, callback_grace=terms.callback_grace, term_grace=terms.term_grace, then=then, preemptor=preemptor
    )
    return f.StopOrderedV1(job=job.key, attempt=job.attempt, ladder=ladder)


def _after_preemption(job: JobRecord) -> str:
    """The policy's choice (R29); a job that exceeds its maximum number of preemptions is not suspended."""
    wanted = job.policy.document.preemption.on_preempt
    if wanted == REQUEUE_LAST:
        return "requeue"
    return "cancel" if wanted == "suspend" and _is_preempted_too_often(job) else wanted


def _cancels(state: State, _now: int) -> Iterator[Due]:
    """Cancellations. Waiting jobs end first, so that none of them starts on units that the others release."""
    for job in sorted(state.cancels.values(), key=cancel_order):
        array = job.array
        if array is not None and array.job is job:
            part = array.range.indices(array.cancelling)
            yield job, [structs.replace(_ended(job, "cancelled", "cancelled", None), elements=part)]
        elif job.state is JobState.PENDING:
            yield job, [_ended(job, "cancelled", "cancelled", None)]
        elif job.leases and (job.stop is None or job.stop.cause != "cancelled"):
            yield job, [stop(job, "cancelled")]


def _stops(jobs: dict[str, JobRecord], cause: str) -> Iterator[Due]:
    """Stops that were asked for, except of jobs that are being stopped."""
    for job in list(jobs.values()):
        if job.state in _STOPPABLE:
            yield job, [stop(job, cause)]


def _doomed(state: State, _now: int) -> Iterator[Due]:
    for job in list(state.doomed.values()):
        yield job, [_ended(job, "cancelled", "dependency_failed", None)]


def _overtime(state: State, now: int) -> Iterator[Due]:
    """Starts that take too long (R35), and time limits (R33)."""
    for key in state.deadlines.due(now):
        job = state.jobs[key]
        if job.state in _OVERTIME:
            yield job, [stop(job, _OVERTIME[job.state])]


def _leave_in_time(state: State, node: NodeState, job: JobRecord, now: int) -> f.StopOrderedV1:
    """The order to leave a node that is drained; of an instance, within the time that its provider or its pool's cap leaves (R38)."""
    instance = state.instances.get(node.name)
    if instance is None or (until := leaves_by(instance)) is None:
        return stop(job, "drain")
    order, left = stop(job, "interrupted" if instance.released == "interrupted" else "drain"), max(0, until - now)
    term = min(order.ladder.term_grace, left)
    ladder = structs.replace(order.ladder, callback_grace=min(order.ladder.callback_grace, left - term), term_grace=term)
    return structs.replace(order, ladder=ladder)


def _drains(state: State, now: int) -> Iterator[Due]:
    """Jobs on nodes that are drained (R28)."""
    for _, node in sorted(state.draining.items()):
        for job in dict.fromkeys(lease.job for lease in node.leases.values()):
            if job.state in _STOPPABLE:
                yield job, [_leave_in_time(state, node, job, now)]


def set_aside(state: State, now: int) -> Iterator[AnyFact]:
    """Nodes that refuse starts in a row (R36), and nodes set aside whose time to check themselves has come.

    On probation one refusal suffices.
    """
    for _, node in sorted(state.refusing.items()):
        enough = 1 if node.probation is not None else REFUSALS_MAX
        if len(node.refusals) >= enough and not node.cordoned:
            last = next(reversed(node.refusals.values()))
            why = f"it refused the starts of {len(node.refusals)} jobs in a row"
            if node.probation is not None:
                why = "it refused the job that it was given on probation"
            yield _aside(state, node, f"{why}, the last: {last}" if last else why, now)
    for _, node in sorted(state.set_aside.items()):
        probation = node.probation
        if probation is None or not node.healthy:
            continue
        if probation.stage == "failed":
            yield _aside(state, node, f"its self-check failed: {probation.message}", now)
        elif probation.stage == "waits" and probation.until <= now:
            yield f.NodeCheckOrderedV1(node=node.name)


def _aside(state: State, node: NodeState, reason: str, now: int) -> f.NodeSetAsideV1:
    """The node is set aside for a time that doubles with each time in a row (R36)."""
    if not state.terms.amended:
        return f.NodeSetAsideV1(node=node.name, reason=reason[:REASON_MAX])
    times = node.probation.times if node.probation is not None else 0
    return f.NodeSetAsideV1(
        node=node.name, reason=reason[:REASON_MAX], until=now + min(ASIDE_FIRST << min(times, 30), ASIDE_MAX)
    )


def next_check(state: State) -> int | None:
    """Time at which the next node that was set aside checks itself; None if no node is set aside."""
    waiting = [node.probation.until for node in state.set_aside.values() if node.probation is not None and _waits(node)]
    return min(waiting, default=None)


def _waits(node: NodeState) -> bool:
    return node.healthy and node.probation is not None and node.probation.stage == "waits"


def _closed(state: State, _now: int) -> Iterator[Due]:
    """Jobs under objects deleted with their jobs (R11): waiting jobs are cancelled, running ones are stopped by their ladder.

    A pool's jobs are stopped only there, and wait for another pool.
    """
    for closing in state.terms.closings.values():
        if closing.mode != "cancel":
            continue
        for job in map(with_others, waiting_under(state, closing)):
            yield job, [_ended(job, "cancelled", "deleted", None)]
        for job in holding_under(state, closing):
            if job.stop is None:
                yield job, [stop(job, "deleted", then="requeue" if closing.kind == "pool" else "cancel")]


def _windows(state: State, _now: int) -> Iterator[Due]:
    """Running jobs that a closed window stops (R33)."""
    for policy in state.terms.timed.values():
        if policy.gate is not None and policy.gate.stops:
            for job in policy.jobs.values():
                if job.leases and job.stop is None and job.state is not JobState.SUSPENDED:
                    yield job, [stop(job, "window")]
