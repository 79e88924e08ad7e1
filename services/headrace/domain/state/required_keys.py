"""Whose texts have to be readable: people with jobs that have not ended, and were not erased. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.model.job_states import FINAL

if TYPE_CHECKING:
    from headrace.domain.state.state import State


def who_needs_keys(state: State) -> dict[tuple[str, str], int]:
    """(tenant, handle) to how many jobs they have that have not ended; not those whose key was destroyed by an erasure, which is a fact."""
    found: dict[tuple[str, str], int] = {}
    for job in state.jobs.values():
        if job.state not in FINAL:
            owner = (job.tenant, job.user)
            found[owner] = found.get(owner, 0) + 1
    return {owner: count for owner, count in found.items() if owner not in state.tokens.erased}


def needs_key(state: State, owner: str) -> bool:
    """Whether jobs of `<tenant>.<handle>` that have not ended need the key that they were sealed with."""
    tenant, _, handle = owner.partition(".")
    if (tenant, handle) in state.locked:
        return True
    if (tenant, handle) in state.tokens.erased:
        return False
    return any(key.startswith(f"{owner}.") and job.state not in FINAL for key, job in state.jobs.items())


def waiting_for_key(state: State, tenant: str, handle: str) -> int:
    """How many jobs that have not ended are locked."""
    prefix = f"{tenant}.{handle}."
    return sum(job.locked and key.startswith(prefix) and job.state not in FINAL for key, job in state.jobs.items())
