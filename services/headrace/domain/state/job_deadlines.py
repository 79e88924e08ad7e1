"""When a job's phase is over by time alone: a start that takes too long, a time limit, a suspension, a ladder (R28, R29, R33, R35).

Each phase has at most one such moment. The fold notes it whenever a job enters a phase; the deciders ask what is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.domain.indexes.running_index import note_running
from headrace.domain.model.job_states import JobState

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.state.state import State

START_TIMEOUT = 10 * MINUTE
"""By then all replicas have started, or the attempt is over (R35)."""
OVERRUN_MAX = 30 * SECOND
"""How long after its ladder's end a node may still be at it (R28)."""


def watch(state: State, job: JobRecord) -> None:
    """Note when the phase that the job is in now will be over, and whether it might yield in it."""
    if state.running is not None:
        note_running(state.running, job)
    ends = phase_ends(job)
    if ends is None:
        state.deadlines.clear(job.key)
    else:
        state.deadlines.set(job.key, ends)
    ends = ladder_ends(job) if job.state is JobState.STOPPING else None
    if ends is not None:
        state.ladders.set(job.key, ends)
    elif state.ladders.moments:
        state.ladders.clear(job.key)
    ends = known_end(job)
    if ends is not None:
        state.ends.set(job.key, ends)
    elif state.ends.moments:
        state.ends.clear(job.key)


def phase_ends(job: JobRecord) -> int | None:
    """When the allocator has to end what the job is in; None: not by time."""
    if not job.leases:
        return None
    if job.state is JobState.STARTING:
        return max(job.attempts[-1].granted_at, job.resumed_at) + START_TIMEOUT
    if job.state is JobState.RUNNING:
        return limit_of(job)
    if job.state is JobState.SUSPENDED:
        return job.suspended_at + job.policy.document.preemption.suspend_max
    return None


def limit_of(job: JobRecord) -> int | None:
    """When a job that runs has had its time limit; what it was suspended for does not count."""
    return None if job.time_limit is None or not job.started_at else job.started_at + job.paused + job.time_limit


def known_end(job: JobRecord) -> int | None:
    """When any of its leases is known to end, at the earliest; None: that of none of them is known."""
    if not job.leases:
        return None
    limit = limit_of(job)
    if limit is None and job.time_limit is not None:
        limit = job.attempts[-1].granted_at + job.time_limit  # it starts yet
    if job.state is not JobState.STOPPING or job.stop is None:
        return limit
    ladder_end = job.stop_at + job.stop.callback_grace + job.stop.term_grace
    return ladder_end if limit is None else min(ladder_end, limit)


def ladder_ends(job: JobRecord) -> int | None:
    """When the leases that still walk the job's ladder become overdue; None without such leases."""
    if job.state is not JobState.STOPPING or job.stop is None or not walking(job):
        return None
    return job.stop_at + job.stop.callback_grace + job.stop.term_grace + OVERRUN_MAX


def walking(job: JobRecord) -> list[LeaseState]:
    """The leases that walk the job's ladder and are not known to be overdue; one that is suspended is through one that suspends."""
    suspends = job.stop is not None and job.stop.then == "suspend"
    return [lease for lease in job.leases.values() if not lease.overdue and not (suspends and lease.suspended_at)]
