"""What fits where in one round, and for whom: the same for everybody in a pool, but for what is kept for better-ranked jobs (R16, R18).

Strategy: what fits is a set of requests for each pool and stage (`holding`), worked out when somebody asks and kept until something is
granted there. Within a round use only grows and free amounts only shrink, so what was found not to fit is not asked for again.
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
    from headrace.allocator.candidate_index import Standings
    from headrace.allocator.pool_queue import PoolCandidate, PoolQueue
    from headrace.allocator.relocation import Found, Moving
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.allocator.suspend_resume import Resuming
    from headrace.contracts.facts.fact import Place
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


class Rooms:
    """The pools during one round. `moves` counts changes after which a pool that had nobody might have somebody.

    `lifted`: pools in which a preemptor has found room in this round, so that what was nominated for it may be anybody's.
    """

    def __init__(self, state: State, standings: Standings, now: int) -> None:
        self.keeping: dict[str, PoolHolds] = {}
        self.lifted: set[str] = set()
        self.moves = 0
        self._state = state
        self._standings = standings
        self._now = now
        self._seen = -1
        self._fits: dict[str, dict[Stage, int]] = {}
        self._whole: set[tuple[str, Stage, int]] = set()
        self._failed: dict[str, list[tuple[frozenset[str], int]]] = {}

    def keep(self, hold: Hold, board: PoolQueue) -> None:
        """From now on the places of the hold are out of reach for those who rank below its job."""
        keeping = self.keeping.get(board.name)
        if keeping is None:
            keeping = self.keeping[board.name] = PoolHolds(self._state, self._standings, board, self._now)
        keeping.add(hold)
        self._fits.pop(board.name, None)

    def fits(self, board: PoolQueue, stage: Stage = ()) -> int:
        """The requests of which one replica could be placed in the pool now, as far as the pool goes."""
        known = self._fits.setdefault(board.name, {})
        fits = known.get(stage)
        if fits is None:
            self._show(board, stage)
            fits = board.ceiling.read(self._standings.needs)
            if fits:
                fits &= board.placeable()
            for kept, number in self._failed.get(board.name, ()):
                if kept.issubset(stage):
                    fits &= ~(1 << number)
            known[stage] = fits
        return fits

    def _show(self, board: PoolQueue, stage: Stage) -> None:
        keeping = self.keeping.get(board.name) if self.keeping else None
        if keeping is not None:
            keeping.show(stage)

    def show_to(self, post: PoolCandidates, number: int) -> Stage:
        """Have the pool look as it does to the head of a request that waits, to which nothing is lent; the stage."""
        keeping = self.keeping.get(post.board.name)
        stage = () if keeping is None else keeping.before(post.rank(number))
        self._show(post.board, stage)
        return stage

    def kept(self, board: PoolQueue, stage: Stage) -> tuple[tuple[Place, ...], ...]:
        """The places that are out of reach at a stage: the same jobs may keep others another time."""
        keeping = self.keeping.get(board.name)
        return () if keeping is None else keeping.places(stage)

    def find(self, board: PoolQueue, stage: Stage, job: JobRecord) -> tuple[Place, ...] | None:
        """Where the job would go, as it is seen at this stage."""
        self._show(board, stage)
        return find_places(self._state, job, board.pool)

    def best(self, board: PoolQueue, allowed: Callable[[PoolCandidates, int], int]) -> tuple[PoolCandidate, Stage] | None:
        """The best-ranked candidate of a pool that fits, and the stage at which it does."""
        keeping = self.keeping.get(board.name) if self.keeping else None
        if keeping is None:
            fits = self.fits(board)
            best = board.best(fits, allowed) if fits else None
            return None if best is None else (best, ())
        line = keeping.line()
        for length in range(len(line) + 1):
            stage = tuple(key for _, key in line[:length])
            best = self._best_at(board, keeping, stage, allowed)
            if best is None:
                return None
            if length == len(line) or best.rank <= line[length][0]:
                return best, keeping.not_lent(stage, ends_at(self._state, best.job, self._now))
        return None

    def _best_at(
        self, board: PoolQueue, keeping: PoolHolds, stage: Stage, allowed: Callable[[PoolCandidates, int], int]
    ) -> PoolCandidate | None:
        """The best-ranked candidate that fits beside these holds, or beside those of them that are not lent to it."""
        fits = self.fits(board, stage)
        best = board.best(fits, allowed)
        if not self.fits(board) & ~fits:
            return best
        for until in keeping.loans(stage):
            more = self.fits(board, keeping.not_lent(stage, until)) & ~fits
            if not more:
                continue
            found = board.best(more, self._ended_by(until, allowed))
            if found is not None and (best is None or found.rank < best.rank):
                best = found
        return best

    def _ended_by(self, until: int, allowed: Callable[[PoolCandidates, int], int]) -> Callable[[PoolCandidates, int], int]:
        """As `allowed`, but only requests whose heads, if they were granted now, would have ended by a moment."""

        def ended(post: PoolCandidates, requests: int) -> int:
            for number in bits_of(requests):
                end = ends_at(self._state, post.strand.heads[number][1], self._now)
                if end is None or end > until:
                    requests &= ~(1 << number)
            return allowed(post, requests)

        return ended

    @staticmethod
    def _stage_of(keeping: PoolHolds, post: PoolCandidates, number: int) -> Stage:
        return keeping.stage_of(post.rank(number), post.strand.heads[number][1])

    def best_suspended(self, pool: PoolState, resuming: Resuming) -> tuple[Rank, JobRecord] | None:
        """The best-ranked suspended job that could go on in a pool, for which nothing of its own is kept from it (R29)."""
        keeping = self.keeping.get(pool.document.name)
        line = keeping.line() if keeping is not None else []
        for length in range(len(line) + 1):
            if keeping is not None:
                keeping.show(tuple(key for _, key in line[:length]))
            found = resuming.best(pool)
            if found is None or length == len(line) or found[0] <= line[length][0]:
                return found
        return None

    def best_moving(self, pool: PoolState, moving: Moving, resuming: Resuming) -> Found | None:
        """The best-ranked suspended job that moves to a pool, beside what is kept in each from it (R16, R29)."""

        def show(there: PoolState, rank: Rank) -> None:
            keeping = self.keeping.get(there.document.name)
            if keeping is not None:
                keeping.show(keeping.before(rank))

        def goes_on(job: JobRecord) -> bool:
            own = self._state.pools[next(iter(job.leases.values())).pool]
            keeping = self.keeping.get(own.document.name)
            if keeping is not None:
                keeping.show(())
            mine = resuming.rank(job)
            if mine is None or keeping is None:
                return mine is not None
            keeping.show(keeping.before(mine))
            return resuming.rank(job) is not None

        return moving.best(pool, goes_on, show)

    def room(self, post: PoolCandidates, requests: int) -> int:
        """Of the requests of a post those that could be granted there now."""
        return self.placeable(post, requests & (post.inside | post.borrowing))

    def surely_fits(self, board: PoolQueue) -> int:
        """The requests that could be placed in the pool now by anybody; perhaps others as well."""
        return 0 if self.keeping.get(board.name) is not None else self.fits(board) & ~self._standings.needs.uncertain

    def placeable(self, post: PoolCandidates, requests: int) -> int:
        """The same, whatever accounts say."""
        keeping = self.keeping.get(post.board.name)
        if keeping is None:
            return self._sure(post, (), requests)
        requests &= self.fits(post.board)
        return sum(self._sure(post, self._stage_of(keeping, post, number), 1 << number) for number in bits_of(requests))

    def _sure(self, post: PoolCandidates, stage: Stage, requests: int) -> int:
        """Where one replica finds a place, all of a gang need not, nor one that avoids some nodes (R36): those are tried."""
        board = post.board
        requests &= self.fits(board, stage)
        for number in bits_of(requests & self._standings.needs.uncertain):
            if (board.name, stage, number) in self._whole:
                continue
            if self.find(board, stage, post.strand.heads[number][1]) is None:
                self.fail(board, stage, number)
                requests &= ~(1 << number)
            else:
                self._whole.add((board.name, stage, number))
        return requests

    def fail(self, board: PoolQueue, stage: Stage, number: int) -> None:
        """What seemed to fit does not, or no record could hold it: nobody who sees no more asks for that there again in this round."""
        self._failed.setdefault(board.name, []).append((frozenset(stage), number))
        for seen, fits in self._fits.get(board.name, {}).items():
            if set(stage).issubset(seen):
                self._fits[board.name][seen] = fits & ~(1 << number)
        self.moves += 1

    def granted(self, board: PoolQueue, job: JobRecord) -> None:
        """Something was granted in the pool, and the standings have heard of it."""
        for keeping in self.keeping.values():
            keeping.end(job.key)
        before, moves = self._fits.get(board.name, {}).get(()), self._standings.moves
        self._forget(board)
        if self.keeping or self._seen != moves or before != self.fits(board):
            self._seen = moves
            self.moves += 1

    def resumed(self, board: PoolQueue) -> None:
        """A suspended job goes on in the pool."""
        self._forget(board)
        self.moves += 1

    def _forget(self, board: PoolQueue) -> None:
        self._fits.pop(board.name, None)
        if self._whole:
            self._whole = {entry for entry in self._whole if entry[0] != board.name}

    def leave(self) -> None:
        """What was put out of reach is within it again."""
        for keeping in self.keeping.values():
            keeping.show(())
