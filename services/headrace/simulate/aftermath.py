"""What really came after a moment of the ledger, to be played again under other circumstances. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.domain.state import JobState
from headrace.domain.why.ends import Ends
from headrace.simulate.scenario import Moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.contracts.records import Record
    from headrace.domain.state import JobRecord, State


STATED = (f.JobAdmittedV1, f.JobCancelRequestedV1, f.JobRequeueRequestedV1)


class Aftermath:
    """Jobs that came and wishes about them, by `moments` since `start` (log time), and how long each job's last attempt ran, if it is over.

    What administrators wrote and what became of nodes is left out: that is what is to be otherwise.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.moments: list[Moment] = []
        self.runs: dict[str, int] = {}

    def note(self, record: Record, state: State) -> None:
        """One more record, and the fold of all up to it."""
        stated = tuple(fact for fact in record.facts if isinstance(fact, STATED))
        if stated:
            self.moments.append(Moment(at=max(0, state.now - self.start), stated=stated))
        for fact in record.facts:
            job = state.jobs.get(fact.job) if isinstance(fact, f.JobEndedV1) else None
            if job is not None and job.state in (JobState.SUCCEEDED, JobState.FAILED) and job.attempts[-1].started_at:
                self.runs[job.key] = job.ended_at - job.attempts[-1].started_at

    def came(self) -> list[f.JobAdmittedV1]:
        """The jobs that came."""
        return [fact for moment in self.moments for fact in moment.stated if isinstance(fact, f.JobAdmittedV1)]


class KnownEnds(Ends):
    """What is known about ends where, of some jobs, it is known how long they really ran."""

    def __init__(self, state: State, now: int, known: Mapping[str, int]) -> None:
        super().__init__(state, now)
        self._known = known

    def span(self, job: JobRecord, so_far: int = 0) -> int | None:
        """How long a run of the job lasts."""
        known = self._known.get(job.key)
        return super().span(job, so_far) if known is None else known
