"""Arrays for the allocator: the next element stands in line when one was granted on trial, as the fold will have it (`fold.arrays`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.contracts.facts import JobDismissedV1, JobEndedV1, JobMatchedV1
from headrace.contracts.values.arrays import holds
from headrace.domain.fold.arrays import chosen
from headrace.domain.model.job_states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.facts import AnyFact
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import ArrayState, JobRecord
    from headrace.domain.state.state import State
    from headrace.domain.state.trial import Trial


def _leave_line(state: State, trial: Trial, group: JobGroup, job: JobRecord) -> None:
    """A job leaves the line on trial."""
    group.leave(job)
    state.pending.mark(group)
    trial.note(partial(join_line, state, group, job))


def join_line(state: State, group: JobGroup, job: JobRecord) -> None:
    """A job is back in the line."""
    group.join(job)
    state.pending.mark(group)


def _withdraw(state: State, group: JobGroup, job: JobRecord) -> None:
    group.leave(job)
    state.pending.mark(group)


class ArrayLines:
    """Arrays that were granted elements in one round: how many, and which element stands in line for those that wait."""

    def __init__(self, state: State, trial: Trial) -> None:
        self._state = state
        self._trial = trial
        self._granted: dict[str, int] = {}
        self._fronts: dict[str, tuple[JobRecord | None, int]] = {}

    def granted(self, array: ArrayState, group: JobGroup, job: JobRecord) -> None:
        """An element has left the group with a grant: the next one stands there, unless as many run as may (R15)."""
        key = array.job.key
        granted = self._granted[key] = self._granted.get(key, 0) + 1
        front, number = self._fronts.get(key, (array.front, array.waiting[0][0] if array.waiting else -1))
        most = array.range.at_once
        if most and array.busy + granted >= most:
            for other in (front, *array.elements.values()):
                if other is not None and other is not job and (there := self._state.pending.group_of(other)) is not None:
                    _leave_line(self._state, self._trial, there, other)
            return
        if job is not front:
            return
        if number < 0 or holds(array.cancelling, number):
            self._fronts[key] = None, -1
            return
        following = array.element(number)
        # it stands where the others stood (R41), and has refusals of its own (R36) only when it has been granted something
        following.avoiding, following.outlasts = group.avoiding, group.outlasts
        self._fronts[key] = following, _after(array, number)
        join_line(self._state, group, following)
        self._trial.note(partial(_withdraw, self._state, group, following))


def _after(array: ArrayState, number: int) -> int:
    """The next of the elements that wait; -1 after the last one."""
    for first, last in array.waiting:
        if number < last:
            return max(first, number + 1)
    return -1


def unstarted_of(state: State, facts: Iterable[AnyFact]) -> set[str]:
    """Keys of the elements that stand in line and that facts about their arrays end, or match anew with GPU models."""
    found: set[str] = set()
    for fact in facts:
        if isinstance(fact, (JobEndedV1, JobDismissedV1, JobMatchedV1)) and fact.job in state.arrays:
            indices = fact.elements if isinstance(fact, JobEndedV1) else ()
            found |= {job.key for job in chosen(state.arrays[fact.job], indices) if job.is_new_element}
    return found


def cancel_order(job: JobRecord) -> tuple[bool, bool]:
    """For sorting: what waits in arrays first, so that none of it takes the place of what ends; then jobs that wait."""
    return job.state is not JobState.PENDING, job.array is None or job.array.job is not job


def with_others(job: JobRecord) -> JobRecord:
    """The array, for an element that was never granted anything: what ends it ends all like it, as one fact; else the job itself."""
    return job.array.job if job.array is not None and job.is_new_element else job
