"""New holds of a pool (R16), and for which heads they are looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.request_bitsets import bits_of
from headrace.domain.backfill.hold_policy import places_to_keep
from headrace.domain.backfill.holds import HOLDS_MAX
from headrace.domain.model.preemption_state import Hold

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from headrace.allocator.candidate_index import CandidateIndex
    from headrace.allocator.feasibility_cache import FeasibilityCache
    from headrace.allocator.pool_queue import PoolQueue
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.contracts.facts.fact import Place
    from headrace.domain.state.state import State

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
                or self._is_grantable(candidates, number)
            ):
                requests &= ~(1 << number)
        return requests

    def _has_hold(self, key: str) -> bool:
        return any(pool_holds.has(key) for pool_holds in self._feasibility.pool_holds.values())

    def _is_grantable(self, candidates: PoolCandidates, number: int) -> bool:
        return any(self._feasibility.grantable(other, 1 << number) for other in candidates.pending_class.pool_candidates)

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
