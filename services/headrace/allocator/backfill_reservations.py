"""Keeping units for jobs that have waited too long for room (R16), and looking past what is kept in the order of rank (R18).

Strategy: a pool has few holds. Between holders, in the order of their rank, candidates see the same: what holders before them keep is out
of reach, what those behind them keep is free. So a look at a pool goes in stages, and stops at the first in which somebody fits whose
rank is not behind the next holder's. Kept units are lent to a job that has ended, by its time limit and grace, before they are needed: at
each stage those candidates are looked at as well that see fewer holds for that reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.request_bitsets import bits_of
from headrace.contracts import facts as f
from headrace.domain.backfill.backfill_placement import still_awaited
from headrace.domain.backfill.hold_policy import ends_at, is_still_kept, keep_of, places_to_keep
from headrace.domain.backfill.holds import HOLDS_MAX, OutOfReach
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.model.preemption_state import Hold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from headrace.allocator.candidate_index import Standings
    from headrace.allocator.feasibility_cache import Rooms
    from headrace.allocator.pool_queue import PoolQueue
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.contracts.facts.fact import Place
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.state import State

Stage = tuple[str, ...]
"""The jobs whose holds are out of reach, in the order of their rank."""


class PoolHolds:
    """The holds of one pool during one round, as far as they are out of reach now."""

    def __init__(self, state: State, standings: Standings, board: PoolQueue, now: int) -> None:
        self._state = state
        self._standings = standings
        self._board = board
        self._now = now
        self._holds: dict[str, Hold] = {}
        self._lent_until: dict[str, int] = {}
        self._out: dict[str, OutOfReach] = {}

    def line(self) -> list[tuple[Rank, str]]:
        """(rank, job) of the holders, best first, as they stand now."""
        ranked = []
        for key, hold in self._holds.items():
            found = self._standings.post_of(hold.job, self._board.name)
            if found is not None:
                post, number = found
                ranked.append((post.rank(number, place_in_line(hold.job)), key))
        return sorted(ranked)

    def before(self, rank: Rank) -> Stage:
        """Whose holds are before somebody of this rank."""
        return tuple(key for theirs, key in self.line() if theirs < rank)

    def stage_of(self, rank: Rank, job: JobRecord) -> Stage:
        """Whose holds are out of reach for a job of this rank now: of those before it, all that are not lent to it."""
        return self.not_lent(self.before(rank), ends_at(self._state, job, self._now))

    def not_lent(self, stage: Stage, end: int | None) -> Stage:
        """Which of these holds are out of reach for a job that has ended by `end`; None: nothing says when it ends."""
        return stage if end is None else tuple(key for key in stage if self.lent_until(key) < end)

    def lent_until(self, key: str) -> int:
        """Whoever has ended by then may use what is kept for the job."""
        known = self._lent_until.get(key)
        if known is None:
            known = self._lent_until[key] = keep_of(self._state, self._holds[key], self._now).lent_until
        return known

    def loans(self, stage: Stage) -> list[int]:
        """The moments up to which any of these holds is lent, ascending; none where nobody here has a time limit."""
        if not self._board.turns.has_limited:
            return []
        return sorted({until for key in stage if (until := self.lent_until(key)) > self._now})

    def show(self, stage: Stage) -> None:
        """Put the holds of these jobs out of reach, and no others."""
        for key in [key for key in self._out if key not in stage]:
            self._out.pop(key).end()
        for key in stage:
            if key not in self._out:
                self._out[key] = OutOfReach(self._state, self._board.pool, self._holds[key])

    def end(self, key: str) -> None:
        """The job has started, or keeps nothing any more."""
        if key in self._out:
            self._out.pop(key).end()
        self._holds.pop(key, None)

    def add(self, hold: Hold) -> None:
        """One more."""
        self._holds[hold.job.key] = hold
        self._lent_until.pop(hold.job.key, None)

    def places(self, stage: Stage) -> tuple[tuple[Place, ...], ...]:
        """What is out of reach at a stage."""
        return tuple(self._holds[key].places for key in stage)

    def has(self, key: str) -> bool:
        """Whether something is kept here for the job."""
        return key in self._holds

    def __len__(self) -> int:
        return len(self._holds)


def lapsed(state: State, standings: Standings, now: int, skip: AbstractSet[str]) -> Iterator[f.HoldLiftedV1]:
    """The holds that end: the job may not start there any more, not all of its places are to be had, or nothing says when they will be."""
    for hold in list(state.holds.values()):
        why = "" if hold.job.key in skip else _why_over(state, standings, hold, now)
        if why:
            yield f.HoldLiftedV1(job=hold.job.key, pool=hold.pool, why=why)


def _why_over(state: State, standings: Standings, hold: Hold, now: int) -> str:
    found = standings.post_of(hold.job, hold.pool)
    if found is None:
        return "it does not wait there any more"
    post, number = found
    if not (post.inside | post.borrowing) >> number & 1:
        return "its own limit or reservation is in its way"
    if any(place.node in hold.job.avoiding for place in hold.places):
        return "it is kept away from a node of it"
    if is_still_kept(state, hold, now):
        return ""
    if still_awaited(state.pools[hold.pool], hold.places):
        return "nothing says when what is in its way ends, and the time for which units are kept is over"
    return "a place of it has become unusable, or is held by what will not end"


RESTING_MAX = 8
"""Requests of resting heads that are looked at in one pool in one round, the best-ranked first: it bounds what a look costs (R16)."""


class Placing:
    """New holds of one pool, best first, for heads that have waited for room longer than the pool's `backfill_for`.

    A job that has room anywhere waits for its turn, not for room. Units are kept for it in the first pool of its order in which it has
    waited long enough and there are any to keep.
    """

    def __init__(
        self, state: State, standings: Standings, rooms: Rooms, board: PoolQueue, now: int, skip: AbstractSet[str]
    ) -> None:
        self._state = state
        self._standings = standings
        self._rooms = rooms
        self._board = board
        self._now = now
        self._skip = skip
        self._tried: set[tuple[PoolCandidates, int]] = set()
        self._barren = self._barren_at_rest = self._looked_at = 0

    def next(self) -> Hold | None:
        """The best-ranked for whom there is something to keep; None: nobody, or enough is kept here."""
        board, turns = self._board, self._board.turns
        while self._count() < HOLDS_MAX:
            resting = turns.resting if self._looked_at < RESTING_MAX and self._may_be_sure() else 0
            best = board.best(turns.due | resting, self._allowed)
            if best is None:
                return None
            self._tried.add((best.post, best.number))
            self._looked_at += not best.post.due >> best.number & 1
            if any(self._places(earlier, best.number) for earlier in best.post.earlier):
                continue  # kept for it there
            places = self._places(best.post, best.number)
            if places is not None:
                return Hold(best.job, board.name, places, self._now)
            self._note_barren(best.post, 1 << best.number)
        return None

    def _note_barren(self, post: PoolCandidates, bit: int) -> None:
        """Whoever asks for the same, ranks below and sees no more finds nothing either, unless it may take something itself."""
        if post.asking & bit:
            return
        if post.due & bit:
            self._barren |= bit
        self._barren_at_rest |= bit

    def _known_barren(self, post: PoolCandidates) -> int:
        return (self._barren | (self._barren_at_rest & ~post.due)) & ~post.asking

    def _count(self) -> int:
        keeping = self._rooms.keeping.get(self._board.name)
        return 0 if keeping is None else len(keeping)

    def _may_be_sure(self) -> bool:
        """Whether anything surely ends: something has a time limit or a ladder, or may be taken by somebody here."""
        return bool(self._state.ends.moments or self._board.asking)

    def _allowed(self, post: PoolCandidates, requests: int) -> int:
        resting = post.resting if self._looked_at < RESTING_MAX else 0
        requests &= (post.due | resting) & ~self._known_barren(post)
        for number in bits_of(requests):
            key = post.strand.heads[number][1].key
            if (post, number) in self._tried or key in self._skip or self._has_hold(key) or self._has_room(post, number):
                requests &= ~(1 << number)
        return requests

    def _has_hold(self, key: str) -> bool:
        return any(keeping.has(key) for keeping in self._rooms.keeping.values())

    def _has_room(self, post: PoolCandidates, number: int) -> bool:
        return any(self._rooms.room(other, 1 << number) for other in post.strand.posts)

    def _places(self, post: PoolCandidates, number: int) -> tuple[Place, ...] | None:
        """The places to keep for the head of a request in a pool, as it sees it; None where it is not due, or there are none."""
        board, bit = post.board, 1 << number
        if not (post.due | post.resting) & (post.inside | post.borrowing) & bit:
            return None
        stage = self._rooms.show_to(post, number)
        pool, job = board.pool, post.strand.heads[number][1]
        seen: tuple[object, ...] = pool.openings, self._state.documents_sequence, self._rooms.kept(board, stage)
        asked = board.name, number, bool(post.due & bit)
        if not post.due & bit:
            seen = *seen, pool.epoch, post.asking & bit and post.strand.policy.key
        is_as_found = board.name not in self._rooms.lifted
        if is_as_found and self._standings.barren.get(asked) == seen:
            return None
        places = places_to_keep(self._state, job, pool, self._now)
        if places is None and is_as_found:
            self._standings.barren[asked] = seen
        return places
