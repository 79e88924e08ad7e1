"""Outcome of a run from its facts: starts, waits, preemptions, lost and used GPU time, for each policy and job. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.ids import element_name
from headrace.domain.model.job_states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.values.arrays import ArrayRange, Ranges
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State

Queue = tuple[str, str, str]
"""(tenant, policy, profile) of a job."""

PREEMPTED, SUCCEEDED = "preempted", "succeeded"


@dataclass(slots=True, eq=False)
class JobOutcome:
    """Outcome of one job. Moments in log time; `started_at` is of its first start, None if it has not started by the end.

    `lost` and `used` in GPU units x microseconds; lost is the work of interrupted attempts since they last saved it.
    """

    queue: Queue
    group: str
    admitted_at: int
    started_at: int | None = None
    had_started: bool = False
    starts: int = 0
    preemptions: int = 0
    lost: int = 0
    used: int = 0
    refused: str = ""
    over: bool = False


class _Held(NamedTuple):
    """A lease that is held: GPU units, and since when they count."""

    units: int
    since: int


@dataclass(slots=True, eq=False)
class Outcome:
    """Outcomes of all jobs that existed at the beginning, or came later, by job key. `state`: the fold, which has read noted facts."""

    state: State
    job_outcomes: dict[str, JobOutcome] = field(default_factory=dict)
    _held: dict[tuple[str, int], _Held] = field(default_factory=dict)
    _parked: dict[tuple[str, int], int] = field(default_factory=dict)
    """GPU units of the suspended leases."""
    _unsaved_since: dict[str, int] = field(default_factory=dict)
    _undone: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _to_start: dict[str, int] = field(default_factory=dict)
    _means: dict[type, Callable[[Any, int], None]] = field(init=False)

    def begin(self, now: int) -> None:
        """Note the jobs that wait and the leases that are held at the beginning, at log time `now`."""
        for job in self.state.jobs.values():
            if job.ended_at:
                continue
            started = any(past.started_at for past in job.attempts)
            group = job.policy.document.group
            self.job_outcomes[job.key] = JobOutcome((*job.policy.key, job.profile), group, job.admitted_at, had_started=started)
            for rank, lease in job.leases.items():
                units = lease.amounts.get(GPU, 0)
                if lease.suspended_at:
                    self._parked[job.key, rank] = units
                else:
                    self._held[job.key, rank] = _Held(units, now)
            self._begin_attempt(job, now)
        for array in self.state.arrays.values():
            job = array.job
            for key in _elements(job.key, array.range, array.range.indices(array.waiting)) if array.waiting else ():
                queue, group = (*job.policy.key, job.profile), job.policy.document.group
                self.job_outcomes[key] = JobOutcome(queue, group, job.admitted_at)

    def _begin_attempt(self, job: JobRecord, now: int) -> None:
        """Unsaved work of a running attempt counts from its start, but only what is held from now on is used."""
        if job.state is JobState.STARTING:
            self._to_start[job.key] = sum(not lease.started_at for lease in job.leases.values())
        if job.started_at:
            saved = max(job.started_at, job.checkpoint_at)
            self._unsaved_since[job.key] = now
            for lease in job.leases.values():
                self._undone[job.key] += lease.amounts.get(GPU, 0) * max(0, (lease.suspended_at or now) - saved)

    def __post_init__(self) -> None:
        """Map kinds of facts to their handlers."""
        self._means = {
            f.JobAdmittedV1: self._admitted,
            f.JobRejectedV1: self._rejected,
            f.JobDismissedV1: self._dismissed,
            f.LeaseGrantedV1: self._granted,
            f.LeaseStartedV1: self._started,
            f.CheckpointRegisteredV1: self._saved,
            f.LeaseEndedV1: self._left,
            f.LeaseRevokedV1: self._left,
            f.LeaseSuspendedV1: self._suspended,
            f.ResumeOrderedV1: self._resumed,
            f.JobRequeuedV1: self._requeued,
            f.JobEndedV1: self._ended,
            f.PreemptionOrderedV1: self._ordered,
        }

    def note(self, fact: AnyFact, at: int) -> None:
        """Note one fact of the run, at log time `at`."""
        means = self._means.get(type(fact))
        if means is not None:
            means(fact, at)

    def end(self, at: int) -> None:
        """End the run: leases that are still held were used until now."""
        for job, rank in list(self._held):
            self._release(job, rank, at)

    def _outcome_of(self, fact: f.JobAdmittedV1 | f.JobRejectedV1, at: int) -> JobOutcome:
        tenant = fact.job.split(".")[0]
        policy = self.state.policies.get((tenant, fact.policy))
        return JobOutcome((tenant, fact.policy, fact.profile), "" if policy is None else policy.document.group, at)

    def _admitted(self, fact: f.JobAdmittedV1, at: int) -> None:
        for key in (fact.job,) if fact.array is None else _elements(fact.job, fact.array, ()):
            self.job_outcomes[key] = self._outcome_of(fact, at)

    def _unstarted(self, fact: f.JobEndedV1 | f.JobDismissedV1) -> Iterator[JobOutcome]:
        """Of a fact about an array: the outcomes of those elements that it is about."""
        array = self.state.arrays.get(fact.job)
        indices = fact.elements if isinstance(fact, f.JobEndedV1) else ()
        for key in _elements(fact.job, array.range, indices) if array is not None else ():
            found = self.job_outcomes.get(key)
            if found is not None and not (found.starts or found.had_started or found.over) and key not in self._to_start:
                yield found

    def _left(self, fact: f.LeaseEndedV1 | f.LeaseRevokedV1, at: int) -> None:
        self._parked.pop((fact.job, fact.rank), None)
        self._release(fact.job, fact.rank, at)

    def _release(self, job: str, rank: int, at: int) -> None:
        held, job_outcome = self._held.pop((job, rank), None), self.job_outcomes.get(job)
        if held is None or job_outcome is None:
            return
        job_outcome.used += held.units * (at - held.since)
        self._undone[job] += held.units * max(0, at - max(held.since, self._unsaved_since.get(job, at)))

    def _suspended(self, fact: f.LeaseSuspendedV1, at: int) -> None:
        """The attempt holds nothing, and has lost nothing either (R29)."""
        held = self._held.get((fact.job, fact.rank))
        if held is not None:
            self._release(fact.job, fact.rank, at)
            self._parked[fact.job, fact.rank] = held.units

    def _resumed(self, fact: f.ResumeOrderedV1, at: int) -> None:
        """All leases of the attempt hold again."""
        for key in [key for key in self._parked if key[0] == fact.job]:
            self._held[key] = _Held(self._parked.pop(key), at)

    def _requeued(self, fact: f.JobRequeuedV1, _at: int) -> None:
        self._cut_short(fact.job)

    def _cut_short(self, job: str) -> None:
        """The attempt is to be repeated, or never will be: its unsaved work is lost."""
        if job in self.job_outcomes:
            self.job_outcomes[job].lost += self._undone.pop(job, 0)
            self._to_start.pop(job, None)

    def _rejected(self, fact: f.JobRejectedV1, at: int) -> None:
        if fact.job not in self.job_outcomes:
            job_outcome = self.job_outcomes[fact.job] = self._outcome_of(fact, at)
            job_outcome.refused, job_outcome.over = fact.reason, True

    def _dismissed(self, fact: f.JobDismissedV1, _at: int) -> None:
        job_outcome = self.job_outcomes.get(fact.job)
        for one in (job_outcome,) if job_outcome is not None else self._unstarted(fact):
            one.refused, one.over = fact.reason, True

    def _granted(self, fact: f.LeaseGrantedV1, at: int) -> None:
        self._held[fact.job, fact.rank] = _Held(fact.amounts.get(GPU, 0), at)
        self._to_start[fact.job] = self._to_start.get(fact.job, 0) + 1
        self._undone.pop(fact.job, None)
        self._unsaved_since.pop(fact.job, None)

    def _started(self, fact: f.LeaseStartedV1, at: int) -> None:
        job_outcome, missing = self.job_outcomes.get(fact.job), self._to_start.get(fact.job, 0) - 1
        if job_outcome is None or missing < 0:
            return
        self._to_start[fact.job] = missing
        if not missing:
            job_outcome.starts += 1
            self._unsaved_since[fact.job] = at
            if job_outcome.started_at is None and not job_outcome.had_started:
                job_outcome.started_at = at

    def _saved(self, fact: f.CheckpointRegisteredV1, at: int) -> None:
        if fact.job in self._unsaved_since:
            self._unsaved_since[fact.job] = at
            self._undone.pop(fact.job, None)

    def _ended(self, fact: f.JobEndedV1, _at: int) -> None:
        job_outcome = self.job_outcomes.get(fact.job)
        if job_outcome is not None:
            job_outcome.over = True
            if fact.cause == PREEMPTED and fact.state != SUCCEEDED:
                self._cut_short(fact.job)
        for one in self._unstarted(fact):
            one.over = True

    def _ordered(self, fact: f.PreemptionOrderedV1, _at: int) -> None:
        for victim in fact.victims:
            if victim.job in self.job_outcomes:
                self.job_outcomes[victim.job].preemptions += 1


def _elements(array: str, elements: ArrayRange, indices: Ranges) -> Iterator[str]:
    """Keys of the elements of an array with these indices; without indices, of all."""
    for first, last in elements.numbers(indices):
        for number in range(first, last + 1):
            yield element_name(array, elements.index(number))
