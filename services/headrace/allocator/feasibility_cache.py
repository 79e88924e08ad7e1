"""Requests that fit in each pool during one round, with the holds for better-ranked jobs (R16, R18).

Strategy: the feasible requests are one set for each pool and stage (`backfill_reservations`), computed on demand and kept until a grant in
the pool. Within a round use only grows and free amounts only shrink, so a request that did not fit is not tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.backfill_reservations import PoolHolds
from headrace.allocator.request_bitsets import bits_of
from headrace.domain.backfill.hold_policy import ends_at
from headrace.domain.placement.placement import find_places

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.allocator.backfill_reservations import Stage
    from headrace.allocator.candidate_index import CandidateIndex
    from headrace.allocator.pool_queue import PoolCandidate, PoolQueue
    from headrace.allocator.pool_requests import PoolRequests
    from headrace.allocator.relocation import Found, Relocation
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.allocator.suspend_resume import Resumption
    from headrace.contracts.facts.fact import Place
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


class FeasibilityCache:
    """The pools during one round. `moves` counts changes after which a pool without a candidate might have one.

    `lifted`: pools in which a preemptor has started in this round, so that units nominated for it may be free.
    """

    def __init__(self, state: State, index: CandidateIndex, now: int) -> None:
        self.pool_holds: dict[str, PoolHolds] = {}
        self.lifted: set[str] = set()
        self.moves = 0
        self._state = state
        self._index = index
        self._now = now
        self._seen = -1
        self._fits: dict[str, dict[Stage, int]] = {}
        self._whole: set[tuple[str, Stage, int]] = set()
        self._failed: dict[str, list[tuple[frozenset[str], int]]] = {}

    def keep(self, hold: Hold, queue: PoolQueue) -> None:
        """Reserve the places of the hold against jobs that rank below its job."""
        pool_holds = self.pool_holds.get(queue.name)
        if pool_holds is None:
            pool_holds = self.pool_holds[queue.name] = PoolHolds(self._state, self._index, queue, self._now)
        pool_holds.add(hold)
        self._fits.pop(queue.name, None)

    def fits(self, queue: PoolRequests, stage: Stage = ()) -> int:
        """Requests with one replica that could be placed in the pool now, as far as the pool's capacity goes."""
        known = self._fits.get(queue.name)
        if known is None:
            known = self._fits[queue.name] = {}
        fits = known.get(stage)
        if fits is None:
            self._show(queue, stage)
            fits = queue.ceiling.read(self._index.needs)
            if fits:
                fits &= queue.placeable()
            if self._failed:
                for kept, number in self._failed.get(queue.name, ()):
                    if kept.issubset(stage):
                        fits &= ~(1 << number)
            known[stage] = fits
        return fits

    def _show(self, queue: PoolRequests, stage: Stage) -> None:
        pool_holds = self.pool_holds.get(queue.name) if self.pool_holds else None
        if pool_holds is not None:
            pool_holds.show(stage)

    def show_to(self, candidates: PoolCandidates, number: int) -> Stage:
        """Apply the stage of a request's waiting head, to which nothing is lent; returns the stage."""
        pool_holds = self.pool_holds.get(candidates.queue.name)
        stage = () if pool_holds is None else pool_holds.before(candidates.rank(number))
        self._show(candidates.queue, stage)
        return stage

    def kept(self, queue: PoolRequests, stage: Stage) -> tuple[tuple[Place, ...], ...]:
        """The places reserved at a stage: the same jobs may hold others another time."""
        pool_holds = self.pool_holds.get(queue.name)
        return () if pool_holds is None else pool_holds.places(stage)

    def find(self, queue: PoolRequests, stage: Stage, job: JobRecord) -> tuple[Place, ...] | None:
        """Places for the job, at this stage."""
        self._show(queue, stage)
        return find_places(self._state, job, queue.pool)

    def best(self, queue: PoolQueue, allowed: Callable[[PoolCandidates, int], int]) -> tuple[PoolCandidate, Stage] | None:
        """The best-ranked candidate of a pool that fits, and its stage."""
        pool_holds = self.pool_holds.get(queue.name) if self.pool_holds else None
        if pool_holds is None:
            fits = self.fits(queue)
            best = queue.best(fits, allowed) if fits else None
            return None if best is None else (best, ())
        holders = pool_holds.holders()
        for length in range(len(holders) + 1):
            stage = tuple(key for _, key in holders[:length])
            best = self._best_at(queue, pool_holds, stage, allowed)
            if best is None:
                return None
            if length == len(holders) or best.rank <= holders[length][0]:
                return best, pool_holds.not_lent(stage, ends_at(self._state, best.job, self._now))
        return None

    def _best_at(
        self, queue: PoolQueue, pool_holds: PoolHolds, stage: Stage, allowed: Callable[[PoolCandidates, int], int]
    ) -> PoolCandidate | None:
        """The best-ranked candidate that fits beside these holds, or beside those of them that are not lent to it."""
        fits = self.fits(queue, stage)
        best = queue.best(fits, allowed)
        if not self.fits(queue) & ~fits:
            return best
        for until in pool_holds.loans(stage):
            more = self.fits(queue, pool_holds.not_lent(stage, until)) & ~fits
            if not more:
                continue
            found = queue.best(more, self._ended_by(until, allowed))
            if found is not None and (best is None or found.rank < best.rank):
                best = found
        return best

    def _ended_by(self, until: int, allowed: Callable[[PoolCandidates, int], int]) -> Callable[[PoolCandidates, int], int]:
        """As `allowed`, but only requests whose heads, if granted now, would have ended by `until`."""

        def ended(candidates: PoolCandidates, requests: int) -> int:
            for number in bits_of(requests):
                end = ends_at(self._state, candidates.pending_class.heads[number][1], self._now)
                if end is None or end > until:
                    requests &= ~(1 << number)
            return allowed(candidates, requests)

        return ended

    @staticmethod
    def _stage_of(pool_holds: PoolHolds, candidates: PoolCandidates, number: int) -> Stage:
        return pool_holds.stage_of(candidates.rank(number), candidates.pending_class.heads[number][1])

    def best_suspended(self, pool: PoolState, resumption: Resumption) -> tuple[Rank, JobRecord] | None:
        """The best-ranked suspended job that can be resumed in a pool beside the holds of better-ranked jobs (R29)."""
        pool_holds = self.pool_holds.get(pool.document.name)
        holders = pool_holds.holders() if pool_holds is not None else []
        for length in range(len(holders) + 1):
            if pool_holds is not None:
                pool_holds.show(tuple(key for _, key in holders[:length]))
            found = resumption.best(pool)
            if found is None or length == len(holders) or found[0] <= holders[length][0]:
                return found
        return None

    def best_moving(self, pool: PoolState, moving: Relocation, resumption: Resumption) -> Found | None:
        """The best-ranked suspended job that moves to a pool beside the holds of better-ranked jobs (R16, R29)."""

        def show(there: PoolState, rank: Rank) -> None:
            pool_holds = self.pool_holds.get(there.document.name)
            if pool_holds is not None:
                pool_holds.show(pool_holds.before(rank))

        def goes_on(job: JobRecord) -> bool:
            own = self._state.pools[next(iter(job.leases.values())).pool]
            pool_holds = self.pool_holds.get(own.document.name)
            if pool_holds is not None:
                pool_holds.show(())
            mine = resumption.rank(job)
            if mine is None or pool_holds is None:
                return mine is not None
            pool_holds.show(pool_holds.before(mine))
            return resumption.rank(job) is not None

        return moving.best(pool, goes_on, show)

    def grantable(self, candidates: PoolCandidates, requests: int) -> int:
        """The requests that could be granted there now."""
        return self.placeable(candidates, requests & (candidates.inside | candidates.borrowing))

    def surely_fits(self, queue: PoolRequests) -> int:
        """Requests that any job could place in the pool now; may omit some."""
        return 0 if self.pool_holds.get(queue.name) is not None else self.fits(queue) & ~self._index.needs.uncertain

    def placeable(self, candidates: PoolCandidates, requests: int) -> int:
        """The requests that could be placed there now, regardless of quotas."""
        pool_holds = self.pool_holds.get(candidates.queue.name)
        if pool_holds is None:
            return self._sure(candidates, (), requests)
        requests &= self.fits(candidates.queue)
        return sum(
            self._sure(candidates, self._stage_of(pool_holds, candidates, number), 1 << number) for number in bits_of(requests)
        )

    def _sure(self, candidates: PoolCandidates, stage: Stage, requests: int) -> int:
        """Check requests of gangs and of jobs that avoid nodes (R36): they may not fit although one replica does."""
        queue = candidates.queue
        requests &= self.fits(queue, stage)
        for number in bits_of(requests & self._index.needs.uncertain):
            if (queue.name, stage, number) in self._whole:
                continue
            if self.find(queue, stage, candidates.pending_class.heads[number][1]) is None:
                self.fail(queue, stage, number)
                requests &= ~(1 << number)
            else:
                self._whole.add((queue.name, stage, number))
        return requests

    def fail(self, queue: PoolRequests, stage: Stage, number: int) -> None:
        """Record that a request did not fit, or its facts exceed a record: in this round it is tried only at less strict stages."""
        self._failed.setdefault(queue.name, []).append((frozenset(stage), number))
        for seen, fits in self._fits.get(queue.name, {}).items():
            if set(stage).issubset(seen):
                self._fits[queue.name][seen] = fits & ~(1 << number)
        self.moves += 1

    def granted(self, queue: PoolRequests, job: JobRecord) -> None:
        """Update after a grant in the pool, once the index is refreshed."""
        for pool_holds in self.pool_holds.values():
            pool_holds.end(job.key)
        before, moves = self._fits.get(queue.name, {}).get(()), self._index.moves
        self._forget(queue)
        if self.pool_holds or self._seen != moves or before != self.fits(queue):
            self._seen = moves
            self.moves += 1

    def renewed(self) -> None:
        """Update after jobs have come into line with other requests, which no set computed before contains."""
        self._fits.clear()
        self.moves += 1

    def resumed(self, queue: PoolRequests) -> None:
        """Update after a suspended job was resumed in the pool."""
        self._forget(queue)
        self.moves += 1

    def _forget(self, queue: PoolRequests) -> None:
        self._fits.pop(queue.name, None)
        if self._whole:
            self._whole = {entry for entry in self._whole if entry[0] != queue.name}

    def leave(self) -> None:
        """Release all reserved places."""
        for pool_holds in self.pool_holds.values():
            pool_holds.show(())
