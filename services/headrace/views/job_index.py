"""Jobs by tenant and by queue, so that a question costs what it shows and not what there is.

Strategy: an index, no truth. Behind each record it looks at the jobs that the record names, and compares where each is now with where
it was seen last; what a job's state is, only the fold says. Rejected jobs, which the fold forgets at once, are remembered here for a
while, because their owners ask.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts import JobRejectedV1
from headrace.contracts.facts.derived_facts import spelled_out
from headrace.domain.model.job_states import FINAL, HOLDING, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.facts.records import Record
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.state import State

REJECTED_KEPT = 10_000

Queue = tuple[str, str, str]
"""(tenant, policy, profile)."""


class Rejected(NamedTuple):
    """A job that admission refused, and when."""

    fact: JobRejectedV1
    at: int


@dataclass(slots=True)
class QueueCounts:
    """How many jobs of one queue wait, and how many hold leases."""

    pending: int = 0
    holding: int = 0


@dataclass(slots=True, eq=False)
class TenantRoll:
    """A tenant's jobs in the order of their admission or refusal, and everybody who submitted one."""

    jobs: dict[str, JobRecord | Rejected] = field(default_factory=dict)
    users: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class SeenJob:
    """A job, and its state when it was last looked at."""

    job: JobRecord
    state: JobState


class IndexChanges(NamedTuple):
    """What one record has changed: queues whose line may have another head, jobs that began to run, jobs that have ended."""

    queues: dict[Queue, None]
    started: list[JobRecord]
    ended: list[str]


def jobs_of(record: Record) -> dict[str, None]:
    """The keys of all jobs that a record is about, in order. A victim has a `stop.ordered` of its own beside the preemption's."""
    return dict.fromkeys(fact.job for _, fact in spelled_out(record.facts) if hasattr(fact, "job"))


def lines_of(state: State) -> dict[Queue, QueueCounts]:
    """The lines of a state that nobody follows."""
    lines: dict[Queue, QueueCounts] = {}
    for job in state.jobs.values():
        if not job.ended_at:
            _count(lines, (*job.policy.key, job.profile), job.state, 1)
    return lines


class JobIndex:
    """The index over one state."""

    def __init__(self, state: State, rejected_kept: int = REJECTED_KEPT) -> None:
        self.tenants: dict[str, TenantRoll] = {}
        self.lines: dict[Queue, QueueCounts] = {}
        self._state = state
        self._seen: dict[str, SeenJob] = {}
        self._ended: deque[str] = deque()
        self._rejected: deque[str] = deque()
        self._rejected_kept = rejected_kept
        for job in state.jobs.values():
            self._look(job, IndexChanges({}, [], []))
        self._ended = deque(job.key for job in state.ended if job.key in self._seen)

    def note(self, record: Record, keys: Iterable[str]) -> IndexChanges:
        """Look at the jobs `keys` behind a record that has just been folded."""
        changes = IndexChanges({}, [], [])
        for fact in record.facts:
            if type(fact) is JobRejectedV1:
                self._reject(fact)
        for key in keys:
            job = self._state.jobs.get(key)
            if job is not None:
                self._look(job, changes)
        self._forget()
        return changes

    def find(self, key: str) -> JobRecord | Rejected | None:
        """A job by its key."""
        roll = self.tenants.get(key.partition(".")[0])
        return roll.jobs.get(key) if roll is not None else None

    def newest(self, tenant: str) -> list[JobRecord | Rejected]:
        """A tenant's jobs, the last admitted first."""
        roll = self.tenants.get(tenant)
        return list(reversed(roll.jobs.values())) if roll is not None else []

    def _look(self, job: JobRecord, changes: IndexChanges) -> None:
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
        roll = self._roll(job.key)
        roll.jobs[job.key] = job
        seen = self._seen[job.key] = SeenJob(job, JobState.PENDING)
        return seen

    def _roll(self, key: str) -> TenantRoll:
        tenant, user, _ = key.split(".")
        roll = self.tenants.get(tenant)
        if roll is None:
            roll = self.tenants[tenant] = TenantRoll()
        roll.users[user] = None
        return roll

    def _reject(self, fact: JobRejectedV1) -> None:
        if fact.job in self._state.jobs:
            return
        self._roll(fact.job).jobs[fact.job] = Rejected(fact, self._state.now)
        self._rejected.append(fact.job)
        if len(self._rejected) > self._rejected_kept:
            oldest = self._rejected.popleft()
            if isinstance(self.find(oldest), Rejected):
                del self._roll(oldest).jobs[oldest]

    def _forget(self) -> None:
        """Ended jobs leave with the fold (R14)."""
        while self._ended and self._ended[0] not in self._state.jobs:
            key = self._ended.popleft()
            if self._seen.pop(key, None) is not None:
                del self._roll(key).jobs[key]


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
