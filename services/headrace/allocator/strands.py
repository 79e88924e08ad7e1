"""Where jobs of one queue stand in each pool of their order, as sets of requests (R7, R15, R23).

A *strand* is all pending jobs of a queue that differ in nothing but their request, priority and age: they have one place in every order of
rank. A *post* is a strand in one pool. A *stand* is a policy in one pool, and a *share* its tenant there: that is where the arithmetic of
accounts is done, once for all requests and strands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.headroom import EVERY, Needs, bits_of
from headrace.domain.gates import must_borrow
from headrace.domain.pending import place_in_line
from headrace.domain.scopes import is_above, policy_scope, policy_side

if TYPE_CHECKING:
    from headrace.allocator.lines import Board, InsideEntry, Line
    from headrace.domain.pending import JobGroup, Place
    from headrace.domain.ranking import Rank, StaticRank
    from headrace.domain.state import JobRecord, PolicyState, PoolState, Scope


class Share:
    """A tenant's share in one pool; where it has none it limits nothing, and reserves nothing of its own (R7)."""

    __slots__ = ("above", "firm", "inside", "is_reserved", "limit", "pool", "scope", "stands")

    def __init__(self, pool: PoolState, scope: Scope | None) -> None:
        self.pool = pool
        self.scope = scope
        self.is_reserved = scope is not None and scope.reservation is not None
        self.limit = self.inside = self.firm = EVERY
        self.above: tuple[str, ...] = ()
        self.stands: list[Stand] = []

    def measure(self, needs: Needs) -> bool:
        """Work out anew what fits, and on which keys it is above its reservation; whether any of that has changed."""
        if self.scope is None:
            return False
        before = self.limit, self.inside, self.firm, self.above
        governed, scopes = self.pool.governed, (self.scope,)
        self.limit = needs.within_limits(scopes, governed)
        if self.is_reserved:
            self.inside = needs.within_reservations(scopes, governed)
            self.firm = needs.within_reservations(scopes, governed, firm=True)
            self.above = tuple(sorted(key for key in self.scope.use if key in governed and is_above(scopes, key)))
        return before != (self.limit, self.inside, self.firm, self.above)


class Stand:
    """A policy in one pool: the requests within its limits (`limit`), and within its reservation by all use and by firm use (R17)."""

    __slots__ = ("_board", "_own", "_side", "firm", "inside", "limit", "policy", "posts", "share")

    def __init__(self, policy: PolicyState, board: Board, share: Share) -> None:
        self.policy = policy
        self.share = share
        self.posts: list[Post] = []
        self.limit = self.inside = self.firm = 0
        self._board = board
        self._own = (policy.wide, policy_scope(policy, board.name))
        self._side = policy_side(policy, board.name)
        share.stands.append(self)

    def measure(self, needs: Needs) -> bool:
        """Work out anew what fits; whether that has changed."""
        before = self.limit, self.inside, self.firm
        governed = self._board.pool.governed
        self.limit = needs.within_limits(self._own, governed)
        self.inside = needs.within_reservations(self._side, governed)
        self.firm = needs.within_reservations(self._side, governed, firm=True)
        self._lend()
        return before != (self.limit, self.inside, self.firm)

    def _lend(self) -> None:
        """Note whether it holds something borrowed that others might take back: of its own tenant, and of other tenants (R23, R24)."""
        governed, share = self._board.pool.governed, self.share
        leased = self._own[1].leased if self.policy.jobs else {}
        within = any(key in governed and is_above(self._side, key) for key in leased)
        across = any(key in leased for key in share.above) if share.is_reserved else within
        self._board.lend(self.policy, within=within, across=across)

    def settle(self) -> None:
        """Put all its strands where they now belong."""
        self._lend()
        for post in self.posts:
            post.settle()


class Strand:
    """`present`: the requests of which it has jobs; by the number of each, the group and its head with the head's place in line.

    `backed` by its policy's reservation are all requests, or none while a budget is used up (R33).
    """

    __slots__ = (
        "backed",
        "beyond",
        "borrows",
        "groups",
        "heads",
        "policy",
        "posts",
        "preemptible",
        "present",
        "reclaims_first",
        "takes_lower",
    )

    def __init__(self, group: JobGroup, *, borrows: bool, reclaims_first: bool) -> None:
        self.policy = group.policy
        self.preemptible = group.preemptible
        self.beyond = EVERY if group.beyond else 0
        self.backed = 0 if must_borrow(group.policy) else EVERY
        self.borrows = EVERY if borrows and group.preemptible else 0
        self.takes_lower = EVERY if group.policy.document.preemption.preempt_lower_priority else 0
        self.reclaims_first = reclaims_first
        self.present = 0
        self.groups: dict[int, JobGroup] = {}
        self.heads: dict[int, tuple[Place, JobRecord]] = {}
        self.posts: list[Post] = []

    def see(self, number: int, group: JobGroup) -> bool:
        """Look at the head of a group; whether it has come, or gone for good."""
        head = group.head()
        if head is None:
            if self.groups.get(number) is not group:
                return False
            del self.groups[number], self.heads[number]
            self.present &= ~(1 << number)
            return True
        is_new = number not in self.groups
        if is_new:
            for post in self.posts:
                post.board.know(number, group.request)
        self.groups[number] = group
        if is_new or self.heads[number][1] is not head:
            self.heads[number] = (place_in_line(head), head)
            for post in self.posts:
                post.move(number)
        self.present |= 1 << number
        return is_new


class Post:
    """A strand in one pool. `earlier`: its posts in the pools before this one in its order.

    Sets of requests: `inside` and `borrowing` may be granted there as far as accounts go; `asking` might take something back (R23).
    """

    __slots__ = ("asking", "board", "borrowing", "earlier", "entries", "inside", "line", "place", "stand", "static", "strand")

    def __init__(self, strand: Strand, stand: Stand, board: Board, line: Line, static: StaticRank) -> None:
        self.strand = strand
        self.stand = stand
        self.board = board
        self.line = line
        self.static = static
        self.earlier = tuple(strand.posts)
        self.inside = self.borrowing = self.asking = 0
        self.entries: dict[int, InsideEntry] = {}
        strand.posts.append(self)
        stand.posts.append(self)
        line.posts.append(self)

    def settle(self) -> None:
        """Work out where its requests belong: inside the reservation, among the borrowers, or nowhere for now."""
        strand, stand, share = self.strand, self.stand, self.stand.share
        fits = strand.backed & (stand.inside & share.inside if strand.preemptible else stand.firm & share.firm)
        aims = strand.present & (stand.limit | strand.beyond) & (fits | strand.borrows)
        reclaims = strand.backed & (stand.inside | (share.inside if share.is_reserved else 0))
        opened, asking = aims & share.limit, aims & (reclaims | strand.takes_lower)
        inside, borrowing = opened & fits, opened & ~fits
        if inside != self.inside:
            for number in bits_of(self.inside & ~inside):
                self.board.step_out(self, number)
            for number in bits_of(inside & ~self.inside):
                self.board.step_in(self, number)
            self.inside = inside
            self.board.version += 1
        if borrowing != self.borrowing:
            self.borrowing = borrowing
            self.line.settle()
            self.board.version += 1
        if asking != self.asking:
            self.asking = asking
            self.board.ask(self)
            self.board.version += 1

    def move(self, number: int) -> None:
        """The head of a request has changed."""
        if self.inside >> number & 1:
            self.board.step_out(self, number)
            self.board.step_in(self, number)

    def rank(self, number: int, place: Place | None = None) -> Rank:
        """What the head of a request, or another at this place in line, is ordered by in this pool (R15)."""
        is_inside = self.fits(number)
        place = place or self.strand.heads[number][0]
        return (0 if is_inside else 1, *self.static, 0 if is_inside else self.line.share, *place)

    def fits(self, number: int) -> bool:
        """Whether a request fits in the unused reservation here (R15 (1))."""
        stand, share = self.stand, self.stand.share
        fits = stand.inside & share.inside if self.strand.preemptible else stand.firm & share.firm
        return bool(fits >> number & 1)
