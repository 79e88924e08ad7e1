"""Jobs for which victims are searched (R19, R23): the best-ranked job that does not fit but might take something back.

Before free units of a pool are granted, it is checked whether a better-ranked job might take something back there: then a search opens for
that job, and the free units are kept for it in the same round, as they are while the search is under way (R19).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.request_bitsets import EVERY, bits_of
from headrace.contracts import facts as f
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.preemption.eligibility import causes, first_that_may_take
from headrace.domain.queueing.ranking import rank_of_group
from headrace.domain.state.search_backoff import is_backing_off, is_worthwhile, was_searched
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from headrace.allocator.candidate_index import CandidateIndex
    from headrace.allocator.feasibility_cache import FeasibilityCache
    from headrace.allocator.pool_queue import PoolQueue
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


class ReclaimRequests:
    """The searches that one round opens, at log time `now`. `skip`: jobs that this record settles.

    `_first`: jobs for which a pool's free units are kept in this round before a search is stated. `_none_before`: the state of a pool when
    no such job ranked before some rank.
    """

    def __init__(
        self, state: State, index: CandidateIndex, feasibility: FeasibilityCache, now: int, skip: AbstractSet[str]
    ) -> None:
        self._amended = state.terms.amended
        self._index = index
        self._feasibility = feasibility
        self._now = now
        self._skip = skip
        self._first: dict[str, JobRecord] = {}
        self._none_before: dict[str, tuple[tuple[int, int], Rank]] = {}
        self._opened: dict[str, JobRecord] = {}

    def waits_for(self, earlier: PoolCandidates, requests: int) -> int:
        """The requests of a class that wait for a pool of their order, in which they do not fit, before they go to a later one.

        A search for them is under way there; or they may take back there, and their profile prefers that to a spill (R19).
        """
        found, search, pending_class = 0, earlier.queue.pool.search, earlier.pending_class
        if search is not None:
            for number in bits_of(requests & earlier.asking):
                if pending_class.heads[number][1] is search.job:
                    found |= 1 << number
        if not pending_class.reclaims_first:
            return found
        if self._amended:
            return found | self._could_find(earlier, requests & earlier.reclaiming & self._reclaims(earlier))
        return found if search is not None else self._could_find(earlier, requests & earlier.asking & earlier.inside)

    def _able(self, candidates: PoolCandidates) -> int:
        """Requests for which at least one possible victim exists (R23, R24)."""
        if not self._amended:
            return EVERY
        policy, queue, mask = candidates.pending_class.policy, candidates.queue, candidates.mask
        return self._reclaims(candidates) | (mask.lower if mask.lower and queue.lends_within(policy) else 0)

    def _reclaims(self, candidates: PoolCandidates) -> int:
        """Requests for which a possible victim exists by their reservation."""
        policy, queue, mask = candidates.pending_class.policy, candidates.queue, candidates.mask
        found = mask.within if mask.within and queue.lends_within(policy) else 0
        return found | mask.across if mask.across & ~found and queue.lends_across(policy) else found

    def _could_find(self, candidates: PoolCandidates, requests: int) -> int:
        """Those of `requests` for whose head a search might find victims."""
        if not requests or not self._is_lent_to(candidates):
            return 0
        found, pool = 0, candidates.queue.pool
        for number in bits_of(requests):
            if is_worthwhile(pool, candidates.pending_class.heads[number][1], self._now):
                found |= 1 << number
        return found

    def _is_lent_to(self, candidates: PoolCandidates) -> bool:
        queue, policy = candidates.queue, candidates.pending_class.policy
        return queue.lends_within(policy) or queue.lends_across(policy)

    def job_in(self, queue: PoolQueue) -> JobRecord | None:
        """The job for which the pool's free units are kept: a search is under way, or this round opens one."""
        return self._first.get(queue.name) if queue.pool.search is None else queue.pool.search.job

    def keeps_from(self, queue: PoolQueue, rank: Rank) -> bool:
        """True if a job of this rank must not take the pool's free units, because they are kept for a better-ranked one (R19)."""
        job = self.job_in(queue)
        if job is None:
            first = self._first_of(queue, rank)
            if first is None or not first[0] < rank:
                return False
            self._first[queue.name] = first[1]
            return True
        found = self._index.candidates_of(job, queue.name)
        if found is None:
            return False
        candidates, number = found
        return rank > candidates.rank(number, place_in_line(job))

    def _first_of(self, queue: PoolQueue, rank: Rank) -> tuple[Rank, JobRecord] | None:
        """The best-ranked job that does not fit but might reclaim in the pool; None if no such job ranks before `rank`."""
        if not self._amended or not queue.asking:
            return None
        seen = self._feasibility.moves, queue.lendings
        none_before = self._none_before.get(queue.name)
        if none_before is not None and none_before[0] == seen and rank <= none_before[1]:
            return None
        best = self._best(queue, before=rank)
        if best is None:
            self._none_before[queue.name] = seen, rank
        return best

    def open(self, queue: PoolQueue) -> None:
        """After the last grant: open a search for the best-ranked job that does not fit, one for each pool at a time."""
        if queue.pool.search is None and queue.asking:
            best = self._best(queue)
            if best is not None:
                self._opened[queue.name] = best[1]

    def _best(self, queue: PoolQueue, before: Rank | None = None) -> tuple[Rank, JobRecord] | None:
        """The best-ranked job that does not fit but might take something back; with `before`, among those who rank before that.

        A job searches in one pool after the other, in its order. While the pool backs off from failed searches, only requests that were
        never searched for are tried. With `before` further grants may follow, so jobs that fit elsewhere are skipped.
        """
        pool, bound = queue.pool, None if before is None else before[:4]
        resting = is_backing_off(pool, self._now)
        sure = self._feasibility.surely_fits(queue)
        best: tuple[Rank, JobRecord] | None = None
        if resting and before is None:
            self._forget_searched(queue)
        for candidates in queue.fresh if resting else queue.asking:
            asking, mask = candidates.asking, candidates.mask
            if not asking & ~(sure & mask.ready):
                continue
            if bound is not None and rank_of_group(candidates.static, 0, inside=bool(asking & mask.fits))[:4] > bound:
                continue
            able = asking & self._able(candidates)
            unplaceable = able & ~self._feasibility.placeable(candidates, able & candidates.mask.ready) if able else 0
            if not unplaceable or not self._is_lent_to(candidates):
                continue
            for number in bits_of(unplaceable):
                job = candidates.pending_class.heads[number][1]
                if job.key in self._skip or (resting and was_searched(pool, job)) or not is_worthwhile(pool, job, self._now):
                    continue
                rank = candidates.rank(number)
                if (best is not None and best[0] < rank) or (before is not None and not rank < before):
                    continue
                if not self._searches_before(candidates, number) and (
                    before is None or not self._fits_in_other_pool(candidates, number)
                ):
                    best = rank, job
        return best

    @staticmethod
    def _forget_searched(queue: PoolQueue) -> None:
        """Remove candidates all of whose requests have been searched for from the fresh ones."""
        for candidates in list(queue.fresh):
            if all(
                was_searched(queue.pool, candidates.pending_class.heads[number][1]) for number in bits_of(candidates.asking)
            ):
                del queue.fresh[candidates]

    def _searches_before(self, candidates: PoolCandidates, number: int) -> bool:
        """True if the job searches in an earlier pool of its order first, or a search is under way there."""
        return any(self._searches_in(earlier, number) for earlier in candidates.earlier)

    def _searches_in(self, candidates: PoolCandidates, number: int) -> bool:
        bit, search = 1 << number, candidates.queue.pool.search
        asks = candidates.asking & (EVERY if self._amended else candidates.inside | candidates.borrowing)
        if not asks & bit:
            return False
        if search is not None and search.job is candidates.pending_class.heads[number][1]:
            return True
        if search is not None and not self._amended:
            return False
        return bool(self._could_find(candidates, bit & self._able(candidates)))

    def _fits_in_other_pool(self, candidates: PoolCandidates, number: int) -> bool:
        """True if the job fits in a pool that it prefers to waiting for victims here."""
        waits_here = candidates.pending_class.reclaims_first and bool(
            (candidates.reclaiming & self._reclaims(candidates)) >> number & 1
        )
        others = (
            candidates.earlier
            if waits_here
            else [other for other in candidates.pending_class.pool_candidates if other is not candidates]
        )
        return any(self._feasibility.grantable(other, 1 << number) for other in others)

    def facts(self, state: State) -> list[f.ReclaimOpenedV1]:
        """The facts to state, pools by name; the scopes are as they were before the round.

        Of a job that asks for GPU memory the cause is that of the first of its shares with one (R42): victims are looked for with all.
        """
        opened = ((name, job, _cause(state, job, state.pools[name])) for name, job in sorted(self._opened.items()))
        return [f.ReclaimOpenedV1(job=job.key, pool=name, cause=cause) for name, job, cause in opened if cause]


def _cause(state: State, job: JobRecord, pool: PoolState) -> str:
    """By which cause a search is opened; empty: none, after all."""
    with Trial(state) as trial:
        trial.choose(job, first_that_may_take(state, job, (pool,)) or job.request)
        return next(iter(causes(state, job, pool)), "")
