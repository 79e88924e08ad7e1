"""The states that a job goes through, from its admission to its end (R14, R29, R32)."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """Where a job is. The last four are final."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


BY_NAME = {state.value: state for state in JobState}
"""What `JobState(name)` says, at a tenth of the price."""
FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.REJECTED})
HOLDING = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING, JobState.SUSPENDED})
