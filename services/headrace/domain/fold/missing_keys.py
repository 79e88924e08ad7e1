"""The fold of missing keys: jobs whose texts cannot be decrypted wait and are not dispatched (R22: FROZEN)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.domain.fold.holds import end_hold
from headrace.domain.model.job_states import FINAL, JobState

if TYPE_CHECKING:
    from headrace.domain.state.state import State


def _locked(state: State, fact: f.TextsLockedV1, sequence: int, _place: int) -> None:
    state.locked[fact.tenant, fact.handle] = sequence
    _set(state, fact.tenant, fact.handle, locked=True)


def _unlocked(state: State, fact: f.TextsUnlockedV1, _sequence: int, _place: int) -> None:
    state.locked.pop((fact.tenant, fact.handle), None)
    _set(state, fact.tenant, fact.handle, locked=False)


def _set(state: State, tenant: str, handle: str, *, locked: bool) -> None:
    prefix = f"{tenant}.{handle}."
    for job in state.jobs_and_arrays():
        if not job.key.startswith(prefix) or job.state in FINAL:
            continue
        has_front = job.array is not None and job.array.job is job and job.array.front is not job
        if job.state is not JobState.PENDING or has_front:
            job.locked = locked
            continue
        state.pending.remove(job)
        job.locked = locked
        if locked:
            end_hold(state, job.key)
        state.pending.add(job, state.now)
    state.stir()


HANDLERS: dict[type, Any] = {f.TextsLockedV1: _locked, f.TextsUnlockedV1: _unlocked}
