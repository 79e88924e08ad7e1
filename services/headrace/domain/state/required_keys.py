"""Whose texts have to be readable: people with jobs that have not ended, and were not erased. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.model.job_states import FINAL, JobState

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State


def who_needs_keys(state: State) -> dict[tuple[str, str], int]:
    """(tenant, handle) to how many jobs they have that have not ended; not those whose key was destroyed by an erasure, which is a fact."""
    found: dict[tuple[str, str], int] = {}
    for job in state.jobs_and_arrays():
        if job.state not in FINAL and (jobs := _count(job)):
            owner = (job.tenant, job.user)
            found[owner] = found.get(owner, 0) + jobs
    return {owner: count for owner, count in found.items() if owner not in state.tokens.erased}


def needs_key(state: State, owner: str) -> bool:
    """Whether jobs of `<tenant>.<handle>` that have not ended need the key that they were sealed with."""
    tenant, _, handle = owner.partition(".")
    if (tenant, handle) in state.locked:
        return True
    if (tenant, handle) in state.tokens.erased:
        return False
    return any(job.key.startswith(f"{owner}.") and job.state not in FINAL for job in state.jobs_and_arrays())


def waiting_for_key(state: State, tenant: str, handle: str) -> int:
    """How many jobs that have not ended are locked."""
    prefix = f"{tenant}.{handle}."
    waiting = (job for job in state.jobs_and_arrays() if job.locked and job.state not in FINAL)
    return sum(_count(job) for job in waiting if job.key.startswith(prefix))


def _count(job: JobRecord) -> int:
    """How many jobs it is: those that wait behind the next element of an array included."""
    return job.stands_for if job.state is JobState.PENDING else 1
