"""Leases that are marked as idle, and which of them yield (R39)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.model.derived import Nothing, nothing

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord, LeaseState, PolicyState
    from headrace.domain.state.state import State

YIELD, WARN = "yield", "warn"


def mark_idle(state: State, lease: LeaseState) -> None:
    """Mark a lease; its job counts as idle once all its leases are marked."""
    job = lease.job
    if not lease.idle_at:
        lease.idle_at = state.now
    if job.key in job.policy.idle or any(not one.idle_at for one in job.leases.values()):
        return
    if isinstance(job.policy.idle, Nothing):
        job.policy.idle = {}
    job.policy.idle[job.key] = job
    _changed(state, job)


def unmark_idle(state: State, lease: LeaseState) -> None:
    """The lease is in use again, or ends, or is suspended."""
    lease.idle_at = 0
    job = lease.job
    if job.policy.idle.get(job.key) is None:
        return
    del job.policy.idle[job.key]
    if not job.policy.idle:
        job.policy.idle = nothing()
    _changed(state, job)


def idle_jobs(policy: PolicyState, pool: str) -> list[JobRecord]:
    """The policy's idle jobs in a pool, if its document says that they yield; in the order in which they were marked."""
    if not policy.idle or policy.document.idle != YIELD or policy.document.idle_after is None:
        return []
    return [job for job in policy.idle.values() if any(lease.pool == pool for lease in job.leases.values())]


def is_idle(job: JobRecord) -> bool:
    """Whether what the job holds counts as borrowed because it is idle (R24, R39)."""
    document = job.policy.document
    return document.idle == YIELD and document.idle_after is not None and job.key in job.policy.idle


def idle_since(job: JobRecord) -> int:
    """Log time since which all that the job holds is marked as idle; 0: it is not."""
    return max(lease.idle_at for lease in job.leases.values()) if job.key in job.policy.idle else 0


def _changed(state: State, job: JobRecord) -> None:
    """Another search for victims may end otherwise now (R19)."""
    state.stir()
    changes = state.pending.changes
    if changes is not None:
        changes.policies[job.policy] = None
