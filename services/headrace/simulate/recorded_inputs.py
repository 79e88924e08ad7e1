"""Inputs that really came after a moment of the ledger, to be replayed under other circumstances. Pure.

Submissions, documents and events of machines are kept as they were stated: jobs, requests about them, documents, nodes. The decisions on
them are not: those are what is to be found out. Of their outcome only properties of the jobs are kept, as far as known: how long each
attempt worked until it ended by itself, and how it ended; how long it took to leave when it was ordered to stop; how often it saved.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import array_of
from headrace.domain.explain.expected_ends import ExpectedEnds
from headrace.domain.model.job_states import JobState
from headrace.simulate.replay_facts import REMOVED, WRITTEN, object_of
from headrace.simulate.scenario import Moment, Submit

if TYPE_CHECKING:
    from headrace.contracts.documents.model import PreemptionTerms
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Fact
    from headrace.contracts.facts.records import Record
    from headrace.domain.explain.expected_ends import Queue
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State

_REQUESTED: tuple[type[Fact], ...] = (
    f.JobAdmittedV1,
    f.JobRejectedV1,
    f.JobCancelRequestedV1,
    f.JobRequeueRequestedV1,
    f.ObjectClosedV1,
    f.CalendarStatedV1,
    f.PreemptionForcedV1,
)
_SUPPLY: tuple[type[Fact], ...] = (
    f.NodeRegisteredV1,
    f.NodeStoppedV1,
    f.NodeLostV1,
    f.NodeSetAsideV1,
    f.NodeCheckOrderedV1,
    f.NodeCheckedV1,
    f.NodeCordonedV1,
    f.NodeUncordonedV1,
    f.NodeDrainOrderedV1,
    f.NodeDrainScheduledV1,
    f.NodeApprovedV1,
    f.NodeExcludedV1,
    f.NodeConfirmedEmptyV1,
    f.DeviceDrainedV1,
    f.DeviceReturnedV1,
    f.LeaseIdledV1,
    f.LeaseUsedV1,
)
STATED: frozenset[type[Fact]] = frozenset((*_REQUESTED, *_SUPPLY, *WRITTEN, *REMOVED))
"""Facts that are stated again. The end of a drained object is not among them: it follows."""
_LOOKED_AT = (f.LeaseGrantedV1, f.CheckpointRegisteredV1, f.LeaseSuspendedV1, f.LeaseEndedV1)


@dataclass(slots=True, eq=False)
class _Seen:
    """What is known of one job. `ends`: by attempt, the work that it had done when it ended by itself, and its exit code.

    `done_before` is what the current attempt resumed from, `mark` how long it had run when it saved last; `saved`: how often attempts
    did, and `worked` how long they ran for that.
    """

    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    left_at: dict[int, int] = field(default_factory=dict)
    """By attempt, when it ended by itself (log time)."""
    done_before: int = 0
    mark: int = 0
    worked: int = 0
    saved: int = 0
    saves_on_abort: bool = False
    abort_takes: int | None = None
    lasted: int = 0
    """Lower bound of its work: it was stopped then, or was still running."""


class RecordedInputs:
    """Inputs by `moments` since `start` (log time), and what is known of each job. `state` is the fold at `start`."""

    def __init__(self, start: int, state: State | None = None) -> None:
        self.start = start
        self.moments: list[Moment] = []
        self.suspending: set[str] = set()
        """Nodes that have suspended a job."""
        self._closing = set() if state is None else set(state.terms.closings)
        self._seen: dict[str, _Seen] = {}
        self._work: dict[str, int] = {}
        """Work saved in each checkpoint, by URI."""
        self._runs: dict[Queue, list[int]] = {}
        self._sums: dict[Queue, list[int]] = {}
        self._leavings: dict[tuple[str, str], list[int]] = {}
        """Times that jobs took to leave when ordered to stop, by policy."""

    def note(self, record: Record, state: State) -> None:
        """Note one more record; `state` is the fold up to it."""
        stated = [fact for fact in record.facts if type(fact) in STATED and not self._follows(fact)]
        if stated:
            self.moments.append(Moment(at=max(0, state.now - self.start), stated=tuple(stated), by=record.by))
        for fact in record.facts:
            if isinstance(fact, _LOOKED_AT):
                job = state.jobs.get(fact.job)
                if job is not None and job.attempt == fact.attempt:
                    self._note_fact(fact, job, state.now)

    def _follows(self, fact: AnyFact) -> bool:
        """Return whether governance stated it because a closed object had come to its end (R11)."""
        if isinstance(fact, f.ObjectClosedV1):
            self._closing.add((fact.kind, fact.tenant, fact.name))
        return type(fact) in REMOVED and object_of(fact) in self._closing

    def _of(self, job: JobRecord) -> _Seen:
        seen = self._seen.get(job.key)
        if seen is None:
            seen = self._seen[job.key] = _Seen()
        return seen

    def _note_fact(self, fact: AnyFact, job: JobRecord, now: int) -> None:
        match fact:
            case f.LeaseGrantedV1():
                self._granted(fact, job)
            case f.CheckpointRegisteredV1():
                self._saved(fact, job, now)
            case f.LeaseSuspendedV1() if (lease := job.leases.get(fact.rank)) is not None:
                self.suspending.add(lease.node)
            case f.LeaseEndedV1():
                self._ended(fact, job, now)

    def _granted(self, fact: f.LeaseGrantedV1, job: JobRecord) -> None:
        if fact.rank == 0 and (fact.resume_from or job.key in self._seen):
            seen = self._of(job)
            seen.done_before, seen.mark = self._work.get(fact.resume_from, 0), 0

    def _saved(self, fact: f.CheckpointRegisteredV1, job: JobRecord, now: int) -> None:
        seen, ran = self._of(job), _ran(job, now)
        self._work[fact.uri] = seen.done_before + ran
        if job.state is JobState.STOPPING:
            seen.saves_on_abort = True
        else:
            seen.saved, seen.worked, seen.mark = seen.saved + 1, seen.worked + ran - seen.mark, ran

    def _ended(self, fact: f.LeaseEndedV1, job: JobRecord, now: int) -> None:
        """Note an end. For a gang, the first replica that ends by itself gives the time, and a failed one the exit code."""
        seen, ran = self._of(job), _ran(job, now)
        if fact.stopping and not fact.finished:
            seen.lasted = max(seen.lasted, seen.done_before + ran)
            if fact.attempt not in seen.ends:
                seen.abort_takes = max(0, now - job.stop_at)
                self._leavings.setdefault(job.policy.key, []).append(seen.abort_takes)
        elif fact.outcome == "exited" and job.started_at:
            known = seen.ends.get(fact.attempt)
            if known is None:
                seen.ends[fact.attempt] = (seen.done_before + ran, fact.exit_code or 0)
                seen.left_at[fact.attempt] = now
                self._runs.setdefault((*job.policy.key, job.profile), []).append(seen.done_before + ran)
            elif fact.exit_code and not known[1]:
                seen.ends[fact.attempt] = (known[0], fact.exit_code)

    def close(self, state: State) -> None:
        """All is noted; `state` is the fold at the end."""
        for job in state.jobs.values():
            if job.started_at and not job.ended_at:
                seen = self._of(job)
                seen.lasted = max(seen.lasted, seen.done_before + _ran(job, state.now))

    def came(self) -> list[f.JobAdmittedV1]:
        """Return the submitted jobs."""
        return [fact for moment in self.moments for fact in moment.stated if isinstance(fact, f.JobAdmittedV1)]

    def elements(self, array: str) -> list[str]:
        """Return the keys of an array's elements that have run."""
        return [key for key in self._seen if array_of(key) == array]

    def left_at(self, job: str, attempt: int) -> int | None:
        """Return when an attempt really ended by itself."""
        seen = self._seen.get(job)
        return None if seen is None else seen.left_at.get(attempt)

    def behaviour(self, job: str, queue: Queue, terms: PreemptionTerms, duration: int | None) -> Submit:
        """Return a job's behaviour as far as recorded; otherwise by other jobs of its policy, its `terms`, and `duration`."""
        seen = self._seen.get(job, _NOTHING)
        grace = terms.callback_grace + terms.term_grace
        leavings = self._leavings.get(queue[:2], ())
        takes = seen.abort_takes if seen.abort_takes is not None else sum(leavings) // len(leavings) if leavings else grace
        return Submit(
            name="job",
            queue="/".join(queue[1:]),
            duration=duration,
            abort_takes=min(takes, grace),
            checkpoint_every=max(SECOND, seen.worked // seen.saved) if seen.saved and seen.worked else None,
            saves_on_abort=seen.saves_on_abort,
            ends=tuple(seen.ends[attempt] for attempt in sorted(seen.ends)),
        )

    def usual(self, queue: Queue, job: str, so_far: int = 0) -> int | None:
        """Return the mean of a queue's runs that lasted longer than the job did, and than `so_far`; None without such runs.

        Call it when all is noted.
        """
        so_far = max(so_far, self._seen.get(job, _NOTHING).lasted)
        runs, sums = self._runs.get(queue, []), self._sums.get(queue)
        if sums is None:
            runs.sort()
            sums = self._sums[queue] = [*accumulate(runs, initial=0)]
        first = bisect_right(runs, so_far)
        return (sums[-1] - sums[first]) // (len(runs) - first) if first < len(runs) else None


_NOTHING = _Seen()


def _ran(job: JobRecord, now: int) -> int:
    """Return how long its attempt has run so far, without suspensions."""
    return max(0, now - job.started_at - job.paused) if job.started_at else 0


class KnownEnds(ExpectedEnds):
    """Expected ends of jobs when the later inputs are known as well."""

    def __init__(self, state: State, now: int, came: RecordedInputs) -> None:
        super().__init__(state, now)
        self._came = came

    def of(self, holder: JobRecord) -> int | None:
        """Return when a job that holds leases will be gone."""
        really = self._came.left_at(holder.key, holder.attempt)
        return super().of(holder) if really is None else really

    def span(self, job: JobRecord, so_far: int = 0) -> int | None:
        """Return how long a run of the job lasts."""
        if job.time_limit is not None:
            return job.time_limit
        queue = (*job.policy.key, job.profile)
        usual = self._came.usual(queue, job.key, so_far)
        if usual is None:
            return super().span(job, so_far)
        self.by_history = True
        return usual
