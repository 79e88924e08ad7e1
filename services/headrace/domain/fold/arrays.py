"""The fold of arrays: which of their elements have a record of their own, and which of these stands in line (R15).

Strategy: elements that wait are ranges of numbers, and one of them stands in line for all, the front. When it leaves the line, the next
one gets a record. So an array costs what its elements that run and have run cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.arrays import common, holds, merged, size, without
from headrace.contracts.values.ids import array_of, index_of
from headrace.domain.model.job_states import FINAL, JobState
from headrace.domain.model.jobs import ArrayState, JobRecord, UnstartedElements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.values.arrays import ArrayRange, Ranges
    from headrace.domain.state.state import State


def admit(state: State, job: JobRecord, elements: ArrayRange) -> ArrayState:
    """An array of jobs like `job` was admitted; `advance` it when its dependencies are noted."""
    array = ArrayState(job, elements, ((0, elements.count - 1),), front=job)
    job.array = state.arrays[job.key] = array
    return array


def advance(state: State, array: ArrayState) -> None:
    """Put the next element in line if the line has lost the last one; take all out of it while as many run as may."""
    if array.front is array.job:
        if array.job.waits_for or array.job.doomed_by:
            return
        state.pending.remove(array.job)
        array.front = None
    front = array.front
    if array.waiting and (front is None or front.state is not JobState.PENDING or front.nomination is not None):
        state.pending.add(_next(state, array), state.now)
    if array.range.at_once:
        is_full = array.busy >= array.range.at_once
        if is_full is not array.is_full:
            array.is_full = is_full
            for job in array.elements.values():
                if job.state is JobState.PENDING:
                    state.pending.remove(job)
                    state.pending.add(job, state.now)


def _next(state: State, array: ArrayState) -> JobRecord:
    """The next of those that wait gets a record, and stands in line for those behind it."""
    number = array.waiting[0][0]
    array.waiting = without(array.waiting, ((number, number),))
    job = array.front = array.element(number)
    state.jobs[job.key] = array.elements[job.key] = job
    if holds(array.cancelling, number):
        array.cancelling = without(array.cancelling, ((number, number),))
        job.cancel_by = array.job.cancel_by
        state.cancels[job.key] = job
        if not array.cancelling:
            state.cancels.pop(array.job.key, None)
    return job


def chosen(array: ArrayState, indices: Ranges) -> Iterator[JobRecord]:
    """Its elements with a record that have not ended and have these indices; without indices, all."""
    if not indices:
        yield from list(array.elements.values())
        return
    numbers = array.range.numbers(indices)
    for key, job in list(array.elements.items()):
        if holds(numbers, array.range.number(index_of(key))):
            yield job


def ask_to_cancel(state: State, array: ArrayState, by: str, indices: Ranges) -> None:
    """The end of these elements was asked for."""
    for job in chosen(array, indices):
        job.cancel_by = by
        state.cancels[job.key] = job
    waiting = common(array.waiting, array.range.numbers(indices))
    if waiting:
        array.cancelling = merged((*array.cancelling, *waiting))
        array.job.cancel_by = by
        state.cancels[array.job.key] = array.job


def end_waiting(
    state: State, array: ArrayState, final: JobState, reason: str, message: str, indices: Ranges
) -> UnstartedElements | None:
    """Elements without a record, of these indices, have ended; None if none of them waited."""
    gone = common(array.waiting, array.range.numbers(indices))
    array.waiting, array.cancelling = without(array.waiting, gone), without(array.cancelling, gone)
    if not array.cancelling:
        state.cancels.pop(array.job.key, None)
    if not gone:
        return None
    ended = UnstartedElements(gone, final, reason, message, state.now)
    array.unstarted += (ended,)
    _count(array, final, reason, size(gone))
    array.job.policy.count_pending(array.job, -size(gone))
    return ended


def element_ended(state: State, array: ArrayState, job: JobRecord) -> None:
    """An element with a record has ended."""
    array.elements.pop(job.key, None)
    _count(array, job.state, job.reason, 1)
    array.job.exit_code = max(array.job.exit_code or 0, job.exit_code or 0)
    advance(state, array)


def _count(array: ArrayState, final: JobState, reason: str, count: int) -> None:
    """Count elements that have ended in this state."""
    array.ended[final.value] = array.ended.get(final.value, 0) + count
    array.reasons[final.value] = reason


def finish(state: State, array: ArrayState, reason: str) -> bool:
    """If the last element of the array has ended, the array has: as its worst element, and for the reason of the last of those.

    `reason`: that of the last element; it counts if the others ended before their reasons were kept. Returns whether it has ended now.
    """
    job, ended = array.job, array.ended
    if array.waiting or array.elements or job.state in FINAL:
        return False
    state.pending.remove(job)
    for table in (state.cancels, state.doomed):
        table.pop(job.key, None)
    worst = (JobState.FAILED, JobState.CANCELLED, JobState.REJECTED)
    job.state = next((one for one in worst if ended.get(one.value)), JobState.SUCCEEDED)
    counts = ", ".join(f"{ended[one.value]} {one}" for one in (JobState.SUCCEEDED, *worst) if ended.get(one.value))
    job.reason, job.ended_at = array.reasons.get(job.state.value, reason), state.now
    job.message = f"of {array.range.count} elements: {counts}"
    state.ended.append(job)
    return True


def job_of(state: State, key: str) -> JobRecord | None:
    """A job, an array as one, or an element of an array, by its key."""
    array = state.arrays.get(key)
    return array.job if array is not None else element_of(state, key)


def element_of(state: State, key: str) -> JobRecord | None:
    """An element by its key: its record; for one without a record, a record that stands in no table; None if nothing is known of it."""
    job, array = state.jobs.get(key), state.arrays.get(array_of(key))
    number = array.range.number(index_of(key)) if array is not None else -1
    if job is not None or array is None or number < 0:
        return job
    gone = next((gone for gone in array.unstarted if holds(gone.numbers, number)), None)
    if gone is None and not holds(array.waiting, number):
        return None
    made = array.element(number)
    if gone is not None:
        made.state, made.reason, made.message, made.ended_at = gone.state, gone.reason, gone.message, gone.at
    else:
        made.avoiding, made.outlasts = state.pending.kept_from(made, state.now)  # as if it stood in line (R41)
    return made


def state_of(state: State, key: str) -> JobState | None:
    """The state of a job, an array or an element of one; None if nothing is known of it."""
    job = state.jobs.get(key)
    if job is not None:
        return job.state
    whole = state.arrays.get(key)
    if whole is not None:
        return whole.job.state
    answered = state.answered.get(key)
    if answered is not None:
        return answered.state
    array = state.arrays.get(array_of(key))
    number = array.range.number(index_of(key)) if array is not None else -1
    if array is None or number < 0:
        return None
    if holds(array.waiting, number):
        return JobState.PENDING
    return next((gone.state for gone in array.unstarted if holds(gone.numbers, number)), None)
