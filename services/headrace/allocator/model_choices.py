"""With which of their shares jobs that ask for GPU memory stand in line, within one round (R42).

Strategy: within a round less and less is free, so a share with which a job cannot be granted now is not tried again: each group of jobs
goes through its shares once. When none is left it stands with the first one with which it may take something back, so that a search
opens for it and what is free is kept for it (R19); else with the first of all, as between rounds. All of it is on trial.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.domain.preemption.eligibility import first_that_may_take
from headrace.domain.queueing.admissible import open_pools

if TYPE_CHECKING:
    from headrace.allocator.candidate_index import CandidateIndex
    from headrace.allocator.feasibility_cache import FeasibilityCache
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.requests import Request
    from headrace.domain.state.state import State
    from headrace.domain.state.trial import Trial


class ModelChoicesInLine:
    """The groups of jobs with several shares, and how many of their shares have been tried in this round."""

    def __init__(self, state: State, trial: Trial, index: CandidateIndex, feasibility: FeasibilityCache) -> None:
        self._state = state
        self._trial = trial
        self._index = index
        self._feasibility = feasibility
        self._tried = dict.fromkeys(state.pending.choosing, 0)

    def advance(self, *, may_take: bool) -> None:
        """Each group stands with the first of its shares with which its next job can be granted now.

        Where it can with no share: with `may_take` with the first with which it may take something back; else with the first of all, for
        which units are kept (R16).
        """
        for group in self._tried:
            choices = group.request.each
            while self._tried[group] < len(choices):
                self._stand(group, choices[self._tried[group]])
                if self._can_be_granted(group):
                    break
                self._tried[group] += 1
            else:
                self._stand(group, (self._first_that_may_take(group) if may_take else None) or choices[0])

    def _first_that_may_take(self, group: JobGroup) -> Request | None:
        head, profile = group.head(), self._state.profile(group.policy.document.tenant, group.profile)
        if head is None or profile is None:
            return None
        return first_that_may_take(self._state, head, open_pools(self._state, group.policy, profile))

    def _can_be_granted(self, group: JobGroup) -> bool:
        candidates, number = self._index.standing(group)
        return any(self._feasibility.grantable(one, 1 << number) for one in candidates)

    def _stand(self, group: JobGroup, request: Request) -> None:
        head = group.head()
        if head is not None and head.request is not request:
            self._trial.note(partial(_set_request, head, head.request))
            _set_request(head, request)
        if group.request is not request:
            self._trial.note(partial(self._index.restate, group, group.request, -1))
            self._index.restate(group, request, 1)
            self._index.refresh()
            self._feasibility.renewed()


def _set_request(job: JobRecord, request: Request) -> None:
    job.request = request
