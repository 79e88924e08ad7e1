"""The candidates of one pool in the order of their rank, found without visiting those that do not fit (R15).

Jobs inside their reservation are, for each request, in one list by rank. Borrowers are in tiers by static rank, in each by their policy's
share, and in a policy by their place in line: when a policy's share changes, one entry moves for each static rank it has jobs in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

from headrace.allocator.backfill_candidates import BackfillCandidates
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
"""Maximum sets of shapes whose requests are cached."""
InsideEntry = tuple["StaticRank", "Place", int, "PoolCandidates"]
"""Places in line are unique, so candidates are never compared."""


class PoolCandidate(NamedTuple):
    """The best-ranked job of a pool that fits: the head of the `candidates`' request `number`."""

    candidates: PoolCandidates
    number: int

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


class BorrowerQueue:
    """The candidates of one policy among the borrowers of one static rank. `requests`: all that they wait for."""

    __slots__ = ("_borrower", "_number", "_place", "_tier", "pool_candidates", "requests")

    def __init__(self, tier: BorrowerTier, number: int, borrower: Borrower) -> None:
        self.pool_candidates: list[PoolCandidates] = []
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

    def settle(self) -> None:
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
    """The borrowers of one static rank, by share. `requests`: all that they wait for, or a superset."""

    __slots__ = ("borrower_queues", "requests")

    def __init__(self) -> None:
        self.borrower_queues: list[tuple[int, int, BorrowerQueue]] = []
        self.requests = 0

    def best(self, feasible: int, allowed: Callable[[PoolCandidates, int], int]) -> PoolCandidate | None:
        """The first borrower: of the policies with the smallest share and a feasible request, the first in line."""
        found: tuple[Place, PoolCandidates, int] | None = None
        requests, least = 0, -1
        for share, _, borrower_queue in self.borrower_queues:
            if found is not None and share != least:
                return PoolCandidate(*found[1:])
            requests |= borrower_queue.requests
            if not borrower_queue.requests & feasible:
                continue
            for candidates in borrower_queue.pool_candidates:
                wanted = candidates.borrowing & feasible
                for number in bits_of(allowed(candidates, wanted)) if wanted else ():
                    place, _ = candidates.pending_class.heads[number]
                    if found is None or place < found[0]:
                        found, least = (place, candidates, number), share
        if found is not None:
            return PoolCandidate(*found[1:])
        self.requests = requests
        return None


class PoolQueue:
    """All candidates of one pool. `version` counts changes of candidates and their requests, not of their order.

    `backfill`: the heads for which units may be kept now (R16). `asking`: candidates that might take something back; `fresh`: those of them
    with requests that may never have been searched for (R23). `lendings` counts changes of the policies that hold units that others might
    take.
    """

    __slots__ = (
        "_across",
        "_inside",
        "_lending",
        "_of_shape",
        "_order",
        "_outdated",
        "_placeable",
        "_serials",
        "_tiers",
        "_within",
        "asking",
        "backfill",
        "ceiling",
        "fresh",
        "inside",
        "lendings",
        "name",
        "pool",
        "version",
    )

    def __init__(self, pool: PoolState, outdated: dict[Borrower, None], *, amended: bool) -> None:
        self.pool = pool
        self.backfill = BackfillCandidates(pool.document, amended=amended)
        self._outdated = outdated
        self.name = pool.document.name
        self.version = 0
        self.inside = 0
        self.asking: dict[PoolCandidates, None] = {}
        self.fresh: dict[PoolCandidates, None] = {}
        self._of_shape: dict[tuple[str, ...], dict[int, int]] = {}
        self._placeable: dict[tuple[str, ...], dict[int, int]] = {}
        self.ceiling = Ceiling(pool)
        self._inside: dict[int, list[InsideEntry]] = {}  # by the request's bit
        self._tiers: dict[StaticRank, BorrowerTier] = {}
        self._order: list[StaticRank] = []
        self._within: dict[str, dict[PolicyState, None]] = {}
        self._across: dict[str, dict[PolicyState, None]] = {}
        self._lending: dict[str, None] = {}  # the tenants that lend across
        self._serials = 0
        self.lendings = 0

    def next_serial(self) -> int:
        """A number unique in this pool: while a job moves from one group to another, two may briefly have the same head."""
        self._serials += 1
        return self._serials

    def register(self, number: int, group: JobGroup) -> None:
        """Register a request, and the dedicated nodes that its job may use (R21)."""
        shape = self.pool.index.number(group.request.shape)
        of_shape = self._of_shape.setdefault(reach_in(self.pool.document, group.policy.key), {})
        known = of_shape.get(shape, 0)
        if not known >> number & 1:
            of_shape[shape] = known | 1 << number
            self._placeable.clear()

    def advance(self, now: int) -> None:
        """Update the heads for which units may be kept at `now`."""
        if self.backfill.advance(now):
            self.version += 1

    def placeable(self) -> int:
        """Requests with one replica that some node takes now."""
        requests = 0
        for owners in self._of_shape:
            requests |= self._placeable_on(owners)
        return requests

    def _placeable_on(self, owners: tuple[str, ...]) -> int:
        """Cached by set of shapes, because in a full pool the same few recur; a request has one shape."""
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

    def tier(self, static: StaticRank) -> BorrowerTier:
        """The borrowers of a static rank."""
        tier = self._tiers.get(static)
        if tier is None:
            tier = self._tiers[static] = BorrowerTier()
            insort(self._order, static)
        return tier

    def add_inside(self, candidates: PoolCandidates, requests: int) -> None:
        """Add requests that are inside their reservation."""
        left = requests
        while left:
            bit = left & -left
            left ^= bit
            number = bit.bit_length() - 1
            entry = candidates.entries[number] = (
                candidates.static,
                candidates.pending_class.heads[number][0],
                candidates.serial,
                candidates,
            )
            entries = self._inside.get(bit)
            if entries:
                insort(entries, entry)
            else:
                self._inside[bit] = [entry]
        self.inside |= requests

    def remove_inside(self, candidates: PoolCandidates, requests: int) -> None:
        """Remove requests that are no longer inside their reservation."""
        while requests:
            bit = requests & -requests
            requests ^= bit
            entries, entry = self._inside[bit], candidates.entries.pop(bit.bit_length() - 1)
            del entries[0 if entries[0] is entry else bisect_left(entries, entry)]
            if not entries:
                self.inside &= ~bit

    def update_asking(self, candidates: PoolCandidates) -> None:
        """Update whether the candidates might take something back."""
        if candidates.asking:
            self.asking[candidates] = self.fresh[candidates] = None
        else:
            self.asking.pop(candidates, None)
            self.fresh.pop(candidates, None)

    def set_lending(self, policy: PolicyState, *, within: bool, across: bool) -> None:
        """Update whether a policy holds units that others of its tenant, or other tenants, might take back."""
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
        """True if another policy of its tenant is above its reservation here (R24); otherwise a search among them cannot succeed."""
        own = self._within.get(policy.document.tenant, {})
        return len(own) > (policy in own)

    def lends_across(self, policy: PolicyState) -> bool:
        """True if another tenant is above its reservation here."""
        return len(self._lending) > (policy.document.tenant in self._lending)

    def best(self, feasible: int, allowed: Callable[[PoolCandidates, int], int]) -> PoolCandidate | None:
        """The best-ranked candidate whose request is in `feasible`; `allowed` restricts the requests of its candidates."""
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
        if self._outdated:
            for borrower in self._outdated:
                borrower.move()
            self._outdated.clear()
        for static in self._order:
            tier = self._tiers[static]
            if tier.requests & feasible:
                found = tier.best(feasible, allowed)
                if found is not None:
                    return found
        return None
