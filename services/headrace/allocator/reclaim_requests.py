"""Who may have victims looked for (R19, R23): the best-ranked job that finds no room but might take something back.

Before anybody is granted what is free in a pool, it is looked whether somebody of a better rank might take something back there: then a
search opens for that one, and what is free is kept for it in the same look, as it is while the search is under way (R19).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.request_bitsets import EVERY, bits_of
from headrace.contracts import facts as f
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.preemption.eligibility import causes
from headrace.domain.queueing.ranking import compose
from headrace.domain.state.search_backoff import is_resting, is_worthwhile, was_searched

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from headrace.allocator.candidate_index import Standings
    from headrace.allocator.feasibility_cache import Rooms
    from headrace.allocator.pool_queue import PoolQueue
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.state import State


class Searching:
    """The searches that one round opens, at log time `now`. `skip`: jobs that this record settles.

    `_first`: for whom what is free in a pool is kept in this round, although nobody has looked for victims yet. `_nobody`: how a pool stood
    when there was no such job that ranks before some rank.
    """

    def __init__(self, state: State, standings: Standings, rooms: Rooms, now: int, skip: AbstractSet[str]) -> None:
        self._amended = state.terms.amended
        self._standings = standings
        self._rooms = rooms
        self._now = now
        self._skip = skip
        self._first: dict[str, JobRecord] = {}
        self._nobody: dict[str, tuple[tuple[int, int], Rank]] = {}
        self._opened: dict[str, JobRecord] = {}

    def spills_not(self, earlier: PoolCandidates, requests: int) -> int:
        """Of the requests of a strand those that wait for a pool of their order, in which they have no room, before they go to a later one.

        A search for them is under way there; or they may take back there, and their profile puts that before a spill (R19).
        """
        found, search, strand = 0, earlier.board.pool.search, earlier.strand
        if search is not None:
            for number in bits_of(requests & earlier.asking):
                if strand.heads[number][1] is search.job:
                    found |= 1 << number
        if not strand.reclaims_first:
            return found
        if self._amended:
            return found | self._could_find(earlier, requests & earlier.reclaiming & self._reclaims(earlier))
        return found if search is not None else self._could_find(earlier, requests & earlier.asking & earlier.inside)

    def _able(self, post: PoolCandidates) -> int:
        """Requests for which at least one possible victim exists (R23, R24)."""
        if not self._amended:
            return EVERY
        policy, board, footing = post.strand.policy, post.board, post.footing
        return self._reclaims(post) | (footing.lower if footing.lower and board.lends_within(policy) else 0)

    def _reclaims(self, post: PoolCandidates) -> int:
        """The same of those that take back for their reservation."""
        policy, board, footing = post.strand.policy, post.board, post.footing
        found = footing.within if footing.within and board.lends_within(policy) else 0
        return found | footing.across if footing.across & ~found and board.lends_across(policy) else found

    def _could_find(self, post: PoolCandidates, requests: int) -> int:
        """Those of `requests` for whose first job a search might find victims."""
        if not requests or not self._is_lent_to(post):
            return 0
        found, pool = 0, post.board.pool
        for number in bits_of(requests):
            if is_worthwhile(pool, post.strand.heads[number][1], self._now):
                found |= 1 << number
        return found

    def _is_lent_to(self, post: PoolCandidates) -> bool:
        board, policy = post.board, post.strand.policy
        return board.lends_within(policy) or board.lends_across(policy)

    def job_in(self, board: PoolQueue) -> JobRecord | None:
        """For whom what is free in the pool is kept: a search is under way, or this round opens one."""
        return self._first.get(board.name) if board.pool.search is None else board.pool.search.job

    def keeps_from(self, board: PoolQueue, rank: Rank) -> bool:
        """True if a job of this rank must not take what is free in the pool, because it is kept for a better-ranked one (R19)."""
        job = self.job_in(board)
        if job is None:
            first = self._first_of(board, rank)
            if first is None or not first[0] < rank:
                return False
            self._first[board.name] = first[1]
            return True
        found = self._standings.post_of(job, board.name)
        if found is None:
            return False
        post, number = found
        return rank > post.rank(number, place_in_line(job))

    def _first_of(self, board: PoolQueue, rank: Rank) -> tuple[Rank, JobRecord] | None:
        """The best-ranked job that has no room but might reclaim in the pool; None if no such job ranks before `rank`."""
        if not self._amended or not board.asking:
            return None
        seen = self._rooms.moves, board.lendings
        nobody = self._nobody.get(board.name)
        if nobody is not None and nobody[0] == seen and rank <= nobody[1]:
            return None
        best = self._best(board, before=rank)
        if best is None:
            self._nobody[board.name] = seen, rank
        return best

    def open(self, board: PoolQueue) -> None:
        """When nothing more is granted: the best-ranked of those that find no room opens a search, one for each pool at a time."""
        if board.pool.search is None and board.asking:
            best = self._best(board)
            if best is not None:
                self._opened[board.name] = best[1]

    def _best(self, board: PoolQueue, before: Rank | None = None) -> tuple[Rank, JobRecord] | None:
        """The best-ranked that finds no room but might take something back; with `before`, of those who rank before that.

        A job searches in one pool after the other, in its order. While the pool rests from fruitless searches, only requests that were
        never searched for are looked at. With `before` more may be granted yet, so who has room elsewhere is left out.
        """
        pool, bound = board.pool, None if before is None else before[:4]
        resting = is_resting(pool, self._now)
        sure = self._rooms.surely_fits(board)
        best: tuple[Rank, JobRecord] | None = None
        if resting and before is None:
            self._forget_searched(board)
        for post in board.fresh if resting else board.asking:
            asking, footing = post.asking, post.footing
            if not asking & ~(sure & footing.ready):
                continue
            if bound is not None and compose(post.static, 0, inside=bool(asking & footing.fits))[:4] > bound:
                continue
            able = asking & self._able(post)
            without_room = able & ~self._rooms.placeable(post, able & post.footing.ready) if able else 0
            if not without_room or not self._is_lent_to(post):
                continue
            for number in bits_of(without_room):
                job = post.strand.heads[number][1]
                if job.key in self._skip or (resting and was_searched(pool, job)) or not is_worthwhile(pool, job, self._now):
                    continue
                rank = post.rank(number)
                if (best is not None and best[0] < rank) or (before is not None and not rank < before):
                    continue
                if not self._searches_before(post, number) and (before is None or not self._goes_elsewhere(post, number)):
                    best = rank, job
        return best

    @staticmethod
    def _forget_searched(board: PoolQueue) -> None:
        """Posts all of whose requests have been searched for are fresh no more."""
        for post in list(board.fresh):
            if all(was_searched(board.pool, post.strand.heads[number][1]) for number in bits_of(post.asking)):
                del board.fresh[post]

    def _searches_before(self, post: PoolCandidates, number: int) -> bool:
        """Whether the job searches in an earlier pool of its order first, or one is under way there."""
        return any(self._searches_in(earlier, number) for earlier in post.earlier)

    def _searches_in(self, post: PoolCandidates, number: int) -> bool:
        bit, search = 1 << number, post.board.pool.search
        asks = post.asking & (EVERY if self._amended else post.inside | post.borrowing)
        if not asks & bit:
            return False
        if search is not None and search.job is post.strand.heads[number][1]:
            return True
        if search is not None and not self._amended:
            return False
        return bool(self._could_find(post, bit & self._able(post)))

    def _goes_elsewhere(self, post: PoolCandidates, number: int) -> bool:
        """Whether the job has room in a pool that it would rather go to than wait for victims here."""
        waits_here = post.strand.reclaims_first and bool(post.reclaiming & self._reclaims(post) >> number & 1)
        others = post.earlier if waits_here else [other for other in post.strand.posts if other is not post]
        return any(self._rooms.room(other, 1 << number) for other in others)

    def facts(self, state: State) -> list[f.ReclaimOpenedV1]:
        """What is to be stated, pools by name; the accounts are as they were before the round."""
        return [
            f.ReclaimOpenedV1(job=job.key, pool=name, cause=causes(state, job, state.pools[name])[0])
            for name, job in sorted(self._opened.items())
        ]
