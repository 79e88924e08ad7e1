"""Handing out what is free (R15-R19): the best-ranked candidate of each pool, one grant, then look again.

Strategy: grants are tried on the state and undone at the end of the round (`capacity`), so that the round sees its own effects. Within a
round use only grows and free amounts only shrink, so what was found not to fit a pool is not looked at there again. Who is best is kept
from round to round (`standings`), and found by sets of requests: those that fit, and those that somebody waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.headroom import bits_of
from headrace.allocator.resuming import Resuming, resume
from headrace.allocator.searching import Searching
from headrace.contracts import facts as f
from headrace.domain import capacity
from headrace.domain.eligibility import RECLAIM
from headrace.domain.gates import may_start, must_borrow
from headrace.domain.pending import place_in_line
from headrace.domain.placement import find_places
from headrace.domain.scopes import over_capacity, over_limit, scopes_of
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from headrace.allocator.lines import Board, Candidate
    from headrace.allocator.standings import Standings
    from headrace.allocator.strands import Post
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Place
    from headrace.domain.pending import JobGroup
    from headrace.domain.ranking import Rank
    from headrace.domain.record_room import RecordRoom
    from headrace.domain.state import JobRecord, PoolState, State
    from headrace.domain.takings import Preemption

GRANTS_MAX = 400
"""Leases in one round, unless one gang has more: bounds the time until the next look."""


class _Round:
    """One round on one state."""

    def __init__(self, state: State, standings: Standings, now: int, skip: AbstractSet[str], room: RecordRoom) -> None:
        self.state = state
        self.standings = standings
        self.skip = skip
        self.room = room
        self.is_full = False
        self.facts: list[AnyFact] = []
        self.searching = Searching(now)
        self.resuming = Resuming(state, skip)
        self._tried: list[tuple[JobRecord, PoolState, Place]] = []
        self._taken: list[tuple[JobGroup, JobRecord]] = []
        self._lifted: list[Preemption] = []
        self._failed: dict[str, int] = {}
        self._fits: dict[str, int] = {}
        self._idle: dict[str, int] = {}
        self._moves = 0
        self._seen = -1
        self._whole: set[tuple[str, int]] = set()

    def grant_nominated(self) -> None:
        """Preemptors first: what they wait for is kept for them, so nobody's turn is taken (R27)."""
        for preemption in list(self.state.preemptions.values()):
            job = preemption.job
            if job.nomination is not preemption or job.key in self.skip or job.state is not JobState.PENDING:
                continue
            if not may_start(self.state, job, preemption.pool):
                continue
            pool = self.state.pools[preemption.pool]
            capacity.lift(self.state, preemption)
            places = self._places(job, pool)
            inside = preemption.cause == RECLAIM
            if places is None or not self._hold(job, pool, places, inside=inside, rule="R27"):
                capacity.nominate(self.state, preemption)
                continue
            self._lifted.append(preemption)

    def grant_pending(self) -> None:
        """The best of each pool, pools by name, until nothing more fits or the round is full; then searches for who found no room."""
        self.standings.refresh()
        boards = [self.standings.boards[name] for name in sorted(self.standings.boards)]
        for board in boards:
            self._measure(board)
        while len(self._tried) < GRANTS_MAX and not self.is_full:
            for board in boards:
                if self._idle.get(board.name) != self._moves and self._grant_best(board):
                    break
            else:
                break
        for name in self.resuming.pools():
            while name not in self.standings.boards and self._resume_before(self.state.pools[name], None):
                pass
        for board in boards:
            self.searching.open(board, self._room, self.skip)

    def _measure(self, board: Board) -> None:
        """Find out anew what fits in the pool. If that has changed, pools that were found to have nobody are looked at again."""
        needs = self.standings.needs
        fits = needs.fitting_in(board.pool) & ~self._failed.get(board.name, 0)
        if fits:
            fits &= board.placeable()
        if fits != self._fits.get(board.name) or self._seen != self.standings.moves:
            self._fits[board.name], self._seen = fits, self.standings.moves
            self._moves += 1

    def _grant_best(self, board: Board) -> bool:
        """Grant the pool's best candidate; False when it has none that fits."""
        while True:
            best = board.best(self._fits[board.name], self._allowed)
            if self._resume_before(board.pool, None if best is None else best.rank):
                self._whole.clear()
                self._measure(board)
                return True
            if best is None:
                self._idle[board.name] = self._moves
                return False
            if self._is_kept_from(best, board.pool):
                return False
            job = best.job
            places = find_places(self.state, job, board.pool)
            if places is None or not self._hold(job, board.pool, places, inside=best.inside, rule="R15"):
                if self.is_full:
                    return False
                self._fail(board, best.number)
                continue
            self._leave_line(best.post.strand.groups[best.number], job)
            self.standings.refresh()
            self._whole.clear()
            self._measure(board)
            return True

    def _fail(self, board: Board, number: int) -> None:
        """What seemed to fit does not, or no record could hold it: nobody asks for that there again in this round."""
        self._failed[board.name] = self._failed.get(board.name, 0) | 1 << number
        self._measure(board)

    def _resume_before(self, pool: PoolState, rank: Rank | None) -> bool:
        """Let the best-ranked suspended job go on where it was, if it ranks before `rank`; False when there is none (R29)."""
        found = self.resuming.best(pool)
        if found is None or (rank is not None and rank < found[0]) or self.is_full:
            return False
        job = found[1]
        fact = resume(job)
        if not self.room.takes((fact,)):
            self.is_full = not self.room.untouched
            return False
        for lease in job.leases.values():
            capacity.take(self.state, job, pool, capacity.gpu_part(lease))
            self._tried.append((job, pool, capacity.gpu_part(lease)))
        self.resuming.take(job, pool)
        self.facts.append(fact)
        self.standings.refresh()
        return True

    def _allowed(self, post: Post, requests: int) -> int:
        """Of the requests of a post those whose head does not go elsewhere: to an earlier pool of its order (R18, R19)."""
        if self.skip:
            for number in bits_of(requests):
                if post.strand.heads[number][1].key in self.skip:
                    requests &= ~(1 << number)
        for earlier in post.earlier:
            if not requests:
                break
            requests &= ~self._room(earlier, requests)
            if post.strand.reclaims_first:
                requests &= ~self.searching.worthwhile(earlier, requests & earlier.inside)
        return requests

    def _room(self, post: Post, requests: int) -> int:
        """Of the requests of a post those that could be granted there now.

        Where one replica finds a place, all of a gang need not, nor one that avoids some nodes (R36): those are tried.
        """
        board = post.board
        requests &= (post.inside | post.borrowing) & self._fits[board.name]
        for number in bits_of(requests & self.standings.needs.uncertain):
            if (board.name, number) not in self._whole:
                if find_places(self.state, post.strand.heads[number][1], board.pool) is None:
                    self._fail(board, number)
                    requests &= ~(1 << number)
                else:
                    self._whole.add((board.name, number))
        return requests

    def _is_kept_from(self, candidate: Candidate, pool: PoolState) -> bool:
        """While a search is under way, what is free is kept from everybody who ranks below the job it is for (R19)."""
        if pool.search is None:
            return False
        found = self.standings.post_of(pool.search.job, pool.document.name)
        if found is None:
            return False
        post, number = found
        return candidate.rank > post.rank(number, place_in_line(pool.search.job))

    def _places(self, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
        total = job.request.total
        if over_capacity(pool, job.request.sums) is not None:
            return None
        if over_limit(scopes_of(self.state, job.policy, pool.document.name), pool.governed, total, beyond=job.beyond):
            return None
        return find_places(self.state, job, pool)

    def _leave_line(self, group: JobGroup, job: JobRecord) -> None:
        group.leave(job)
        self.state.pending.mark(group)
        self._taken.append((group, job))

    def _hold(self, job: JobRecord, pool: PoolState, places: tuple[Place, ...], *, inside: bool, rule: str) -> bool:
        """Grant, on trial; False where this record has no room for it: nobody else goes first then, unless no record ever has."""
        facts = leases(job, pool, places, inside=inside, rule=rule)
        if not self.room.takes(facts):
            self.is_full = not self.room.untouched
            return False
        for place in places:
            capacity.take(self.state, job, pool, place)
            self._tried.append((job, pool, place))
        self.facts += facts
        return True

    def undo(self) -> None:
        """Leave the state as it was found."""
        for job, pool, place in reversed(self._tried):
            capacity.give_back(self.state, job, pool, place)
        for preemption in self._lifted:
            capacity.nominate(self.state, preemption)
        for group, job in reversed(self._taken):
            group.join(job)
            self.state.pending.mark(group)


def leases(job: JobRecord, pool: PoolState, places: tuple[Place, ...], *, inside: bool, rule: str) -> list[AnyFact]:
    """The facts by which the job's next attempt begins: one lease for each replica."""
    return [
        f.LeaseGrantedV1(
            job=job.key,
            attempt=job.attempt + 1,
            rank=number,
            node=place.node,
            pool=pool.document.name,
            devices=place.devices,
            amounts=place.amounts,
            inside=inside,
            resume_from=job.checkpoint,
            rule=rule,
            over_budget=must_borrow(job.policy),
        )
        for number, place in enumerate(places)
    ]


def grant(
    state: State, standings: Standings, now: int, skip: AbstractSet[str], room: RecordRoom, *, in_line: bool = True
) -> list[AnyFact]:
    """All grants of one round, and the searches that open because somebody found no room.

    `skip`: jobs that this record settles; `room`: what it still holds; without `in_line` only to those for whom places are kept (R27).
    """
    state.pending.ripen(now)
    turn = _Round(state, standings, now, skip, room)
    try:
        turn.grant_nominated()
        if in_line:
            turn.grant_pending()
    finally:
        turn.undo()
    opened = turn.searching.facts(state)
    return [*turn.facts, *room.fill(opened)]
