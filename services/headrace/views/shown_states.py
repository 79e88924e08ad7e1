"""States of jobs and arrays as people call them. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.contracts.values.arrays import size
from headrace.domain.model.job_states import HOLDING, JobState

if TYPE_CHECKING:
    from headrace.domain.model.jobs import ArrayState, JobRecord


def state_of(job: JobRecord) -> str:
    """Name of the job's state for people: a job that holds leases runs, unless its stop was ordered, for a preemption or otherwise.

    An array runs while any of its elements holds leases.
    """
    if is_whole_array(job) and job.state is JobState.PENDING and job.array is not None:
        return "running" if any(one.leases for one in job.array.elements.values()) else "pending"
    if job.state is JobState.STOPPING:
        return "preempting" if job.stop is not None and job.stop.cause == "preempted" else "stopping"
    return "running" if job.state in HOLDING and job.state is not JobState.SUSPENDED else job.state.value


def elements_by_state(array: ArrayState) -> dict[str, int]:
    """How many elements of an array are in which state, as people call these; states without elements are left out."""
    counts = Counter(state_of(job) for job in array.elements.values())
    counts[JobState.PENDING.value] += size(array.waiting)
    counts.update(array.ended)
    return {state: count for state, count in sorted(counts.items()) if count}


def is_whole_array(job: JobRecord) -> bool:
    """True for the record of an array, not for those of its elements."""
    return job.array is not None and job.array.job is job


def next_of(job: JobRecord) -> JobRecord:
    """Of an array the element that stands in line for it, or else one that waits; of any other job itself."""
    array = job.array if is_whole_array(job) else None
    if array is None or array.front is None or array.front is job:
        return job
    if array.front.state is JobState.PENDING:
        return array.front
    return next((one for one in array.elements.values() if one.state is JobState.PENDING), job)
