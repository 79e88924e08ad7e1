"""Ids of jobs that have been used already: one id is one job in its tenant, of any user (R14).

The table of ids by tenant is derived, and made at the first question: only the service that judges submits asks, so others pay nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.domain.state.state import State

ID_OF_ANOTHER = "this id names a job of somebody else in this tenant; make a new ULID"


def known_digest(state: State, key: str) -> str | None:
    """The digest of what was first submitted under this key; None if nothing was, or not in the last 25 hours."""
    job, array = state.jobs.get(key), state.arrays.get(key)
    if job is not None or array is not None:
        return job.digest if job is not None else array.job.digest if array is not None else None
    answered = state.answered.get(key)
    return answered.digest if answered is not None else None


def is_of_another(state: State, key: str) -> bool:
    """Whether the id in this key is that of another user's job of the tenant. Below level 2 each user had ids of their own."""
    tenant, _, job_id = key.split(".")
    return state.terms.amended and job_with(state, tenant, job_id) not in ("", key)


def job_with(state: State, tenant: str, job_id: str) -> str:
    """The key of the job that has this id in this tenant, of ended and rejected ones as long as ids are remembered; empty: none."""
    if state.job_ids is None:
        state.job_ids = {}
        for key in (*state.jobs, *state.arrays, *state.answered):
            note(state, key)
    return state.job_ids.get((tenant, job_id), "")


def note(state: State, key: str) -> None:
    """A job has come to be known. Ledgers from before level 2 may have an id twice in a tenant; the first one has it then."""
    if state.job_ids is not None:
        tenant, _, job_id = key.split(".")
        state.job_ids.setdefault((tenant, job_id), key)


def forget(state: State, key: str) -> None:
    """Nothing is known of a job any more."""
    if state.job_ids is not None:
        tenant, _, job_id = key.split(".")
        if state.job_ids.get((tenant, job_id)) == key:
            del state.job_ids[tenant, job_id]
