"""Jobs by tenant and by queue, so that the cost of a query depends on what it shows, not on the size of the state.

Strategy: an index of the fold, never a source of truth. After each record it compares the state of the jobs that the record names with
their state when last seen. Rejected jobs, which the fold forgets at once, are stored here for a while, because their owners ask about
them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts import JobRejectedV1
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.values.arrays import size
from headrace.contracts.values.ids import array_of
from headrace.domain.fold.arrays import element_of
from headrace.domain.model.job_states import FINAL, HOLDING, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.contracts.facts.records import Record
    from headrace.domain.model.jobs import ArrayState, JobRecord
    from headrace.domain.state.state import State

REJECTED_KEPT = 10_000
PIECE = 200
"""Jobs that are read at once when they are listed, first."""

Queue = tuple[str, str, str]
"""(tenant, policy, profile)."""


class Rejected(NamedTuple):
    """A job that admission rejected, and when (microseconds since 1970)."""

    fact: JobRejectedV1
    at: int


Listed = tuple[str, "JobRecord | Rejected"]
"""(key, job)."""


@dataclass(slots=True)
class QueueCounts:
    """Number of waiting jobs of a queue, and of those that hold leases."""

    pending: int = 0
    holding: int = 0


@dataclass(slots=True, eq=False)
class TenantJobs:
    """A tenant's jobs in the order of their admission or rejection, and all users who submitted one."""

    jobs: dict[str, JobRecord | Rejected] = field(default_factory=dict)
    users: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class SeenJob:
    """A job, and its state when last seen."""

    job: JobRecord
    state: JobState


class IndexChanges(NamedTuple):
    """Changes by one record: queues that may have another head, jobs that started, jobs that ended."""

    queues: dict[Queue, None]
    started: list[JobRecord]
    ended: list[str]


def jobs_of(record: Record) -> dict[str, None]:
    """Keys of all jobs that a record is about, in order. A victim has its own `stop.ordered` beside the preemption's fact."""
    return dict.fromkeys(fact.job for _, fact in with_implied_facts(record.facts) if hasattr(fact, "job"))


def queue_counts(state: State) -> dict[Queue, QueueCounts]:
    """Counts of each queue of a state that has no index."""
    lines: dict[Queue, QueueCounts] = {}
    for job in state.jobs_and_arrays():
        if not job.ended_at:
            _count(lines, (*job.policy.key, job.profile), job.state, job.stands_for if job.state is JobState.PENDING else 1)
    return lines


class JobIndex:
    """Index of the jobs of one state."""

    def __init__(self, state: State, rejected_kept: int = REJECTED_KEPT) -> None:
        self.tenants: dict[str, TenantJobs] = {}
        self.lines: dict[Queue, QueueCounts] = {}
        self._state = state
        self.seen: dict[str, SeenJob] = {}
        self._waiting: dict[str, int] = {}  # of each array, how many elements were never granted anything
        self.ended: deque[str] = deque()
        self._rejected: deque[str] = deque()
        self._rejected_kept = rejected_kept
        for job in state.jobs.values():
            self._update(job, IndexChanges({}, [], []))
        for array in state.arrays.values():
            self._update_array(array, IndexChanges({}, [], []))
        self.ended = deque(job.key for job in state.ended if job.key in self.seen)

    def note(self, record: Record, keys: Iterable[str]) -> IndexChanges:
        """Update the jobs `keys` after a record that has just been folded."""
        changes = IndexChanges({}, [], [])
        for fact in record.facts:
            if type(fact) is JobRejectedV1:
                self._reject(fact)
        arrays: dict[str, ArrayState] = {}
        for key in keys:
            job = self._state.jobs.get(key)
            if job is not None:
                self._update(job, changes)
            array = job.array if job is not None else self._state.arrays.get(key)
            if array is not None:
                arrays[array.job.key] = array
        for array in arrays.values():
            self._update_array(array, changes)
        self._forget()
        return changes

    def find(self, key: str) -> JobRecord | Rejected | None:
        """A job, an array or an element of one, by its key; None if unknown."""
        jobs_of_tenant = self.tenants.get(key.partition(".")[0])
        found = jobs_of_tenant.jobs.get(key) if jobs_of_tenant is not None else None
        return found if found is not None or not array_of(key) else element_of(self._state, key)

    def elements(self, array: str, after: str = "") -> list[Listed]:
        """Those elements of an array that were granted something, or ended, as far as the fold knows them, the highest index first."""
        known = sorted((key for key in self._state.jobs if array_of(key) == array), reverse=True)
        return [(key, self._state.jobs[key]) for key in known if not after or key < after]

    def newest(self, tenant: str, after: str = "") -> Iterator[Listed]:
        """A tenant's jobs behind the job `after`, the last admitted first; arrays stand for their elements.

        Jobs may come and go between two of them: they are read in pieces, each twice as large as the one before, so that the first costs
        the same however many there are. If `after` has been forgotten, jobs with older ids follow.
        """
        jobs_of_tenant, count = self.tenants.get(tenant), PIECE
        while jobs_of_tenant is not None and (piece := list(islice(_behind(jobs_of_tenant.jobs, after), count))):
            yield from piece
            after, count = piece[-1][0], 2 * count

    def of_id(self, tenant: str, job_id: str, user: str = "") -> list[Listed]:
        """The jobs of that id, of `user` or of each user of the tenant."""
        users = () if (jobs_of_tenant := self.tenants.get(tenant)) is None else (user,) if user else jobs_of_tenant.users
        keys = [f"{tenant}.{one}.{job_id}" for one in users]
        return [(key, job) for key in keys if (job := self.find(key)) is not None]

    def _update_array(self, array: ArrayState, changes: IndexChanges) -> None:
        job = array.job
        queue = (*job.policy.key, job.profile)
        changes.queues[queue] = None
        waiting = size(array.waiting) + sum(one.is_new_element for one in array.elements.values())
        _count(self.lines, queue, JobState.PENDING, waiting - self._waiting.get(job.key, 0))
        self._waiting[job.key] = waiting
        seen = self.seen.get(job.key) or self._enter(job)
        if job.state in FINAL and seen.state is not job.state:
            changes.ended.append(job.key)
            self.ended.append(job.key)
        seen.state = job.state

    def _update(self, job: JobRecord, changes: IndexChanges) -> None:
        if job.is_new_element and job.state is JobState.PENDING:
            return  # it is counted with its array
        queue = (*job.policy.key, job.profile)
        changes.queues[queue] = None
        seen = self.seen.get(job.key)
        if seen is None or seen.job is not job:
            seen = self._enter(job)
        elif seen.state is job.state:
            return
        else:
            _count(self.lines, queue, seen.state, -1)
        _count(self.lines, queue, job.state, 1)
        if job.state is JobState.RUNNING and seen.state is not JobState.RUNNING:
            changes.started.append(job)
        if job.state in FINAL:
            changes.ended.append(job.key)
            self.ended.append(job.key)
        seen.state = job.state

    def _enter(self, job: JobRecord) -> SeenJob:
        jobs_of_tenant = self._tenant_jobs(job.key)
        if job.array is None or job.array.job is job:
            jobs_of_tenant.jobs[job.key] = job
        seen = self.seen[job.key] = SeenJob(job, JobState.PENDING)
        return seen

    def _tenant_jobs(self, key: str) -> TenantJobs:
        tenant, user, _ = key.split(".")
        jobs_of_tenant = self.tenants.get(tenant)
        if jobs_of_tenant is None:
            jobs_of_tenant = self.tenants[tenant] = TenantJobs()
        jobs_of_tenant.users[user] = None
        return jobs_of_tenant

    def _reject(self, fact: JobRejectedV1) -> None:
        if fact.job in self._state.jobs or fact.job in self._state.arrays:
            return
        self._tenant_jobs(fact.job).jobs[fact.job] = Rejected(fact, self._state.now)
        self._rejected.append(fact.job)
        if len(self._rejected) > self._rejected_kept:
            oldest = self._rejected.popleft()
            if isinstance(self.find(oldest), Rejected):
                del self._tenant_jobs(oldest).jobs[oldest]

    def _forget(self) -> None:
        """Remove ended jobs that have left the fold (R14)."""
        while self.ended and self.ended[0] not in self._state.jobs and self.ended[0] not in self._state.arrays:
            key = self.ended.popleft()
            self._waiting.pop(key, None)
            if self.seen.pop(key, None) is not None:
                self._tenant_jobs(key).jobs.pop(key, None)


def _behind(jobs: dict[str, JobRecord | Rejected], last: str) -> Iterator[Listed]:
    """The jobs before `last` in the order of admission, backwards; all of them if it is empty."""
    items = iter(reversed(jobs.items()))
    if last in jobs:
        next(key for key, _ in items if key == last)
    elif last:
        made = last.rpartition(".")[2]
        return ((key, job) for key, job in items if key.rpartition(".")[2] < made)
    return items


def _count(lines: dict[Queue, QueueCounts], queue: Queue, state: JobState, change: int) -> None:
    if state in FINAL:
        return
    line = lines.get(queue)
    if line is None:
        line = lines[queue] = QueueCounts()
    if state in HOLDING:
        line.holding += change
    else:
        line.pending += change
