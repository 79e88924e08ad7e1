"""All pending jobs by pool of their order, kept from round to round (R15).

Strategy: a job's candidacy depends on the head of its group, on scopes and on documents, which change for a few policies at a time. The
parts that the fold has marked are computed anew, as sets of requests (`request_bitsets`), and only requests whose set changed are moved.
It is a cache: computed from nothing it would be the same.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.allocator.pool_queue import Borrower, BorrowerQueue, PoolQueue
from headrace.allocator.request_bitsets import Needs
from headrace.allocator.request_classes import PendingClass, PolicyInPool, PoolCandidates, TenantShareInPool
from headrace.domain.model.dedication import owners_named, reach
from headrace.domain.queueing.access import may_enter
from headrace.domain.queueing.gates import may_start
from headrace.domain.queueing.ranking import is_fair, ranks_by_firm, static_rank
from headrace.domain.state.quota import unbounded

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Profile
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

REQUESTS_KEPT = 64
"""Unused requests are removed when they outnumber this and the used ones."""

ClassKey = tuple[object, ...]


class CandidateIndex:
    """All candidates of one state. Call `refresh` after any change, before reading.

    `queues`: pools with candidates, by name. `infeasible`: requests for which no units could be kept in a pool, with the pool's state then.
    """

    def __init__(self, state: State) -> None:
        self.needs = Needs()
        self._owners: frozenset[str] = frozenset()
        self.queues: dict[str, PoolQueue] = {}
        self.infeasible: dict[tuple[object, ...], object] = {}
        self.state = state
        self._documents = -1
        self._unbounded: tuple[int, frozenset[str]] = -1, frozenset()
        self._requests_max = REQUESTS_KEPT
        self._restated = 0
        self.classes: dict[ClassKey, PendingClass] = {}
        self._known: dict[JobGroup, tuple[PendingClass, int]] = {}
        self._ordered: list[PoolQueue] = []
        self._policies_in_pool: dict[PolicyState, dict[str, PolicyInPool]] = {}
        self._shares: dict[tuple[str, str], TenantShareInPool] = {}
        self._borrower_queues: dict[PolicyState, dict[tuple[object, ...], BorrowerQueue]] = {}
        self._borrowers: dict[PolicyState, Borrower] = {}
        self._outdated: dict[Borrower, None] = {}
        self._made = 0
        self._changes = state.pending.watch()

    def refresh(self) -> None:
        """Update the parts that the fold, or a trial grant, has marked."""
        state, changes = self.state, self._changes
        if state.pending.changes is not changes:  # another index has followed the state since
            changes = self._changes = state.pending.watch(missed=True)
        groups, policies, missed = changes.groups, changes.policies, changes.missed
        if not groups and not policies and not missed and self._documents == state.documents_sequence:
            return
        changes.groups, changes.policies, changes.missed = {}, {}, False
        is_large = len(self.needs.requests) > self._requests_max and not self._restated
        if missed or self._documents != state.documents_sequence or is_large:
            self._documents = state.documents_sequence
            self._start_again()
            groups, policies = dict.fromkeys(state.pending.groups.values()), {}
        came: dict[PendingClass, None] = {}
        for group in groups:
            pending_class = self._see(group)
            if pending_class is not None:
                came[pending_class] = None
                policies[pending_class.policy] = None
        for policy in policies:
            self._measure(policy)
        for pending_class in came:
            for candidates in pending_class.pool_candidates:
                candidates.update_sets()

    @property
    def unbounded(self) -> frozenset[str]:
        """Keys that no pool bounds (`quota.unbounded`), computed once for each change of documents."""
        if self._unbounded[0] != self.state.documents_sequence:
            self._unbounded = self.state.documents_sequence, unbounded(self.state)
        return self._unbounded[1]

    @property
    def has_line(self) -> bool:
        """True if any job waits for a pool."""
        return bool(self._known)

    @property
    def moves(self) -> int:
        """Number of changes of candidates in any pool, without changes of their order."""
        return sum([queue.version for queue in self.queues.values()])

    def in_order(self) -> list[PoolQueue]:
        """The pools that have candidates, by name."""
        if len(self._ordered) != len(self.queues):
            self._ordered = [self.queues[name] for name in sorted(self.queues)]
        return self._ordered

    def next_due(self, now: int) -> int | None:
        """Time at which units may be kept for another head, or no longer for one (R16)."""
        if not self.state.pending.groups:
            return None
        self.refresh()
        for queue in self.queues.values():
            queue.advance(now)
        return min((due for queue in self.queues.values() if (due := queue.backfill.next()) is not None), default=None)

    def forget(self) -> None:
        """Drop everything: the next `refresh` computes all."""
        self._documents = -1

    def _start_again(self) -> None:
        for memo in (
            self.infeasible,
            self.queues,
            self.classes,
            self._known,
            self._policies_in_pool,
            self._shares,
            self._borrower_queues,
        ):
            memo.clear()
        self._borrowers.clear()
        self._outdated = {}
        self._ordered = []
        self.needs = Needs(has_spot=any(pool.index.has_spot for pool in self.state.pools.values()))
        self._owners = owners_named(pool.document for pool in self.state.pools.values())
        groups = self.state.pending.groups.values()
        live = {(group.request.order, group.avoiding, self._reach(group)) for group in groups}
        more = sum(len(group.request.each) for group in self.state.pending.choosing)
        self._requests_max = REQUESTS_KEPT + 2 * (len(live) + more)

    def candidates_of(self, job: JobRecord, pool: str) -> tuple[PoolCandidates, int] | None:
        """Candidates and request number of a group's head in a pool; None if it is not a candidate there."""
        group = self.state.pending.group_of(job)
        pending_class = self.classes.get(_key(group)) if group is not None else None
        if group is None or pending_class is None:
            return None
        candidates = next((candidates for candidates in pending_class.pool_candidates if candidates.queue.name == pool), None)
        return None if candidates is None else (candidates, self._number(group, pending_class))

    def restate(self, group: JobGroup, request: Request, sign: int) -> None:
        """The jobs of a group stand in line with another of their requests (R42), on trial; with sign -1 as before. Then `refresh`."""
        known = self._known.pop(group, None)
        if known is not None:
            known[0].see(known[1], group, None)
            for candidates in known[0].pool_candidates:
                candidates.update_sets()
        group.request = request
        self.state.pending.mark(group)
        self._restated += sign

    def standing(self, group: JobGroup) -> tuple[tuple[PoolCandidates, ...], int]:
        """The candidates and the request number with which a group stands in line."""
        known = self._known.get(group)
        return ((), 0) if known is None else (tuple(known[0].pool_candidates), known[1])

    def _number(self, group: JobGroup, pending_class: PendingClass) -> int:
        """Number of the group's request, which differs for groups that may use other nodes (R21), and in a class for each group."""
        known = self._known.get(group)
        if known is not None:
            return known[1]
        number = self.needs.number(group.request, group.avoiding, self._reach(group))
        if number in pending_class.groups:
            number = self.needs.number(group.request, group.avoiding, self._reach(group), apart=True)
        return number

    def _reach(self, group: JobGroup) -> tuple[str, ...]:
        return tuple(owner for owner in reach(*group.policy.key) if owner in self._owners) if self._owners else ()

    def _see(self, group: JobGroup) -> PendingClass | None:
        """Update a group's head. Returns its class if the group was added or removed."""
        head, known = group.head(), self._known.get(group)
        if known is None:
            pending_class = self._class_of(group) if head is not None else None
            if pending_class is None:
                return None
            known = self._known[group] = pending_class, self._number(group, pending_class)
        elif head is None:
            del self._known[group]
        pending_class, number = known
        if pending_class.user and is_fair(pending_class.policy):
            for candidates in pending_class.pool_candidates:
                if candidates.line is not None:
                    candidates.line.invalidate()
        return pending_class if pending_class.see(number, group, head) else None

    def _class_of(self, group: JobGroup) -> PendingClass | None:
        pending_class = self.classes.get(_key(group))
        if pending_class is None:
            profile = self.state.profile(group.policy.document.tenant, group.profile)
            if profile is None:
                return None
            pending_class = self.classes[_key(group)] = self._make_class(group, profile)
        return pending_class

    def _make_class(self, group: JobGroup, profile: Profile) -> PendingClass:
        policy = group.policy
        borrows = next((link.borrow for link in policy.document.profiles if link.name == group.profile), True)
        by_firm = ranks_by_firm(self.state, preemptible=group.preemptible)
        pending_class = PendingClass(group, borrows=borrows, reclaims_first=profile.reclaim_before_spill, by_firm=by_firm)
        for name in profile.pools:
            pool = self.state.pools.get(name)
            if pool is None or name == group.barred_from or not may_start(self.state, group, name):
                continue
            if not may_enter(pool, policy.document.tenant, policy.document.group):
                continue
            queue = self._queue(pool)
            static = static_rank(self.state, policy, group.profile, pool)
            PoolCandidates(
                *(pending_class, self._policy_in_pool(policy, queue), queue),
                *(self._borrower_queue(policy, queue, static), static, self.needs),
            )
        return pending_class

    def _queue(self, pool: PoolState) -> PoolQueue:
        queue = self.queues.get(pool.document.name)
        if queue is None:
            queue = self.queues[pool.document.name] = PoolQueue(pool, self._outdated, amended=self.state.terms.amended)
            for policy in self.state.policies.values():
                self._measure(policy)
        return queue

    def _policy_in_pool(self, policy: PolicyState, queue: PoolQueue) -> PolicyInPool:
        policies = self._policies_in_pool.setdefault(policy, {})
        if queue.name not in policies:
            key = (policy.document.tenant, queue.name)
            if key not in self._shares:
                self._shares[key] = TenantShareInPool(queue.pool, self.state.shares.get(key), amended=self.state.terms.amended)
            policies[queue.name] = PolicyInPool(self.state, policy, queue, self._shares[key])
        return policies[queue.name]

    def _borrower_queue(self, policy: PolicyState, queue: PoolQueue, static: tuple[int, int, int]) -> BorrowerQueue:
        borrower_queues = self._borrower_queues.setdefault(policy, {})
        borrower_queue = borrower_queues.get((queue.name, static))
        if borrower_queue is None:
            self._made += 1
            borrower = self._borrowers.setdefault(policy, Borrower(self.state, policy, self._outdated))
            borrower_queue = borrower_queues[queue.name, static] = BorrowerQueue(queue.tier(static), self._made, borrower)
        return borrower_queue

    def _measure(self, policy: PolicyState) -> None:
        """Update after a change of a policy's scopes. It has an entry in every pool in which it uses or wants units."""
        policies = self._policies_in_pool.get(policy)
        if policies is None:
            policies = self._policies_in_pool[policy] = {}
        if len(policies) < len(policy.scopes) and self.state.policies.get(policy.key) is policy:
            for name, scope in policy.scopes.items():
                if (scope.use or scope.leased_minus_use) and name not in policies and name in self.queues:
                    self._policy_in_pool(policy, self.queues[name])
        for policy_in_pool in policies.values():
            if policy_in_pool.share.is_there and policy_in_pool.share.measure(self.needs):
                for other in policy_in_pool.share.policies:
                    other.update_lending()
                    other.update_masks()
            policy_in_pool.measure(self.needs)
        borrower = self._borrowers.get(policy)
        if borrower is not None:
            borrower.invalidate()


_key = attrgetter(
    "policy.document.tenant", "policy.document.name", "profile", "preemptible", "beyond", "barred_from", "outlasts", "user"
)
"""Properties that all groups of one class share."""
