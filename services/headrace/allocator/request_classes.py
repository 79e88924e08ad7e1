"""Where jobs of one queue stand in each pool of their order, as sets of requests (R7, R15, R23).

A *strand* is all pending jobs of a queue that differ in nothing but their request, priority and age: they have one place in every order of
rank. A *post* is a strand in one pool. A *stand* is a policy in one pool, and a *share* its tenant there: that is where the arithmetic of
accounts is done, once for all requests and strands. A *footing* is what follows from it for all of the stand's strands on the same terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.allocator.request_bitsets import EVERY, NO_KEYS, Gauges, Needs
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.queueing.gates import must_borrow
from headrace.domain.queueing.ranking import compose
from headrace.domain.state.quota import lending_side, policy_scope, policy_side

if TYPE_CHECKING:
    from headrace.allocator.pool_queue import BorrowerQueue, InsideEntry, PoolQueue
    from headrace.domain.indexes.pending import JobGroup, Place
    from headrace.domain.model.jobs import JobRecord, PolicyState, Scope
    from headrace.domain.queueing.ranking import Rank, StaticRank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


LENDS_NOTHING = False, False


class TenantShareInPool:
    """A tenant's share in one pool; where it has none it limits nothing, and reserves nothing of its own (R7)."""

    __slots__ = ("_is_stuck", "_pool", "_scope", "above", "fits", "is_reserved", "is_there", "stands")

    def __init__(self, pool: PoolState, scope: Scope | None, *, amended: bool) -> None:
        scopes = () if scope is None else (scope,)
        self._pool = pool
        self._scope = scope if amended else None
        self._is_stuck = False
        self.is_there = scope is not None
        self.is_reserved = scope is not None and scope.reservation is not None
        reserving = scopes if self.is_reserved else ()
        self.fits = Gauges(scopes, reserving, reserving, pool.governed, holds=amended)
        self.above = NO_KEYS
        self.stands: list[PolicyInPool] = []

    def measure(self, needs: Needs) -> bool:
        """Look at what fits, and on which keys it is above its reservation; whether any of that has changed."""
        was_stuck, self._is_stuck = self._is_stuck, bool(self._pool.overdue and self._scope is not None and self._scope.apart)
        changed = self.fits.read(needs)
        if not changed and self.fits.above == self.above and self._is_stuck == was_stuck:
            return False
        self.above = self.fits.above
        return True

    @property
    def ready(self) -> int:
        """The requests for which the limit has room once those that yield have left; when overdue ones leave is unknown (R17)."""
        return self.fits.limit if self._is_stuck else self.fits.planned


class PolicyInPool:
    """A policy in one pool, by its own accounts: what fits under its limits and inside its reservation."""

    __slots__ = ("_board", "_footings", "_lends", "_own", "fits", "policy", "share")

    def __init__(self, state: State, policy: PolicyState, board: PoolQueue, share: TenantShareInPool) -> None:
        self.policy = policy
        self.share = share
        self._footings: dict[ClassTraits, EligibilityMask] = {}
        self._board = board
        self._own = policy_scope(policy, board.name)
        self._lends = LENDS_NOTHING
        self.fits = Gauges(
            (policy.wide, self._own),
            policy_side(policy, board.name),
            lending_side(state, policy, board.name),
            board.pool.governed,
            holds=state.terms.amended,
        )
        share.stands.append(self)

    def measure(self, needs: Needs) -> None:
        """Its accounts have changed: put its strands where they now belong."""
        changed = self.fits.read(needs)
        if self.fits.above or self.share.above or self._lends != LENDS_NOTHING:
            self.lend()
        if changed:
            self.settle()

    def footing(self, strand: PendingClass) -> EligibilityMask:
        """That of all strands here on the terms of this one."""
        footing = self._footings.get(strand.terms)
        if footing is None:
            footing = self._footings[strand.terms] = EligibilityMask(strand.terms)
            footing.settle(self)
        return footing

    def lend(self) -> None:
        """Note whether it holds something borrowed that others might take back: of its own tenant, and of other tenants (R23, R24)."""
        share, above = self.share, self.fits.above
        within = across = False
        if (above or share.above) and self.policy.jobs:
            leased = self._own.leased
            within = not above.isdisjoint(leased)
            across = not share.above.isdisjoint(leased) if share.is_reserved else within
        if self._lends != (within, across):
            self._lends = within, across
            self._board.lend(self.policy, within=within, across=across)

    def settle(self) -> None:
        """Put its strands where they now belong."""
        for footing in self._footings.values():
            footing.settle(self)


class ClassTraits(NamedTuple):
    """What decides, besides accounts, where a strand's requests belong. Each holds for all requests, or for none of them.

    `backed` by its policy's reservation are all, or none while a budget is used up (R33). `by_firm`: whether non-preemptible use alone
    decides who ranks inside the reservation.
    """

    preemptible: bool
    by_firm: bool
    beyond: int
    backed: int
    borrows: int
    takes_lower: int


class EligibilityMask:
    """Where requests on some terms belong at a stand, whether or not anybody waits for them. Sets of requests as in `PoolCandidates`.

    `fits`: those that fit in the unused reservation (R15 (1)). `ready`: those that may be granted as far as accounts go, or could be
    once those who yield have left (R17): nobody else has to be looked for. `within` and `across`: those that might take back from policies
    of their tenant, and of others (R23); `lower`: those that might take from lower priorities.
    """

    __slots__ = ("_terms", "across", "asking", "borrowing", "fits", "inside", "lower", "posts", "ready", "within")

    def __init__(self, terms: ClassTraits) -> None:
        self._terms = terms
        self.posts: list[PoolCandidates] = []
        self.fits = self.inside = self.borrowing = self.asking = self.ready = self.within = self.across = self.lower = 0

    def settle(self, stand: PolicyInPool) -> None:
        """Work it out anew, and put the strands that have a request of which it has changed where they now belong."""
        preemptible, by_firm, beyond, backed, borrows, takes_lower = self._terms
        own, share = stand.fits, stand.share.fits
        by_use, firm = backed & own.inside & share.inside, backed & own.firm & share.firm
        fits = self.fits = firm if by_firm else by_use
        may_hold = by_use | borrows if preemptible else firm
        opened, planned = (own.limit | beyond) & share.limit & may_hold, (own.planned | beyond) & may_hold
        within = planned & backed & own.inside
        across = planned & backed & share.inside if stand.share.is_reserved else within
        lower = planned & takes_lower
        self.ready = planned & stand.share.ready
        inside, borrowing, asking = opened & fits, opened & ~fits, within | across | lower
        moved = (inside ^ self.inside) | (borrowing ^ self.borrowing) | (asking ^ self.asking)
        moved |= (within ^ self.within) | (across ^ self.across)
        if moved:
            self.inside, self.borrowing, self.asking = inside, borrowing, asking
            self.within, self.across, self.lower = within, across, lower
            lines: dict[BorrowerQueue, None] = {}
            for post in self.posts:
                if post.strand.present & moved:
                    post.move_requests(lines)
            for line in lines:
                line.settle()


class PendingClass:
    """`present`: the requests of which it has jobs; by the number of each, the group and its head with the head's place in line."""

    __slots__ = ("_since", "groups", "heads", "policy", "posts", "present", "reclaims_first", "terms")

    def __init__(self, group: JobGroup, *, borrows: bool, reclaims_first: bool, by_firm: bool) -> None:
        self.policy = group.policy
        self.terms = ClassTraits(
            preemptible=group.preemptible,
            by_firm=by_firm,
            beyond=EVERY if group.beyond else 0,
            backed=0 if must_borrow(group.policy) else EVERY,
            borrows=EVERY if borrows and group.preemptible else 0,
            takes_lower=EVERY if group.policy.document.preemption.preempt_lower_priority else 0,
        )
        self.reclaims_first = reclaims_first
        self.present = 0
        self.groups: dict[int, JobGroup] = {}
        self.heads: dict[int, tuple[Place, JobRecord]] = {}
        self._since: dict[int, int] = {}
        self.posts: list[PoolCandidates] = []

    def see(self, number: int, group: JobGroup, head: JobRecord | None) -> bool:
        """Look at the head of a group; whether it has come, or gone for good."""
        if head is None:
            if self.groups.get(number) is not group:
                return False
            del self.groups[number], self.heads[number]
            self.present &= ~(1 << number)
            return True
        is_new = number not in self.groups
        if is_new:
            for post in self.posts:
                post.board.know(number, group)
        self.groups[number] = group
        if is_new or self.heads[number][1] is not head or self._since[number] != head.pending_since:
            self.heads[number], self._since[number] = (place_in_line(head), head), head.pending_since
            for post in self.posts:
                post.move(number)
                if post.due or post.resting:
                    post.due, post.resting = post.due & ~(1 << number), post.resting & ~(1 << number)
                post.board.turns.await_room(post, number, head)
        self.present |= 1 << number
        return is_new


class PoolCandidates:
    """A strand in one pool. `earlier`: its posts in the pools before this one in its order.

    Sets of requests: `inside` and `borrowing` may be granted there as far as accounts go; `asking` might take something back, `reclaiming`
    for its reservation (R23); the heads of those that are `due` have waited for so long that units may be kept for them (R16), of those
    that are `resting` only where they surely come free.
    """

    __slots__ = (
        "asking",
        "board",
        "borrowing",
        "due",
        "earlier",
        "entries",
        "footing",
        "inside",
        "line",
        "place",
        "reclaiming",
        "resting",
        "serial",
        "static",
        "strand",
    )

    def __init__(
        self, strand: PendingClass, stand: PolicyInPool, board: PoolQueue, line: BorrowerQueue, static: StaticRank
    ) -> None:
        self.strand = strand
        self.footing = stand.footing(strand)
        self.board = board
        self.line = line
        self.static = static
        self.earlier = tuple(strand.posts)
        self.inside = self.borrowing = self.asking = self.reclaiming = self.due = self.resting = 0
        self.entries: dict[int, InsideEntry] = {}
        self.serial = board.number_post()
        strand.posts.append(self)
        self.footing.posts.append(self)
        line.posts.append(self)

    def settle(self) -> None:
        """Put its requests where they now belong: inside the reservation, among the borrowers, or in neither."""
        lines: dict[BorrowerQueue, None] = {}
        self.move_requests(lines)
        for line in lines:
            line.settle()

    def move_requests(self, lines: dict[BorrowerQueue, None]) -> None:
        """The same, but its line is only added to `lines`, so that a line with many posts is settled once for all of them."""
        present, footing, board = self.strand.present, self.footing, self.board
        inside = present & footing.inside
        if inside != self.inside:
            if left := self.inside & ~inside:
                board.step_out(self, left)
            if came := inside & ~self.inside:
                board.step_in(self, came)
            self.inside = inside
            board.version += 1
        borrowing = present & footing.borrowing
        if borrowing != self.borrowing:
            self.borrowing = borrowing
            lines[self.line] = None
            board.version += 1
        asking = present & footing.asking
        if asking != self.asking:
            self.asking = asking
            board.ask(self)
            board.version += 1
        reclaiming = present & (footing.within | footing.across)
        if reclaiming != self.reclaiming:
            self.reclaiming = reclaiming
            board.version += 1

    def move(self, number: int) -> None:
        """The head of a request has changed."""
        bit = 1 << number
        if self.inside & bit:
            self.board.step_out(self, bit)
            self.board.step_in(self, bit)

    def rank(self, number: int, place: Place | None = None) -> Rank:
        """What the head of a request, or another at this place in line, is ordered by in this pool (R15)."""
        return (*compose(self.static, self.line.share, inside=self.fits(number)), *(place or self.strand.heads[number][0]))

    def fits(self, number: int) -> bool:
        """Whether a request fits in the unused reservation here (R15 (1))."""
        return bool(self.footing.fits >> number & 1)
