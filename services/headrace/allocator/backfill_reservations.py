"""Keeps units for jobs that have waited too long (R16), and orders candidates around these holds (R18).

Strategy: a pool has few holds. Between holders, in the order of their rank, candidates see the same: holds of better-ranked holders are
reserved, those of lower-ranked ones are free. So a pool is searched in stages, up to the first in which a candidate fits whose rank is not
after the next holder's. Kept units are lent to a job that ends, by its time limit and grace, before they are needed: at each stage
candidates that see fewer holds for that reason are tried as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.domain.backfill.backfill_placement import still_awaited
from headrace.domain.backfill.hold_policy import ends_at, is_still_kept, keep_of
from headrace.domain.backfill.holds import withhold
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.model.preemption_state import Hold
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from headrace.allocator.candidate_index import CandidateIndex
    from headrace.allocator.pool_queue import PoolQueue
    from headrace.contracts.facts.fact import Place
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.state import State

Stage = tuple[str, ...]
"""The jobs whose holds are reserved, in the order of their rank."""


class PoolHolds:
    """The holds of one pool during one round, and those of them that are reserved now."""

    def __init__(self, state: State, index: CandidateIndex, queue: PoolQueue, now: int) -> None:
        self._state = state
        self._index = index
        self._queue = queue
        self._now = now
        self._holds: dict[str, Hold] = {}
        self._lent_until: dict[str, int] = {}
        self._out: dict[str, Trial] = {}

    def holders(self) -> list[tuple[Rank, str]]:
        """(rank, job) of the holders, best first."""
        ranked = []
        for key, hold in self._holds.items():
            found = self._index.candidates_of(hold.job, self._queue.name)
            if found is not None:
                candidates, number = found
                ranked.append((candidates.rank(number, place_in_line(hold.job)), key))
        return sorted(ranked)

    def before(self, rank: Rank) -> Stage:
        """The holders that rank before this rank."""
        return tuple(key for theirs, key in self.holders() if theirs < rank)

    def stage_of(self, rank: Rank, job: JobRecord) -> Stage:
        """Holds that are reserved against a job of this rank now: those of better-ranked holders that are not lent to it."""
        return self.not_lent(self.before(rank), ends_at(self._state, job, self._now))

    def not_lent(self, stage: Stage, end: int | None) -> Stage:
        """Those of these holds that are reserved against a job that ends by `end`; None: its end is unknown."""
        return stage if end is None else tuple(key for key in stage if self.lent_until(key) < end)

    def lent_until(self, key: str) -> int:
        """Time by which a borrower of the job's hold must have ended."""
        known = self._lent_until.get(key)
        if known is None:
            known = self._lent_until[key] = keep_of(self._state, self._holds[key], self._now).lent_until
        return known

    def loans(self, stage: Stage) -> list[int]:
        """The times up to which these holds are lent, ascending; empty if no head here has a time limit."""
        if not self._queue.backfill.has_limited:
            return []
        return sorted({until for key in stage if (until := self.lent_until(key)) > self._now})

    def show(self, stage: Stage) -> None:
        """Reserve the holds of these jobs, and release all others."""
        for key in [key for key in self._out if key not in stage]:
            self._out.pop(key).undo()
        for key in stage:
            if key not in self._out:
                self._out[key] = withhold(Trial(self._state), self._queue.pool, self._holds[key])

    def end(self, key: str) -> None:
        """Remove the hold of a job that has started, or whose hold was lifted."""
        if key in self._out:
            self._out.pop(key).undo()
        self._holds.pop(key, None)

    def add(self, hold: Hold) -> None:
        self._holds[hold.job.key] = hold
        self._lent_until.pop(hold.job.key, None)

    def places(self, stage: Stage) -> tuple[tuple[Place, ...], ...]:
        """The places reserved at a stage."""
        return tuple(self._holds[key].places for key in stage)

    def has(self, key: str) -> bool:
        """True if the job has a hold here."""
        return key in self._holds

    def __len__(self) -> int:
        return len(self._holds)


def lapsed(state: State, index: CandidateIndex, now: int, skip: AbstractSet[str]) -> Iterator[f.HoldLiftedV1]:
    """Facts that lift holds: the job may not start there any more, a place is unusable, or the end of what occupies it is unknown."""
    for hold in list(state.holds.values()):
        why = "" if hold.job.key in skip else _why_over(state, index, hold, now)
        if why:
            yield f.HoldLiftedV1(job=hold.job.key, pool=hold.pool, why=why)


def _why_over(state: State, index: CandidateIndex, hold: Hold, now: int) -> str:
    found = index.candidates_of(hold.job, hold.pool)
    if found is None:
        return "it does not wait there any more"
    candidates, number = found
    if not (candidates.inside | candidates.borrowing) >> number & 1:
        return "its own limit or reservation is in its way"
    if any(place.node in hold.job.avoiding for place in hold.places):
        return "it is kept away from a node of it"
    if is_still_kept(state, hold, now):
        return ""
    if still_awaited(state.pools[hold.pool], hold.places):
        return "nothing says when what is in its way ends, and the time for which units are kept is over"
    return "a place of it has become unusable, or is held by what will not end"
