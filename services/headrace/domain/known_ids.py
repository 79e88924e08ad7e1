"""Ids of jobs that have been used already (R14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.domain.state import State


def known_digest(state: State, key: str) -> str | None:
    """The digest of what was first submitted under this key; None where nothing was, or not in the last 25 hours."""
    job = state.jobs.get(key)
    if job is not None:
        return job.digest
    answered = state.answered.get(key)
    return answered.digest if answered is not None else None
