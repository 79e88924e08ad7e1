"""Keeps units for jobs that have waited too long (R16), and orders candidates around these holds (R18).

Strategy: a pool has few holds. Between holders, in the order of their rank, candidates see the same: holds of better-ranked holders are
reserved, those of lower-ranked ones are free. So a pool is searched in stages, up to the first in which a candidate fits whose rank is not
after the next holder's. Kept units are lent to a job that ends, by its time limit and grace, before they are needed: at each stage
candidates that see fewer holds for that reason are tried as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.request_bitsets import bits_of
from headrace.contracts import facts as f
from headrace.domain.backfill.backfill_placement import still_awaited
from headrace.domain.backfill.hold_policy import ends_at, is_still_kept, keep_of, places_to_keep
from headrace.domain.backfill.holds import HOLDS_MAX, withhold
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.model.preemption_state import Hold
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from headrace.allocator.candidate_index import CandidateIndex
    from headrace.allocator.feasibility_cache import FeasibilityCache
    from headrace.allocator.pool_queue import PoolQueue
    from headrace.allocator.request_classes import PoolCandidates
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


RESTING_MAX = 8
"""Maximum requests of resting heads tried per pool and round, the best-ranked first: it bounds the cost of a round (R16)."""


class HoldPlacement:
    """New holds of one pool, best first, for heads that have waited longer than the pool's `backfill_for`.

    A job that fits anywhere waits for its turn, not for units. Units are kept for it in the first pool of its order in which it has waited
    long enough and suitable units exist.
    """

    def __init__(
        self,
        state: State,
        index: CandidateIndex,
        feasibility: FeasibilityCache,
        queue: PoolQueue,
        now: int,
        skip: AbstractSet[str],
    ) -> None:
        self._state = state
        self._index = index
        self._feasibility = feasibility
        self._queue = queue
        self._now = now
        self._skip = skip
        self._tried: set[tuple[PoolCandidates, int]] = set()
        self._infeasible = self._infeasible_at_rest = self._looked_at = 0

    def next(self) -> Hold | None:
        """The hold of the best-ranked head with suitable units; None without one, or if enough is kept here."""
        queue, backfill = self._queue, self._queue.backfill
        while self._count() < HOLDS_MAX:
            resting = backfill.resting if self._looked_at < RESTING_MAX and self._may_be_sure() else 0
            best = queue.best(backfill.due | resting, self._allowed)
            if best is None:
                return None
            self._tried.add((best.candidates, best.number))
            self._looked_at += not best.candidates.due >> best.number & 1
            if any(self._places(earlier, best.number) for earlier in best.candidates.earlier):
                continue  # its units are kept there
            places = self._places(best.candidates, best.number)
            if places is not None:
                return Hold(best.job, queue.name, places, self._now)
            self._note_infeasible(best.candidates, 1 << best.number)
        return None

    def _note_infeasible(self, candidates: PoolCandidates, bit: int) -> None:
        """Remember that lower-ranked heads with the same request find nothing either, unless they may take something back themselves."""
        if candidates.asking & bit:
            return
        if candidates.due & bit:
            self._infeasible |= bit
        self._infeasible_at_rest |= bit

    def _known_infeasible(self, candidates: PoolCandidates) -> int:
        return (self._infeasible | (self._infeasible_at_rest & ~candidates.due)) & ~candidates.asking

    def _count(self) -> int:
        pool_holds = self._feasibility.pool_holds.get(self._queue.name)
        return 0 if pool_holds is None else len(pool_holds)

    def _may_be_sure(self) -> bool:
        """True if the end of anything is certain: something has a time limit or a ladder, or may be taken back by a job here."""
        return bool(self._state.ends.moments or self._queue.asking)

    def _allowed(self, candidates: PoolCandidates, requests: int) -> int:
        resting = candidates.resting if self._looked_at < RESTING_MAX else 0
        requests &= (candidates.due | resting) & ~self._known_infeasible(candidates)
        for number in bits_of(requests):
            key = candidates.pending_class.heads[number][1].key
            if (
                (candidates, number) in self._tried
                or key in self._skip
                or self._has_hold(key)
                or self._has_room(candidates, number)
            ):
                requests &= ~(1 << number)
        return requests

    def _has_hold(self, key: str) -> bool:
        return any(pool_holds.has(key) for pool_holds in self._feasibility.pool_holds.values())

    def _has_room(self, candidates: PoolCandidates, number: int) -> bool:
        return any(self._feasibility.room(other, 1 << number) for other in candidates.pending_class.pool_candidates)

    def _places(self, candidates: PoolCandidates, number: int) -> tuple[Place, ...] | None:
        """The places to keep for the head of a request in a pool, at its stage; None if it is not due, or no places suit it."""
        queue, bit = candidates.queue, 1 << number
        if not (candidates.due | candidates.resting) & (candidates.inside | candidates.borrowing) & bit:
            return None
        stage = self._feasibility.show_to(candidates, number)
        pool, job = queue.pool, candidates.pending_class.heads[number][1]
        seen: tuple[object, ...] = pool.openings, self._state.documents_sequence, self._feasibility.kept(queue, stage)
        asked = queue.name, number, bool(candidates.due & bit)
        if not candidates.due & bit:
            seen = *seen, pool.epoch, candidates.asking & bit and candidates.pending_class.policy.key
        is_as_found = queue.name not in self._feasibility.lifted
        if is_as_found and self._index.infeasible.get(asked) == seen:
            return None
        places = places_to_keep(self._state, job, pool, self._now)
        if places is None and is_as_found:
            self._index.infeasible[asked] = seen
        return places
