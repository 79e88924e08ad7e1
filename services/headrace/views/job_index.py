"""Jobs by tenant and by queue, so that the cost of a query depends on what it shows, not on the size of the state.

Strategy: an index of the fold, never a source of truth. After each record it compares the state of the jobs that the record names with
their state when last seen. Rejected jobs, which the fold forgets at once, are stored here for a while, because their owners ask about
them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts import JobRejectedV1
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.domain.model.job_states import FINAL, HOLDING, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.facts.records import Record
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State

REJECTED_KEPT = 10_000

Queue = tuple[str, str, str]
"""(tenant, policy, profile)."""


class Rejected(NamedTuple):
    """A job that admission rejected, and when (microseconds since 1970)."""

    fact: JobRejectedV1
    at: int


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
    for job in state.jobs.values():
        if not job.ended_at:
            _count(lines, (*job.policy.key, job.profile), job.state, 1)
    return lines


class JobIndex:
    """Index of the jobs of one state."""

    def __init__(self, state: State, rejected_kept: int = REJECTED_KEPT) -> None:
        self.tenants: dict[str, TenantJobs] = {}
        self.lines: dict[Queue, QueueCounts] = {}
        self._state = state
        self._seen: dict[str, SeenJob] = {}
        self._ended: deque[str] = deque()
        self._rejected: deque[str] = deque()
        self._rejected_kept = rejected_kept
        for job in state.jobs.values():
            self._update(job, IndexChanges({}, [], []))
        self._ended = deque(job.key for job in state.ended if job.key in self._seen)

    def note(self, record: Record, keys: Iterable[str]) -> IndexChanges:
        """Update the jobs `keys` after a record that has just been folded."""
        changes = IndexChanges({}, [], [])
        for fact in record.facts:
            if type(fact) is JobRejectedV1:
                self._reject(fact)
        for key in keys:
            job = self._state.jobs.get(key)
            if job is not None:
                self._update(job, changes)
        self._forget()
        return changes

    def find(self, key: str) -> JobRecord | Rejected | None:
        """A job by its key; None if unknown."""
        jobs_of_tenant = self.tenants.get(key.partition(".")[0])
        return jobs_of_tenant.jobs.get(key) if jobs_of_tenant is not None else None

    def newest(self, tenant: str) -> list[JobRecord | Rejected]:
        """A tenant's jobs, the last admitted first."""
        jobs_of_tenant = self.tenants.get(tenant)
        return list(reversed(jobs_of_tenant.jobs.values())) if jobs_of_tenant is not None else []

    def _update(self, job: JobRecord, changes: IndexChanges) -> None:
        queue = (*job.policy.key, job.profile)
        changes.queues[queue] = None
        seen = self._seen.get(job.key)
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
            self._ended.append(job.key)
        seen.state = job.state

    def _enter(self, job: JobRecord) -> SeenJob:
        jobs_of_tenant = self._tenant_jobs(job.key)
        jobs_of_tenant.jobs[job.key] = job
        seen = self._seen[job.key] = SeenJob(job, JobState.PENDING)
        return seen

    def _tenant_jobs(self, key: str) -> TenantJobs:
        tenant, user, _ = key.split(".")
        jobs_of_tenant = self.tenants.get(tenant)
        if jobs_of_tenant is None:
            jobs_of_tenant = self.tenants[tenant] = TenantJobs()
        jobs_of_tenant.users[user] = None
        return jobs_of_tenant

    def _reject(self, fact: JobRejectedV1) -> None:
        if fact.job in self._state.jobs:
            return
        self._tenant_jobs(fact.job).jobs[fact.job] = Rejected(fact, self._state.now)
        self._rejected.append(fact.job)
        if len(self._rejected) > self._rejected_kept:
            oldest = self._rejected.popleft()
            if isinstance(self.find(oldest), Rejected):
                del self._tenant_jobs(oldest).jobs[oldest]

    def _forget(self) -> None:
        """Remove ended jobs that have left the fold (R14)."""
        while self._ended and self._ended[0] not in self._state.jobs:
            key = self._ended.popleft()
            if self._seen.pop(key, None) is not None:
                del self._tenant_jobs(key).jobs[key]


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
