"""When jobs that hold something will be gone: by their time limit, or by how long others of their queue have run. Pure."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from headrace.domain.model.job_states import JobState

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State

RUNS_LOOKED_AT = 2_000
"""The last ended jobs from which run times are taken; the fold keeps them for an hour (R14)."""

Queue = tuple[str, str, str]
"""(tenant, policy, profile)."""


class ExpectedEnds:
    """What is known about ends at log time `now`. `by_history` says whether any answer so far rests on how long others have run."""

    def __init__(self, state: State, now: int) -> None:
        self.by_history = False
        self._state = state
        self._now = now
        self._runs: dict[Queue, list[int]] | None = None

    def of(self, holder: JobRecord) -> int | None:
        """When a job that holds leases will be gone at the latest; None if unknown."""
        if any(lease.overdue for lease in holder.leases.values()):
            return None
        if holder.state is JobState.STOPPING and holder.stop is not None:
            return max(self._now, holder.stop_at + holder.stop.callback_grace + holder.stop.term_grace)
        if not holder.started_at or holder.state is JobState.SUSPENDED:
            return None
        since = holder.started_at + holder.paused
        span = self.span(holder, self._now - since)
        return None if span is None else max(self._now, since + span)

    def span(self, job: JobRecord, so_far: int = 0) -> int | None:
        """How long a run of the job lasts: its time limit, else the mean of its queue's runs that lasted longer than `so_far`."""
        if job.time_limit is not None:
            return job.time_limit
        longer = [span for span in self._history().get(_queue(job), ()) if span > so_far]
        if not longer:
            return None
        self.by_history = True
        return sum(longer) // len(longer)

    def _history(self) -> dict[Queue, list[int]]:
        """Run times of the last runs that ended by themselves, by queue."""
        if self._runs is None:
            self._runs = {}
            for job in islice(reversed(self._state.ended), RUNS_LOOKED_AT):
                last = job.attempts[-1] if job.attempts else None
                if last is not None and last.started_at and job.state in (JobState.SUCCEEDED, JobState.FAILED):
                    self._runs.setdefault(_queue(job), []).append(job.ended_at - last.started_at)
        return self._runs


def _queue(job: JobRecord) -> Queue:
    return (*job.policy.key, job.profile)
