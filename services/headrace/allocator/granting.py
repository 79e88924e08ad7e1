"""Handing out what is free (R15-R19): the best-ranked candidate of each pool, one grant, then look again.

Strategy: grants are tried on the state and undone at the end of the round (`capacity`), so that the round sees its own effects. Who is
best is kept from round to round (`standings`), what fits where during the round (`rooms`), and both are sets of requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.backfill_reservations import Placing, lapsed
from headrace.allocator.feasibility_cache import Rooms
from headrace.allocator.reclaim_requests import Searching
from headrace.allocator.relocation import Moving, move, nomination_of
from headrace.allocator.request_bitsets import bits_of
from headrace.allocator.suspend_resume import Resuming, resume
from headrace.contracts import facts as f
from headrace.domain.model.job_states import JobState
from headrace.domain.model.preemption_state import MOVED
from headrace.domain.placement.placement import find_places
from headrace.domain.preemption.eligibility import RECLAIM
from headrace.domain.queueing.gates import may_start, must_borrow
from headrace.domain.queueing.ranking import is_inside
from headrace.domain.state import capacity
from headrace.domain.state.quota import over_capacity, over_limit, scopes_of, to_start, unbounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from headrace.allocator.candidate_index import Standings
    from headrace.allocator.pool_queue import PoolQueue
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Place
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.fold.record_size import RecordRoom
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import JobRecord, Preemption
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

GRANTS_MAX = 400
"""Leases in one round, unless one gang has more: bounds the time until the next look."""


class _Round:
    """One round on one state."""

    def __init__(self, state: State, standings: Standings, now: int, skip: AbstractSet[str], room: RecordRoom) -> None:
        self.state = state
        self.standings = standings
        self.now = now
        self.skip = skip
        self.passed_over = {key for key in skip if state.jobs[key].state is JobState.PENDING} if skip else frozenset()
        self.room = room
        self.is_full = False
        self.facts: list[AnyFact] = []
        self.resuming = Resuming(state, skip)
        self.moving = Moving(state, now, skip if state.terms.amended else state.suspended.keys())
        self._unbounded = unbounded(state)
        self._tried: list[tuple[JobRecord, PoolState, Place, Amounts]] = []
        self._taken: list[tuple[JobGroup, JobRecord]] = []
        self._lifted: list[Preemption] = []
        self._moved: list[Preemption] = []
        self._on_probation: list[NodeState] = []
        self._rooms = Rooms(state, standings, now)
        self.searching = Searching(state, standings, self._rooms, now, skip)
        self._idle: dict[str, int] = {}

    def grant_nominated(self) -> None:
        """Preemptors first, as they were ordered: what they wait for is kept for them, so nobody's turn is taken (R27)."""
        if not self.state.preemptions:
            return
        for preemption in sorted(self.state.preemptions.values(), key=lambda one: (one.sequence, one.id)):
            job = preemption.job
            if job.nomination is not preemption or job.key in self.skip or job.state is not JobState.PENDING:
                continue
            if not may_start(self.state, job, preemption.pool):
                continue
            pool = self.state.pools[preemption.pool]
            capacity.lift(self.state, preemption)
            places = self._places(job, pool)
            inside = is_inside(self.state, job, pool) if preemption.cause == MOVED else preemption.cause == RECLAIM
            if places is None or not self._hold(job, pool, places, inside=inside, rule="R27"):
                capacity.nominate(self.state, preemption)
                continue
            self._lifted.append(preemption)
            self._rooms.lifted.add(preemption.pool)

    def keep(self) -> None:
        """Lift holds that have lapsed, and keep units for who has waited too long, before anybody is granted anything (R16)."""
        self.standings.refresh()
        if self.state.holds:
            self._keep_on()
        boards = self.standings.in_order()
        for board in boards:
            board.ripen(self.now)
        for board in boards:
            for hold in self._new_holds(board) if board.turns.due or board.turns.resting else ():
                placed = f.HoldPlacedV1(job=hold.job.key, pool=hold.pool, places=hold.places)
                if not self.room.takes((placed,)):
                    return
                self.facts.append(placed)
                self._rooms.keep(hold, board)

    def _keep_on(self) -> None:
        lifted = list(self.room.fill(lapsed(self.state, self.standings, self.now, self.skip)))
        self.facts += lifted
        gone = {fact.job for fact in lifted} | self.skip
        for hold in self.state.holds.values():
            if hold.job.key not in gone:
                self._rooms.keep(hold, self.standings.boards[hold.pool])

    def _new_holds(self, board: PoolQueue) -> Iterator[Hold]:
        placing = Placing(self.state, self.standings, self._rooms, board, self.now, self.skip)
        while (hold := placing.next()) is not None:
            yield hold

    def grant_pending(self) -> None:
        """The best of each pool, pools by name, until nothing more fits or the round is full; then searches for who found no room."""
        boards = self.standings.in_order()
        while len(self._tried) < GRANTS_MAX and not self.is_full and (self.standings.has_line or self.state.suspended):
            for board in boards:
                if self._idle.get(board.name) != self._rooms.moves and self._grant_best(board):
                    break
            else:
                break
        for name in sorted({*self.resuming.pools(), *self.moving.pools()}) if self.state.suspended else ():
            while name not in self.standings.boards and self._resume_before(self.state.pools[name], None):
                pass
        for board in boards:
            self.searching.open(board)

    def _grant_best(self, board: PoolQueue) -> bool:
        """Grant the pool's best candidate; False when it has none that fits."""
        while True:
            found = self._rooms.best(board, self._allowed)
            if self.state.suspended and self._resume_before(board.pool, None if found is None else found[0].rank, board):
                self._rooms.resumed(board)
                return True
            if found is None:
                self._idle[board.name] = self._rooms.moves
                return False
            if self.searching.keeps_from(board, found[0].rank):
                found = self._rooms.best(board, self._beside_the_search(board))
                if found is None:
                    return False
            best, stage = found
            job = best.job
            places, inside = self._rooms.find(board, stage, job), best.inside or not job.preemptible  # R17
            if places is None or not self._hold(job, board.pool, places, inside=inside, rule="R15"):
                if self.is_full:
                    return False
                self._rooms.fail(board, stage, best.number)
                continue
            self._leave_line(best.post.strand.groups[best.number], job)
            self.standings.refresh()
            self._rooms.granted(board, job)
            return True

    def _resume_before(self, pool: PoolState, rank: Rank | None, board: PoolQueue | None = None) -> bool:
        """Let the best-ranked suspended job go on, here or where it was, if it ranks before `rank`; False when there is none (R29)."""
        found = self._rooms.best_suspended(pool, self.resuming)
        moves = self._rooms.best_moving(pool, self.moving, self.resuming) if self.moving else None
        if moves is not None and (found is None or moves[0] < found[0]):
            return self._goes_first(moves[0], rank, board) and self._move(moves[1], pool, moves[2])
        return found is not None and self._goes_first(found[0], rank, board) and self._resume(found[1], pool)

    def _goes_first(self, mine: Rank, rank: Rank | None, board: PoolQueue | None) -> bool:
        """Whether a suspended job of the rank `mine` is next in a pool, before the candidate of `rank`."""
        if (rank is not None and rank < mine) or self.is_full:
            return False
        return board is None or not self.searching.keeps_from(board, mine)

    def _resume(self, job: JobRecord, pool: PoolState) -> bool:
        """It goes on where it was; False if this record has no room for it."""
        fact = resume(job)
        if not self.room.takes((fact,)):
            self.is_full = not self.room.untouched
            return False
        for lease in job.leases.values():
            self._try(job, pool, capacity.gpu_part(lease))
        self._goes_on(job, [fact])
        return True

    def _move(self, job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> bool:
        """It goes on in another place; False if this record has no room for it."""
        facts = move(job, pool, places)
        if not self.room.takes(facts):
            self.is_full = not self.room.untouched
            return False
        kept = nomination_of(self.state, job, pool, places)
        self._yield(kept, 1)
        self._moved.append(kept)
        self._goes_on(job, facts)
        return True

    def _goes_on(self, job: JobRecord, facts: list[AnyFact]) -> None:
        self.resuming.take(job)
        self.moving.take(job)
        self.facts += facts
        self.standings.refresh()

    def _yield(self, kept: Preemption, sign: int) -> None:
        """Count the places of a job that moves as kept, and what it holds as yielding, or, with -1, no more (R17, R29)."""
        for lease in kept.job.leases.values():
            capacity.yield_use(self.state, kept.job, self.state.pools[lease.pool], capacity.held_by(lease), sign)
        (capacity.nominate if sign > 0 else capacity.lift)(self.state, kept)

    def _allowed(self, post: PoolCandidates, requests: int) -> int:
        """Of the requests of a post those whose head does not go elsewhere: to an earlier pool of its order (R18, R19)."""
        if not self.passed_over and not post.earlier:
            return requests
        if self.passed_over:
            for number in bits_of(requests):
                if post.strand.heads[number][1].key in self.passed_over:
                    requests &= ~(1 << number)
        for earlier in post.earlier:
            if not requests:
                break
            requests &= ~self._rooms.room(earlier, requests)
            requests &= ~self.searching.spills_not(earlier, requests)
        return requests

    def _beside_the_search(self, board: PoolQueue) -> Callable[[PoolCandidates, int], int]:
        """As `_allowed`, but only requests that go to other GPU models than the job may for which victims are looked for."""
        first, beside = self.searching.job_in(board), 0
        models = frozenset(first.request.shape.models) if first is not None else frozenset()
        for number, request in enumerate(self.standings.needs.requests):
            if models and request.shape.models and models.isdisjoint(request.shape.models):
                beside |= 1 << number
        return lambda post, requests: self._allowed(post, requests & beside)

    def _places(self, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
        total = job.request.total
        if over_capacity(pool, job.request.sums) is not None:
            return None
        scopes, against = scopes_of(self.state, job.policy, pool.document.name), to_start(self.state)
        if over_limit(scopes, pool.governed, total, beyond=job.beyond, against=against):
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
            self._try(job, pool, place)
        self.facts += facts
        return True

    def _try(self, job: JobRecord, pool: PoolState, place: Place) -> None:
        node = self.state.nodes[place.node]
        if node.probation is not None and not node.probation.job:  # no other one before this one runs (R36)
            node.probation.job = job.key
            pool.index.put(node)
            self._on_probation.append(node)
        charged = {key: amount for key, amount in place.amounts.items() if key not in self._unbounded}
        capacity.try_on(self.state, job, pool, place, charged, 1)
        self._tried.append((job, pool, place, charged))

    def undo(self) -> None:
        """Leave the state as it was found."""
        self._rooms.leave()
        for job, pool, place, charged in reversed(self._tried):
            capacity.try_on(self.state, job, pool, place, charged, -1)
        for node in self._on_probation:
            home = self.state.pool_of(node)
            if node.probation is not None and home is not None:
                node.probation.job = ""
                home.index.put(node)
        for kept in self._moved:
            self._yield(kept, -1)
        for preemption in self._lifted:
            capacity.nominate(self.state, preemption)
        for group, job in reversed(self._taken):
            group.join(job)
            self.state.pending.mark(group)


def leases(job: JobRecord, pool: PoolState, places: tuple[Place, ...], *, inside: bool, rule: str) -> list[AnyFact]:
    """The facts by which the job's next attempt begins: one lease for each replica."""
    over_budget = must_borrow(job.policy)
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
            over_budget=over_budget,
        )
        for number, place in enumerate(places)
    ]


def grant(
    state: State, standings: Standings, now: int, skip: AbstractSet[str], room: RecordRoom, *, in_line: bool = True
) -> list[AnyFact]:
    """All grants of one round, and the searches that open because somebody found no room; none where nobody is in line.

    `skip`: jobs that this record settles; `room`: what it still holds; without `in_line` only to those for whom places are kept (R27).
    """
    state.pending.ripen(now)
    if not (state.pending.groups or state.preemptions or state.holds or state.suspended):
        return []
    turn = _Round(state, standings, now, skip, room)
    try:
        turn.grant_nominated()
        if in_line:
            turn.keep()
            turn.grant_pending()
    finally:
        turn.undo()
    opened = turn.searching.facts(state)
    return [*turn.facts, *room.fill(opened)]
