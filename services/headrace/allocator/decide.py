"""One round of the allocator: the facts to state now, given the ledger so far. Pure.

Naive meaning: settle events of jobs; judge proposals; end holds and nominations that are over; then grant until nothing more fits.
Two departures. Orders and their ends change free capacity, and learnt mixes change which place is best, in ways that grants of the same
round would have to consider, so if there are any, grants wait for the next round, which follows at once; and so do grants to waiting jobs
while a job is being requeued, which may rank first. And pending jobs are reviewed (R10) only when documents or hardware have changed since
the last review, or a job was admitted that was judged before that change; another review would find nothing. So are the GPU models that
they may be given (R42, R43); a job that is matched anew is granted nothing in the same round.
"""

from __future__ import annotations

from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.allocator.array_lines import unstarted_of
from headrace.allocator.candidate_index import CandidateIndex
from headrace.allocator.demand_mix import DemandLearning
from headrace.allocator.granting import grant
from headrace.allocator.job_lifecycle import due_transitions, next_check, set_aside
from headrace.allocator.maintenance import MaintenanceTurns
from headrace.allocator.matching import match_pending
from headrace.allocator.pending_review import review_pending
from headrace.allocator.proposals import SEARCH_MAX, end_nominations, judge_proposals, nomination_end
from headrace.allocator.scale_up import ask_for_growth, end_growth, next_growth
from headrace.allocator.windows_budgets import Gates
from headrace.contracts.facts import JobDismissedV1, JobEndedV1, JobMatchedV1, JobRequeuedV1, LeaseRevokedV1, StopOrderedV1
from headrace.domain.backfill.hold_policy import next_turn
from headrace.domain.fold.record_size import RecordCapacity
from headrace.domain.model.job_states import JobState
from headrace.domain.state.search_backoff import next_worthwhile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.facts import AnyFact
    from headrace.domain.state.state import State

SETTLED_MAX = 500
"""Maximum facts that settle jobs in one record: half of it, so that it has space for grants too."""

_search_of = attrgetter("search")
_WAITS = (JobState.PENDING, JobState.SUSPENDED)
_ABOUT_A_JOB = (JobDismissedV1, JobEndedV1, JobRequeuedV1, LeaseRevokedV1, StopOrderedV1)


class Allocator:
    """The rules of the allocator over one state. Its own attributes are caches: losing them costs time only.

    `reviewed`: the documents for which pending jobs were reviewed; `looked_at`: the time of the last round, up to which time alone changes
    nothing.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.reviewed = -1
        self.looked_at = 0
        self.index = CandidateIndex(state)
        self.learning = DemandLearning()
        self.gates = Gates(state)
        self.maintenance = MaintenanceTurns(state)

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """The facts to state at log time `now`; may be empty."""
        state, record, self.looked_at = self.state, RecordCapacity(), now
        first = self._before_grants(now, record)
        if first:
            return first
        settled: list[AnyFact] = []
        for unit in due_transitions(state, now):
            if len(settled) + len(unit) > SETTLED_MAX or not record.takes(unit):
                break  # the next record has space for it, and it is not split
            settled += unit
        skip = {fact.job for fact in settled if isinstance(fact, _ABOUT_A_JOB)}
        matched: list[JobMatchedV1] = []
        if self.reviewed != state.documents_sequence and len(settled) < SETTLED_MAX:
            due: list[JobDismissedV1 | JobMatchedV1] = [fact for fact in review_pending(state) if fact.job not in skip]
            gone = skip.union(fact.job for fact in due)
            matched += [fact for fact in match_pending(state) if fact.job not in gone]
            due += matched
            news = list(record.fill(islice(due, SETTLED_MAX - len(settled))))
            if not news:
                self.reviewed = state.documents_sequence
            settled += news
            skip |= {fact.job for fact in news} | {fact.job for fact in matched}
        if state.arrays:
            skip |= unstarted_of(state, (*settled, *matched))
        if state.cancels:
            skip |= {key for key, job in state.cancels.items() if job.state in _WAITS}  # those that the next record ends
        line_stands = JobRequeuedV1 not in map(type, settled)
        facts = (*settled, *grant(state, self.index, now, skip, record, in_line=line_stands))
        if facts or not any(pool.document.burst for pool in state.pools.values()):
            return facts
        return tuple(record.fill(ask_for_growth(state, now)))

    def _before_grants(self, now: int, record: RecordCapacity) -> tuple[AnyFact, ...]:
        """Facts that grants have to wait for: gates, orders, learnt mixes."""
        state = self.state
        if self.maintenance and (turns := tuple(record.fill(self.maintenance.changes(now)))):
            return turns
        if state.terms.timed and (gates := tuple(record.fill(self.gates.changes(now)))):
            return gates
        orders = tuple(judge_proposals(state, now, record)) if any(map(_search_of, state.pools.values())) else ()
        if state.preemptions or state.refusing or state.set_aside or state.terms.growths:
            news: Iterable[AnyFact] = chain(end_nominations(state, now), set_aside(state, now), end_growth(state, now))
            orders += tuple(record.fill(news))
        if orders:
            return orders
        learned = self.learning.news(state)
        return tuple(record.fill(learned)) if learned else ()

    def next_wakeup(self) -> int | None:
        """Log time after the last round at which facts are due without new records (R34)."""
        state, looked_at = self.state, max(self.state.now, self.looked_at)
        moments = [state.deadlines.next(looked_at), state.pending.next_due()]
        moments += [self.gates.next_change(looked_at), self.index.next_due(looked_at)]
        moments += [pool.search.opened_at + SEARCH_MAX for pool in state.pools.values() if pool.search is not None]
        moments += [next_worthwhile(pool, looked_at) for pool in state.pools.values()]
        moments += [next_growth(state, looked_at), next_check(state)]
        moments += [self.maintenance.next_change(looked_at)] if self.maintenance else []
        moments += [until for job in state.suspended.values() for until in job.avoids.values()]
        moments += [next_turn(state, hold, looked_at) for hold in state.holds.values()]
        moments += [nomination_end(state, preemption) for preemption in state.preemptions.values() if preemption.kept]
        return min((moment for moment in moments if moment is not None and moment > looked_at), default=None)
