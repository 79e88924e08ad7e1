"""The candidates of one pool in the order of their rank, found without looking at those that do not fit (R15).

Who is inside its reservation stands, for each request, in one list by rank. Borrowers stand by static rank, in each by their policy's
share, and in a policy by their place in line: when a policy's share changes, one entry moves for each static rank it has jobs in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

from headrace.allocator.backfill_candidates import Turns
from headrace.allocator.request_bitsets import Ceiling, bits_of
from headrace.allocator.request_classes import PoolCandidates
from headrace.domain.model.dedication import reach_in
from headrace.domain.queueing.ranking import dominant_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.domain.indexes.pending import JobGroup, Place
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.queueing.ranking import Rank, StaticRank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

PLACEABLE_KEPT = 4_096
"""Sets of shapes for which it is remembered which requests they are."""
InsideEntry = tuple["StaticRank", "Place", int, "PoolCandidates"]
"""No two have the same place in line, so posts are never compared."""


class PoolCandidate(NamedTuple):
    """The best-ranked job of a pool that fits: the head of `post`'s request `number`."""

    post: PoolCandidates
    number: int

    @property
    def job(self) -> JobRecord:
        """The job that is to be granted."""
        return self.post.strand.heads[self.number][1]

    @property
    def rank(self) -> Rank:
        """What it is ordered by."""
        return self.post.rank(self.number)

    @property
    def inside(self) -> bool:
        """Whether it fits in its unused reservation."""
        return bool(self.post.inside >> self.number & 1)


class Borrower:
    """A policy among the borrowers. Its share (R15) is worked out when somebody asks for it, after it has come into doubt.

    `doubted`: all such policies; their lines may have to stand elsewhere, which is seen to when somebody looks.
    """

    __slots__ = ("_doubted", "_is_known", "_policy", "_share", "_state", "lines")

    def __init__(self, state: State, policy: PolicyState, doubted: dict[Borrower, None]) -> None:
        self.lines: list[BorrowerQueue] = []
        self._state = state
        self._policy = policy
        self._doubted = doubted
        self._share = 0
        self._is_known = False

    @property
    def share(self) -> int:
        """The dominant share of what it borrows."""
        if not self._is_known:
            self._share, self._is_known = dominant_share(self._state, self._policy), True
        return self._share

    def doubt(self) -> None:
        """Its accounts have changed."""
        self._is_known = False
        self._doubted[self] = None

    def move(self) -> None:
        """Have its lines stand where its share puts them now."""
        share = self.share
        for line in self.lines:
            line.move(share)


class BorrowerQueue:
    """The strands of one policy among the borrowers of one static rank. `requests`: all that they wait for."""

    __slots__ = ("_borrower", "_ladder", "_number", "_place", "posts", "requests")

    def __init__(self, ladder: BorrowerTier, number: int, borrower: Borrower) -> None:
        self.posts: list[PoolCandidates] = []
        self.requests = 0
        self._borrower = borrower
        self._place = 0
        self._ladder = ladder
        self._number = number
        borrower.lines.append(self)

    @property
    def share(self) -> int:
        """Its policy's."""
        return self._borrower.share

    def settle(self) -> None:
        """What its posts borrow has changed."""
        requests = 0
        for post in self.posts:
            requests |= post.borrowing
        if requests and not self.requests:
            self._enter()
        elif self.requests and not requests:
            self._leave()
        self.requests = requests
        self._ladder.requests |= requests

    def move(self, share: int) -> None:
        """Stand where its policy's share, which is this now, puts it."""
        if self.requests and self._place != share:
            self._leave()
            self._enter()

    def _enter(self) -> None:
        self._place = self.share
        insort(self._ladder.lines, (self._place, self._number, self))

    def _leave(self) -> None:
        lines = self._ladder.lines
        del lines[bisect_left(lines, (self._place, self._number))]


class BorrowerTier:
    """The borrowers of one static rank, by share. `requests`: all that they wait for, or more than that."""

    __slots__ = ("lines", "requests")

    def __init__(self) -> None:
        self.lines: list[tuple[int, int, BorrowerQueue]] = []
        self.requests = 0

    def best(self, feasible: int, allowed: Callable[[PoolCandidates, int], int]) -> PoolCandidate | None:
        """The first borrower: of the policies with the smallest share that want something feasible, whoever stands first in line."""
        found: tuple[Place, PoolCandidates, int] | None = None
        requests, least = 0, -1
        for share, _, line in self.lines:
            if found is not None and share != least:
                return PoolCandidate(*found[1:])
            requests |= line.requests
            if not line.requests & feasible:
                continue
            for post in line.posts:
                wanted = post.borrowing & feasible
                for number in bits_of(allowed(post, wanted)) if wanted else ():
                    place, _ = post.strand.heads[number]
                    if found is None or place < found[0]:
                        found, least = (place, post, number), share
        if found is not None:
            return PoolCandidate(*found[1:])
        self.requests = requests
        return None


class PoolQueue:
    """All candidates of one pool. `version` counts changes of who stands there with what request, not those of their order.

    `turns`: for which heads units may be kept now (R16). `asking`: posts
    that might take something back; `fresh`, those of them that may have requests that were never searched for (R23). `doubted`: borrowers,
    here and elsewhere, that may have to stand in another place. `lendings`: counts changes of who holds something that others might take.
    """

    __slots__ = (
        "_across",
        "_doubted",
        "_inside",
        "_ladders",
        "_lending",
        "_of_shape",
        "_order",
        "_placeable",
        "_posts",
        "_within",
        "asking",
        "ceiling",
        "fresh",
        "inside",
        "lendings",
        "name",
        "pool",
        "turns",
        "version",
    )

    def __init__(self, pool: PoolState, doubted: dict[Borrower, None], *, amended: bool) -> None:
        self.pool = pool
        self.turns = Turns(pool.document, amended=amended)
        self._doubted = doubted
        self.name = pool.document.name
        self.version = 0
        self.inside = 0
        self.asking: dict[PoolCandidates, None] = {}
        self.fresh: dict[PoolCandidates, None] = {}
        self._of_shape: dict[tuple[str, ...], dict[int, int]] = {}
        self._placeable: dict[tuple[str, ...], dict[int, int]] = {}
        self.ceiling = Ceiling(pool)
        self._inside: dict[int, list[InsideEntry]] = {}  # by the request's bit
        self._ladders: dict[StaticRank, BorrowerTier] = {}
        self._order: list[StaticRank] = []
        self._within: dict[str, dict[PolicyState, None]] = {}
        self._across: dict[str, dict[PolicyState, None]] = {}
        self._lending: dict[str, None] = {}  # the tenants that lend across
        self._posts = 0
        self.lendings = 0

    def number_post(self) -> int:
        """A number that no other post here has: for a moment, while a job goes from one group to another, two have the same head."""
        self._posts += 1
        return self._posts

    def know(self, number: int, group: JobGroup) -> None:
        """Somebody waits here for this request, and may use the nodes of some owners (R21)."""
        shape = self.pool.index.number(group.request.shape)
        of_shape = self._of_shape.setdefault(reach_in(self.pool.document, group.policy.key), {})
        known = of_shape.get(shape, 0)
        if not known >> number & 1:
            of_shape[shape] = known | 1 << number
            self._placeable.clear()

    def ripen(self, now: int) -> None:
        """Whoever has waited long enough by now is due."""
        if self.turns.come(now):
            self.version += 1

    def placeable(self) -> int:
        """The requests of which some node takes one replica now."""
        requests = 0
        for owners in self._of_shape:
            requests |= self._placeable_on(owners)
        return requests

    def _placeable_on(self, owners: tuple[str, ...]) -> int:
        """Remembered by set of shapes, because in a full pool the same few come and go; a request goes with its one shape."""
        shapes = self.pool.index.feasible(owners)
        known = self._placeable.setdefault(owners, {0: 0})
        requests = known.get(shapes)
        if requests is None:
            if len(known) > PLACEABLE_KEPT:
                known = self._placeable[owners] = {0: 0}
            before, requests = next(reversed(known.items()))
            for shape in bits_of(shapes ^ before):
                requests ^= self._of_shape[owners].get(shape, 0)
            known[shapes] = requests
        return requests

    def ladder(self, static: StaticRank) -> BorrowerTier:
        """The borrowers of a static rank."""
        ladder = self._ladders.get(static)
        if ladder is None:
            ladder = self._ladders[static] = BorrowerTier()
            insort(self._order, static)
        return ladder

    def step_in(self, post: PoolCandidates, requests: int) -> None:
        """Requests of the post are inside its reservation."""
        left = requests
        while left:
            bit = left & -left
            left ^= bit
            number = bit.bit_length() - 1
            entry = post.entries[number] = (post.static, post.strand.heads[number][0], post.serial, post)
            entries = self._inside.get(bit)
            if entries:
                insort(entries, entry)
            else:
                self._inside[bit] = [entry]
        self.inside |= requests

    def step_out(self, post: PoolCandidates, requests: int) -> None:
        """They are no longer."""
        while requests:
            bit = requests & -requests
            requests ^= bit
            entries, entry = self._inside[bit], post.entries.pop(bit.bit_length() - 1)
            del entries[0 if entries[0] is entry else bisect_left(entries, entry)]
            if not entries:
                self.inside &= ~bit

    def ask(self, post: PoolCandidates) -> None:
        """Note whether the post might take something back."""
        if post.asking:
            self.asking[post] = self.fresh[post] = None
        else:
            self.asking.pop(post, None)
            self.fresh.pop(post, None)

    def lend(self, policy: PolicyState, *, within: bool, across: bool) -> None:
        """Note whether a policy holds something that others of its tenant, or other tenants, might take back."""
        self.lendings += 1
        tenant = policy.document.tenant
        for lenders, lends in ((self._within, within), (self._across, across)):
            of_tenant = lenders.setdefault(tenant, {})
            if lends:
                of_tenant[policy] = None
            else:
                of_tenant.pop(policy, None)
        self._lending[tenant] = None
        if not self._across[tenant]:
            del self._lending[tenant]

    def lends_within(self, policy: PolicyState) -> bool:
        """Whether some other policy of its tenant is above its reservation here (R24). False: a search among them cannot succeed."""
        own = self._within.get(policy.document.tenant, {})
        return len(own) > (policy in own)

    def lends_across(self, policy: PolicyState) -> bool:
        """The same of other tenants."""
        return len(self._lending) > (policy.document.tenant in self._lending)

    def best(self, feasible: int, allowed: Callable[[PoolCandidates, int], int]) -> PoolCandidate | None:
        """The best-ranked candidate whose request is in `feasible`; `allowed` narrows what a post may take."""
        first: InsideEntry | None = None
        asked, left = 0, feasible & self.inside
        while left:
            bit = left & -left
            left ^= bit
            entries = self._inside[bit]
            if first is not None and entries[0] > first:
                continue
            for entry in entries:
                if first is not None and entry > first:
                    break
                if allowed(entry[3], bit):
                    first, asked = entry, bit
                    break
        if first is not None:
            return PoolCandidate(first[3], asked.bit_length() - 1)
        if self._doubted:
            for borrower in self._doubted:
                borrower.move()
            self._doubted.clear()
        for static in self._order:
            ladder = self._ladders[static]
            if ladder.requests & feasible:
                found = ladder.best(feasible, allowed)
                if found is not None:
                    return found
        return None
