"""Pending jobs of one queue in each pool of their order, as sets of requests (R7, R15, R23).

A *pending class* is all pending jobs of a queue that differ only in request, priority and age: they share one position in every static
order. *Pool candidates* are a pending class in one pool. A *policy in a pool* and its *tenant share* do the quota arithmetic, once for all
requests and classes. An *eligibility mask* is the result for all of the policy's classes with the same traits.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING

from headrace.allocator.class_traits import ClassTraits, traits_of
from headrace.allocator.fair_line import FairLine, UserCandidates
from headrace.allocator.inside_tier import InsideTier
from headrace.allocator.pool_requests import PoolRequests
from headrace.allocator.request_bitsets import NO_KEYS, Needs, QuotaFits
from headrace.contracts.values.amounts import JOB
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.queueing.ranking import is_fair, rank_of_group, rank_of_job
from headrace.domain.state.idleness import idle_jobs
from headrace.domain.state.quota import lending_side, policy_scope, policy_side, user_scope

if TYPE_CHECKING:
    from headrace.domain.indexes.pending import JobGroup, Place
    from headrace.domain.model.jobs import JobRecord, PolicyState, Scope
    from headrace.domain.queueing.ranking import Rank, StaticRank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


LENDS_NOTHING = False, False


class CandidateQueue(PoolRequests, metaclass=ABCMeta):
    """The queue of a pool, as far as its candidates change it; the queue is `pool_queue.PoolQueue`.

    `inside`: all that candidates inside their reservation wait for, or a superset.
    """

    __slots__ = ("inside",)

    def __init__(self, pool: PoolState) -> None:
        super().__init__(pool)
        self.inside = 0

    @abstractmethod
    def add_head(self, candidates: PoolCandidates, number: int, head: JobRecord) -> None:
        """Note a new head of a request, for which units may be kept once it has waited long enough."""

    @abstractmethod
    def count_fair(self, line: FairLine[PoolCandidates], change: int) -> None:
        """Count the requests of a policy that is fair among users which have come inside its reservation, or have left it (negative)."""

    @abstractmethod
    def update_asking(self, candidates: PoolCandidates) -> None:
        """Update whether the candidates might take something back."""


class BorrowerLine(metaclass=ABCMeta):
    """The candidates of one policy among the borrowers of a pool; the line is `pool_queue.BorrowerQueue`.

    `inside`: the tier of those of them that are inside their reservation.
    """

    __slots__ = ("inside", "pool_candidates")

    def __init__(self, inside: InsideTier[PoolCandidates]) -> None:
        self.inside = inside
        self.pool_candidates: list[PoolCandidates] = []

    @property
    @abstractmethod
    def share(self) -> int:
        """Dominant share of the policy."""

    @abstractmethod
    def update_requests(self) -> None:
        """Update after a change of its candidates' borrowing requests."""


class TenantShareInPool:
    """A tenant's share in one pool; without a share it has no limit, and no reservation of its own (R7)."""

    __slots__ = ("_is_stuck", "_pool", "_scope", "above", "fits", "is_reserved", "is_there", "policies")

    def __init__(self, pool: PoolState, scope: Scope | None, *, amended: bool) -> None:
        scopes = () if scope is None else (scope,)
        self._pool = pool
        self._scope = scope if amended else None
        self._is_stuck = False
        self.is_there = scope is not None
        self.is_reserved = scope is not None and scope.reservation is not None
        reserving = scopes if self.is_reserved else ()
        self.fits = QuotaFits(scopes, reserving, reserving, pool.governed, holds=amended)
        self.above = NO_KEYS
        self.policies: list[PolicyInPool] = []

    def measure(self, needs: Needs) -> bool:
        """Update the requests that fit, and the keys above its reservation. Returns whether either changed."""
        was_stuck, self._is_stuck = (
            self._is_stuck,
            bool(self._pool.overdue and self._scope is not None and self._scope.leased_minus_use),
        )
        changed = self.fits.read(needs)
        if not changed and self.fits.above == self.above and self._is_stuck == was_stuck:
            return False
        self.above = self.fits.above
        return True

    @property
    def ready(self) -> int:
        """Requests that fit under the limit once yielding leases have ended; those that fit now while overdue leases delay that (R17)."""
        return self.fits.limit if self._is_stuck else self.fits.planned


class PolicyInPool:
    """A policy in one pool: the requests that fit under its limits and inside its reservation.

    `line`: its candidates here, if it is fair among users.
    """

    __slots__ = ("_holds", "_lends", "_masks", "_own", "_queue", "_users", "fits", "line", "policy", "share")

    def __init__(self, state: State, policy: PolicyState, queue: PoolRequests, share: TenantShareInPool) -> None:
        self.policy = policy
        self.share = share
        self._masks: dict[ClassTraits, EligibilityMask] = {}
        self._queue = queue
        self._own = policy_scope(policy, queue.name)
        self._lends = LENDS_NOTHING
        self._users: dict[str, QuotaFits] = {}
        self._holds = state.terms.amended
        self.line: FairLine[PoolCandidates] | None = FairLine(state, policy) if is_fair(policy) else None
        self.fits = QuotaFits(
            (policy.wide, self._own),
            policy_side(policy, queue.name),
            lending_side(state, policy, queue.name),
            queue.pool.governed,
            holds=state.terms.amended,
        )
        share.policies.append(self)

    def measure(self, needs: Needs) -> None:
        """Update after a change of its scopes."""
        changed = self.fits.read(needs)
        for user in self._users.values():
            changed |= user.read(needs)
        if self.line is not None:
            self.line.invalidate()
        if self.fits.above or self.share.above or self._lends != LENDS_NOTHING or self.policy.idle:
            self.update_lending()
        if changed:
            self.update_masks()

    def mask(self, pending_class: PendingClass, needs: Needs) -> EligibilityMask:
        """The mask of all classes here with the traits of this one."""
        mask = self._masks.get(pending_class.traits)
        if mask is None:
            mask = self._masks[pending_class.traits] = EligibilityMask(pending_class.traits)
            if pending_class.traits.user and pending_class.traits.user not in self._users:
                self._add_user(pending_class.traits.user, needs)
            mask.update(self)
        return mask

    def user(self, name: str) -> QuotaFits | None:
        """The requests that fit under a user's limit (R7); None for an empty name."""
        return self._users.get(name)

    def _add_user(self, name: str, needs: Needs) -> None:
        scope = user_scope(self.policy, name)
        if scope is not None:
            fits = self._users[name] = QuotaFits((scope,), (), (), self._queue.pool.governed | {JOB}, holds=self._holds)
            fits.read(needs)

    def update_lending(self) -> None:
        """Update whether it holds borrowed units that others might take back: of its own tenant, and of other tenants (R23, R24)."""
        share, above = self.share, self.fits.above
        within = across = bool(self.policy.idle and idle_jobs(self.policy, self._queue.name))  # they count as borrowed (R39)
        if not within and (above or share.above) and self.policy.jobs:
            leased = self._own.leased
            within = not above.isdisjoint(leased)
            across = not share.above.isdisjoint(leased) if share.is_reserved else within
        if self._lends != (within, across):
            self._lends = within, across
            self._queue.set_lending(self.policy, within=within, across=across)

    def update_masks(self) -> None:
        """Move its classes' requests to their new sets."""
        for mask in self._masks.values():
            mask.update(self)


class EligibilityMask:
    """Sets of requests with the same traits of a policy in a pool, whether or not jobs wait for them. Sets as in `PoolCandidates`.

    `fits`: requests that fit in the unused reservation (R15 (1)). `ready`: requests that quotas allow, or will allow once yielding leases
    have ended (R17), so no search is needed. `within` and `across`: requests that might take back from policies of their tenant, and of
    others (R23); `lower`: requests that might take from lower priorities.
    """

    __slots__ = (
        "_traits",
        "across",
        "asking",
        "borrowing",
        "fits",
        "inside",
        "lower",
        "pool_candidates",
        "ready",
        "reclaiming",
        "within",
    )

    def __init__(self, traits: ClassTraits) -> None:
        self._traits = traits
        self.pool_candidates: list[PoolCandidates] = []
        self.fits = self.inside = self.borrowing = self.asking = self.ready = 0
        self.within = self.across = self.reclaiming = self.lower = 0

    def update(self, policy_in_pool: PolicyInPool) -> None:
        """Compute the sets anew, and move the requests of classes whose sets changed."""
        preemptible, by_firm, beyond, backed, borrows, takes_lower, name = self._traits
        own, share = policy_in_pool.fits, policy_in_pool.share.fits
        by_use, firm = backed & own.inside & share.inside, backed & own.firm & share.firm
        fits = self.fits = firm if by_firm else by_use
        may_hold = by_use | borrows if preemptible else firm
        limit, under = own.limit, own.planned
        if name and (user := policy_in_pool.user(name)) is not None:
            limit, under = limit & user.limit, under & user.planned
        opened, planned = (limit | beyond) & share.limit & may_hold, (under | beyond) & may_hold
        within = planned & backed & own.inside
        across = planned & backed & share.inside if policy_in_pool.share.is_reserved else within
        lower = planned & takes_lower
        self.ready = planned & policy_in_pool.share.ready
        inside, borrowing, asking = opened & fits, opened & ~fits, within | across | lower
        moved = (inside ^ self.inside) | (borrowing ^ self.borrowing) | (asking ^ self.asking)
        moved |= (within ^ self.within) | (across ^ self.across)
        if moved:
            self.inside, self.borrowing, self.asking = inside, borrowing, asking
            self.within, self.across, self.reclaiming, self.lower = within, across, within | across, lower
            borrower_queues: dict[BorrowerLine, None] = {}
            for candidates in self.pool_candidates:
                if candidates.pending_class.present & moved:
                    candidates.move_requests(borrower_queues)
            for borrower_queue in borrower_queues:
                borrower_queue.update_requests()


class PendingClass:
    """A class of pending jobs.

    `present`: its requests with jobs; `groups` and `heads` by request number, the head with its place in line.
    """

    __slots__ = ("_since", "groups", "heads", "policy", "pool_candidates", "present", "reclaims_first", "traits", "user")

    def __init__(self, group: JobGroup, *, borrows: bool, reclaims_first: bool, by_firm: bool) -> None:
        self.policy = group.policy
        self.user = group.user
        self.traits = traits_of(group, borrows=borrows, by_firm=by_firm)
        self.reclaims_first = reclaims_first
        self.present = 0
        self.groups: dict[int, JobGroup] = {}
        self.heads: dict[int, tuple[Place, JobRecord]] = {}
        self._since: dict[int, int] = {}
        self.pool_candidates: list[PoolCandidates] = []

    def see(self, number: int, group: JobGroup, head: JobRecord | None) -> bool:
        """Update the head of a group. Returns whether the group was added or removed."""
        if head is None:
            if self.groups.get(number) is not group:
                return False
            del self.groups[number], self.heads[number]
            self.present &= ~(1 << number)
            return True
        is_new = number not in self.groups
        if is_new:
            for candidates in self.pool_candidates:
                candidates.queue.register(number, group)
        self.groups[number] = group
        if is_new or self.heads[number][1] is not head or self._since[number] != head.pending_since:
            self.heads[number], self._since[number] = (place_in_line(head), head), head.pending_since
            for candidates in self.pool_candidates:
                candidates.move(number)
                if candidates.due or candidates.resting:
                    candidates.due, candidates.resting = candidates.due & ~(1 << number), candidates.resting & ~(1 << number)
                candidates.queue.add_head(candidates, number, head)
        self.present |= 1 << number
        return is_new


class PoolCandidates(UserCandidates):
    """A pending class in one pool. `earlier`: the same class in the pools before this one in its order.

    Sets of requests: quotas allow `inside` and `borrowing` to be granted there; `asking` might take something back (R23); the heads of
    `due` have waited so long that units may be kept for them (R16), those of `resting` only units that surely become free. `tier`: where
    those inside are, unless they are in a `line`.
    """

    __slots__ = ("asking", "borrower_queue", "due", "earlier", "line", "mask", "pending_class", "queue", "resting", "tier")

    def __init__(
        self,
        pending_class: PendingClass,
        policy_in_pool: PolicyInPool,
        queue: CandidateQueue,
        borrower_queue: BorrowerLine,
        static: StaticRank,
        needs: Needs,
    ) -> None:
        super().__init__(static, queue.next_serial())
        self.pending_class = pending_class
        self.mask = policy_in_pool.mask(pending_class, needs)
        self.line = policy_in_pool.line
        self.queue = queue
        self.borrower_queue = borrower_queue
        self.tier = borrower_queue.inside
        self.earlier = tuple(pending_class.pool_candidates)
        self.asking = self.due = self.resting = 0
        pending_class.pool_candidates.append(self)
        self.mask.pool_candidates.append(self)
        if self.line is not None:
            self.line.pool_candidates.append(self)
        borrower_queue.pool_candidates.append(self)

    def update_sets(self) -> None:
        """Move its requests to their sets: inside the reservation, among the borrowers, or in neither."""
        borrower_queues: dict[BorrowerLine, None] = {}
        self.move_requests(borrower_queues)
        for borrower_queue in borrower_queues:
            borrower_queue.update_requests()

    def move_requests(self, borrower_queues: dict[BorrowerLine, None]) -> None:
        """As `update_sets`, but its borrower queue is only added to `borrower_queues`, to be updated once for all of its candidates."""
        pending_class, mask, queue = self.pending_class, self.mask, self.queue
        present = pending_class.present
        inside, borrowing, asking = present & mask.inside, present & mask.borrowing, present & mask.asking
        if inside != self.inside:
            left, came = self.inside & ~inside, inside & ~self.inside
            self.inside = inside
            if self.line is not None:
                queue.count_fair(self.line, came.bit_count() - left.bit_count())
            else:
                if left:
                    self.tier.remove(left, self)
                if came:
                    self.tier.add(came, self, pending_class.heads)
                    queue.inside |= came
        if borrowing != self.borrowing:
            self.borrowing = borrowing
            borrower_queues[self.borrower_queue] = None
        if asking != self.asking:
            self.asking = asking
            queue.update_asking(self)
        if self.line is not None:
            self.line.invalidate()
        queue.version += 1

    def move(self, number: int) -> None:
        """Update after a change of a request's head."""
        bit = 1 << number
        if self.line is not None:
            self.line.invalidate()
        elif self.inside & bit:
            self.tier.remove(bit, self)
            self.tier.add(bit, self, self.pending_class.heads)

    @property
    def reclaiming(self) -> int:
        """Requests that might take something back for their reservation (R23)."""
        return self.pending_class.present & self.mask.reclaiming

    @property
    def user(self) -> str:
        """The user whose jobs they are; empty unless the policy keeps accounts of users."""
        return self.pending_class.user

    def place_of(self, number: int) -> Place:
        """The own place of a request's head."""
        return self.pending_class.heads[number][0]

    def places(self, number: int) -> list[Place]:
        """The own places of all jobs of a request, best first."""
        return self.pending_class.groups[number].places()

    def rank(self, number: int, place: Place | None = None) -> Rank:
        """Rank of a request's head, or of a job at another `place` in line, in this pool (R15)."""
        inside = self.fits(number)
        group = rank_of_group(self.static, 0 if inside else self.borrower_queue.share, inside=inside)
        own = place or self.pending_class.heads[number][0]
        return rank_of_job(group, own if self.line is None else self.line.place(self, number, own))

    def fits(self, number: int) -> bool:
        """True if a request fits in the unused reservation here (R15 (1))."""
        return bool(self.mask.fits >> number & 1)
