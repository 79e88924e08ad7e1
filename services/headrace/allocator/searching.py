"""Who may have victims looked for (R19, R23): the best-ranked job that finds no room but might take something back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.headroom import bits_of
from headrace.contracts import facts as f
from headrace.domain.reclaim.eligibility import causes
from headrace.domain.searches import is_resting, is_worthwhile, was_searched

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from headrace.allocator.lines import Board
    from headrace.allocator.strands import Post
    from headrace.domain.jobs import JobRecord
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state import State


class Searching:
    """The searches that one round opens, at log time `now`."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._opened: dict[str, JobRecord] = {}

    def worthwhile(self, post: Post, requests: int) -> int:
        """Of the requests of a post those for whose head a search is under way there, or could find somebody."""
        pool, found = post.board.pool, 0
        for number in bits_of(requests & post.asking):
            job = post.strand.heads[number][1]
            if pool.search.job is job if pool.search is not None else self._could_find(post, job):
                found |= 1 << number
        return found

    def _could_find(self, post: Post, job: JobRecord) -> bool:
        return is_worthwhile(post.board.pool, job, self._now) and post.board.lends_to(post.strand.policy)

    def open(self, board: Board, room: Callable[[Post, int], int], skip: AbstractSet[str]) -> None:
        """The best-ranked of those that find no room opens a search, one for each pool at a time.

        A job searches in one pool after the other, in its order. While the pool rests from fruitless searches, only for requests that
        were never searched for is one opened. `room`: of some requests of a post those that could be granted there now.
        """
        pool = board.pool
        if pool.search is not None or not board.asking:
            return
        resting = is_resting(pool, self._now)
        best: tuple[Rank, JobRecord] | None = None
        for post in self._fresh(board) if resting else board.asking:
            without_room = post.asking & ~room(post, post.asking)
            if not without_room or not board.lends_to(post.strand.policy):
                continue
            for number in bits_of(without_room):
                job = post.strand.heads[number][1]
                if job.key in skip or (resting and was_searched(pool, job)) or not is_worthwhile(pool, job, self._now):
                    continue
                rank = post.rank(number)
                if (best is None or rank < best[0]) and not self._searches_before(post, number):
                    best = rank, job
        if best is not None:
            self._opened[board.name] = best[1]

    @staticmethod
    def _fresh(board: Board) -> list[Post]:
        for post in list(board.fresh):
            if all(was_searched(board.pool, post.strand.heads[number][1]) for number in bits_of(post.asking)):
                del board.fresh[post]
        return list(board.fresh)

    def _searches_before(self, post: Post, number: int) -> bool:
        """Whether the job searches in an earlier pool of its order first."""
        bit = 1 << number
        return any(self.worthwhile(earlier, bit & (earlier.inside | earlier.borrowing)) for earlier in post.earlier)

    def facts(self, state: State) -> list[f.ReclaimOpenedV1]:
        """What is to be stated, pools by name; the accounts are as they were before the round."""
        return [
            f.ReclaimOpenedV1(job=job.key, pool=name, cause=causes(state, job, state.pools[name])[0])
            for name, job in sorted(self._opened.items())
        ]
