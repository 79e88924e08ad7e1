"""The candidates of one pool in the order of their rank, found without visiting those that do not fit (R15).

Candidates are in tiers by static rank. In a tier, jobs inside their reservation are, for each request, in one list by their place in line
(`inside_tier`). Borrowers are by their policy's share, and in a policy by their place in line: when a policy's share changes, one entry
moves for each static rank it has jobs in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.allocator.backfill_candidates import BackfillCandidates
from headrace.allocator.inside_tier import InsideTier
from headrace.allocator.request_bitsets import bits_of
from headrace.allocator.request_classes import BorrowerLine, CandidateQueue, PoolCandidates
from headrace.domain.queueing.ranking import dominant_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.allocator.fair_line import FairLine
    from headrace.domain.indexes.pending import Place
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.queueing.ranking import Rank, StaticRank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


class PoolCandidate:
    """The best-ranked job of a pool that fits: the head of the `candidates`' request `number`."""

    __slots__ = ("candidates", "number")

    def __init__(self, candidates: PoolCandidates, number: int) -> None:
        self.candidates = candidates
        self.number = number

    @property
    def job(self) -> JobRecord:
        """The job to be granted."""
        return self.candidates.pending_class.heads[self.number][1]

    @property
    def rank(self) -> Rank:
        """Rank of the job."""
        return self.candidates.rank(self.number)

    @property
    def inside(self) -> bool:
        """True if it fits in its unused reservation."""
        return bool(self.candidates.inside >> self.number & 1)


class Borrower:
    """A policy among the borrowers. Its share (R15) is computed on demand, after it has been marked as outdated.

    `outdated`: all such policies, whose queues are moved when the order is read next.
    """

    __slots__ = ("_is_known", "_outdated", "_policy", "_share", "_state", "borrower_queues")

    def __init__(self, state: State, policy: PolicyState, outdated: dict[Borrower, None]) -> None:
        self.borrower_queues: list[BorrowerQueue] = []
        self._state = state
        self._policy = policy
        self._outdated = outdated
        self._share = 0
        self._is_known = False

    @property
    def share(self) -> int:
        """The dominant share of the policy's borrowed units."""
        if not self._is_known:
            self._share, self._is_known = dominant_share(self._state, self._policy), True
        return self._share

    def invalidate(self) -> None:
        """Mark the share as outdated, after a change of the policy's scopes."""
        self._is_known = False
        self._outdated[self] = None

    def move(self) -> None:
        """Move its queues to the position of its share."""
        share = self.share
        for borrower_queue in self.borrower_queues:
            borrower_queue.move(share)


class BorrowerQueue(BorrowerLine):
    """The candidates of one policy among the borrowers of one static rank. `requests`: all that they wait for."""

    __slots__ = ("_borrower", "_number", "_place", "_tier", "requests")

    def __init__(self, tier: BorrowerTier, number: int, borrower: Borrower) -> None:
        super().__init__(tier.inside)
        self.requests = 0
        self._borrower = borrower
        self._place = 0
        self._tier = tier
        self._number = number
        borrower.borrower_queues.append(self)

    @property
    def share(self) -> int:
        """Dominant share of the policy."""
        return self._borrower.share

    @property
    def line(self) -> FairLine[PoolCandidates] | None:
        """The policy's candidates in the pool, if it is fair among users."""
        return self.pool_candidates[0].line

    @property
    def static(self) -> StaticRank:
        """The static rank that all its candidates have."""
        return self.pool_candidates[0].static

    def update_requests(self) -> None:
        """Update after a change of its candidates' borrowing requests."""
        requests = 0
        for candidates in self.pool_candidates:
            requests |= candidates.borrowing
        if requests and not self.requests:
            self._enter()
        elif self.requests and not requests:
            self._leave()
        self.requests = requests
        self._tier.requests |= requests

    def move(self, share: int) -> None:
        """Move to the position of the policy's new share."""
        if self.requests and self._place != share:
            self._leave()
            self._enter()

    def _enter(self) -> None:
        self._place = self.share
        insort(self._tier.borrower_queues, (self._place, self._number, self))

    def _leave(self) -> None:
        borrower_queues = self._tier.borrower_queues
        del borrower_queues[bisect_left(borrower_queues, (self._place, self._number))]


class BorrowerTier:
    """The borrowers of one static rank, by share, and beside them those inside their reservation.

    `requests`: all that borrowers wait for, or a superset.
    """

    __slots__ = ("borrower_queues", "inside", "requests", "static")

    def __init__(self, static: StaticRank) -> None:
        self.static = static
        self.inside: InsideTier[PoolCandidates] = InsideTier()
        self.borrower_queues: list[tuple[int, int, BorrowerQueue]] = []
        self.requests = 0

    def best(self, feasible: int, allowed: Callable[[PoolCandidates, int], int]) -> PoolCandidate | None:
        """The first borrower: of the policies with the smallest share and a feasible request, the first in line."""
        found: tuple[Place, PoolCandidates, int] | None = None
        requests, least = 0, -1
        for share, _, borrower_queue in self.borrower_queues:
            if found is not None and share != least:
                return PoolCandidate(found[1], found[2])
            requests |= borrower_queue.requests
            if not borrower_queue.requests & feasible:
                continue
            line = borrower_queue.line
            if line is not None:
                fair = line.first(feasible, allowed, borrower_queue.static)
                if fair is not None and (found is None or fair[1] < found[0]):
                    found, least = fair[1:], share
                continue
            for candidates in borrower_queue.pool_candidates:
                wanted = candidates.borrowing & feasible
                for number in bits_of(allowed(candidates, wanted)) if wanted else ():
                    place, _ = candidates.pending_class.heads[number]
                    if found is None or place < found[0]:
                        found, least = (place, candidates, number), share
        if found is not None:
            return PoolCandidate(found[1], found[2])
        self.requests = requests
        return None


_STATIC = attrgetter("static")


class PoolQueue(CandidateQueue):
    """All candidates of one pool.

    `backfill`: the heads for which units may be kept now (R16). `asking`: candidates that might take something back; `fresh`: those of them
    with requests that may never have been searched for (R23).
    """

    __slots__ = (
        "_fair",
        "_order",
        "_outdated",
        "_tiers",
        "asking",
        "backfill",
        "fresh",
    )

    def __init__(self, pool: PoolState, outdated: dict[Borrower, None], *, amended: bool) -> None:
        super().__init__(pool)
        self.backfill = BackfillCandidates(pool.document, amended=amended)
        self._outdated = outdated
        self.asking: dict[PoolCandidates, None] = {}
        self.fresh: dict[PoolCandidates, None] = {}
        self._fair: dict[FairLine[PoolCandidates], int] = {}  # with the number of its requests inside
        self._tiers: dict[StaticRank, BorrowerTier] = {}
        self._order: list[BorrowerTier] = []  # ascending by static rank

    def advance(self, now: int) -> None:
        """Update the heads for which units may be kept at `now`."""
        if self.backfill.advance(now):
            self.version += 1

    def tier(self, static: StaticRank) -> BorrowerTier:
        """The borrowers of a static rank."""
        tier = self._tiers.get(static)
        if tier is None:
            tier = self._tiers[static] = BorrowerTier(static)
            insort(self._order, tier, key=_STATIC)
        return tier

    def add_head(self, candidates: PoolCandidates, number: int, head: JobRecord) -> None:
        """Note a new head of a request, for which units may be kept once it has waited long enough."""
        self.backfill.add_head(candidates, number, head)

    def count_fair(self, line: FairLine[PoolCandidates], change: int) -> None:
        """Count the requests of a policy that is fair among users which have come inside its reservation, or have left it (negative)."""
        count = self._fair.get(line, 0) + change
        if count:
            self._fair[line] = count
        else:
            self._fair.pop(line, None)

    def update_asking(self, candidates: PoolCandidates) -> None:
        """Update whether the candidates might take something back."""
        if candidates.asking:
            self.asking[candidates] = self.fresh[candidates] = None
        else:
            self.asking.pop(candidates, None)
            self.fresh.pop(candidates, None)

    def best(self, feasible: int, allowed: Callable[[PoolCandidates, int], int]) -> PoolCandidate | None:
        """The best-ranked candidate whose request is in `feasible`; `allowed` restricts the requests of its candidates."""
        inside = self._first_inside(feasible, allowed)
        if inside is not None:
            return inside
        if self._outdated:
            for borrower in self._outdated:
                borrower.move()
            self._outdated.clear()
        for tier in self._order:
            if tier.requests & feasible:
                found = tier.best(feasible, allowed)
                if found is not None:
                    return found
        return None

    def _first_inside(self, feasible: int, allowed: Callable[[PoolCandidates, int], int]) -> PoolCandidate | None:
        """The best-ranked one of those inside their reservation."""
        found: tuple[StaticRank, Place] | None = None
        best: PoolCandidate | None = None
        if feasible & self.inside:
            for tier in self._order:
                if not tier.inside.requests & feasible:
                    continue
                first = tier.inside.first(feasible, allowed)
                if first is not None:
                    place, candidates, bit = first
                    found, best = (tier.static, place), PoolCandidate(candidates, bit.bit_length() - 1)
                    break
            else:
                self.inside = 0
                for tier in self._order:
                    self.inside |= tier.inside.requests
        fair = self._first_fair(feasible, allowed, found) if self._fair else None
        return best if fair is None else fair

    def _first_fair(
        self, feasible: int, allowed: Callable[[PoolCandidates, int], int], first: tuple[StaticRank, Place] | None
    ) -> PoolCandidate | None:
        """The first inside its reservation of policies that are fair among users, if it goes before `first`."""
        best, found = first, None
        for line in self._fair:
            fair = line.first(feasible, allowed)
            if fair is not None and (best is None or fair[:2] < best):
                best, found = fair[:2], PoolCandidate(fair[2], fair[3])
        return found
