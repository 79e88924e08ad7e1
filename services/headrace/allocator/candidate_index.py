"""What all pending jobs stand at in each pool of their order, kept from round to round (R15).

Strategy: a standing depends on the head of a group, on accounts and on documents, and those change for a few policies at a time. What the
fold has marked is worked out anew, as sets of requests (`headroom`), and only what has crossed a line is moved. A memo, not a truth:
worked out from nothing it would be the same.
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
from headrace.domain.queueing.ranking import ranks_by_firm, static_rank

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Profile
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

REQUESTS_KEPT = 64
"""Requests that nobody waits for any more are forgotten when they are more than this, and more than the live ones."""

StrandKey = tuple[object, ...]


class Standings:
    """All candidates of one state. Call `refresh` after anything has changed, before asking.

    `boards`: by pool, those with candidates. `barren`: for which requests nothing could be kept in a pool, when it looked like this.
    """

    def __init__(self, state: State) -> None:
        self.needs = Needs()
        self._owners: frozenset[str] = frozenset()
        self.boards: dict[str, PoolQueue] = {}
        self.barren: dict[tuple[object, ...], object] = {}
        self._state = state
        self._documents = -1
        self._requests_max = REQUESTS_KEPT
        self._strands: dict[StrandKey, PendingClass] = {}
        self._known: dict[JobGroup, tuple[PendingClass, int]] = {}
        self._ordered: list[PoolQueue] = []
        self._stands: dict[PolicyState, dict[str, PolicyInPool]] = {}
        self._shares: dict[tuple[str, str], TenantShareInPool] = {}
        self._lines: dict[PolicyState, dict[tuple[object, ...], BorrowerQueue]] = {}
        self._borrowers: dict[PolicyState, Borrower] = {}
        self._doubted: dict[Borrower, None] = {}
        self._made = 0
        state.stale, state.pending.stale, state.pending.missed = {}, {}, False

    def refresh(self) -> None:
        """Work out anew what the fold, or a trial grant, has made stale."""
        state = self._state
        groups, policies = state.pending.stale or {}, state.stale or {}
        if not groups and not policies and self._documents == state.documents_sequence:
            return
        missed, state.pending.missed = state.pending.missed, False
        state.stale, state.pending.stale = {}, {}
        if missed or self._documents != state.documents_sequence or len(self.needs.requests) > self._requests_max:
            self._documents = state.documents_sequence
            self._start_again()
            groups, policies = dict.fromkeys(state.pending.groups.values()), {}
        came: dict[PendingClass, None] = {}
        for group in groups:
            strand = self._see(group)
            if strand is not None:
                came[strand] = None
                policies[strand.policy] = None
        for policy in policies:
            self._measure(policy)
        for strand in came:
            for post in strand.posts:
                post.settle()

    @property
    def has_line(self) -> bool:
        """Whether anybody stands anywhere."""
        return bool(self._known)

    @property
    def moves(self) -> int:
        """Counts changes of who stands in any pool with what request, not those of their order."""
        return sum([board.version for board in self.boards.values()])

    def in_order(self) -> list[PoolQueue]:
        """The pools that have candidates, by name."""
        if len(self._ordered) != len(self.boards):
            self._ordered = [self.boards[name] for name in sorted(self.boards)]
        return self._ordered

    def next_due(self, now: int) -> int | None:
        """When units may be kept for another head, or for one no more (R16)."""
        if not self._state.pending.groups:
            return None
        self.refresh()
        for board in self.boards.values():
            board.ripen(now)
        return min((due for board in self.boards.values() if (due := board.turns.next()) is not None), default=None)

    def forget(self) -> None:
        """Remember nothing: the next `refresh` works out everything."""
        self._documents = -1

    def _start_again(self) -> None:
        for memo in (self.barren, self.boards, self._strands, self._known, self._stands, self._shares, self._lines):
            memo.clear()
        self._borrowers.clear()
        self._doubted = {}
        self._ordered = []
        self.needs = Needs()
        self._owners = owners_named(pool.document for pool in self._state.pools.values())
        groups = self._state.pending.groups.values()
        live = {(group.request.order, group.avoiding, self._reach(group)) for group in groups}
        self._requests_max = REQUESTS_KEPT + 2 * len(live)

    def post_of(self, job: JobRecord, pool: str) -> tuple[PoolCandidates, int] | None:
        """Where a job that is the head of its group stands in a pool, and the number of its request; None: nowhere there."""
        group = self._state.pending.group_of(job)
        strand = self._strands.get(_key(group)) if group is not None else None
        if group is None or strand is None:
            return None
        post = next((post for post in strand.posts if post.board.name == pool), None)
        return None if post is None else (post, self._number(group))

    def _number(self, group: JobGroup) -> int:
        """The number of the group's request: another for those who may use other nodes (R21)."""
        return self.needs.number(group.request, group.avoiding, self._reach(group))

    def _reach(self, group: JobGroup) -> tuple[str, ...]:
        return tuple(owner for owner in reach(*group.policy.key) if owner in self._owners) if self._owners else ()

    def _see(self, group: JobGroup) -> PendingClass | None:
        """Look at a group's head; the strand, if the group has come, or gone for good."""
        head, known = group.head(), self._known.get(group)
        if known is None:
            strand = self._strand_of(group) if head is not None else None
            if strand is None:
                return None
            known = self._known[group] = strand, self._number(group)
        elif head is None:
            del self._known[group]
        strand, number = known
        return strand if strand.see(number, group, head) else None

    def _strand_of(self, group: JobGroup) -> PendingClass | None:
        strand = self._strands.get(_key(group))
        if strand is None:
            profile = self._state.profile(group.policy.document.tenant, group.profile)
            if profile is None:
                return None
            strand = self._strands[_key(group)] = self._make_strand(group, profile)
        return strand

    def _make_strand(self, group: JobGroup, profile: Profile) -> PendingClass:
        policy = group.policy
        borrows = next((link.borrow for link in policy.document.profiles if link.name == group.profile), True)
        by_firm = ranks_by_firm(self._state, preemptible=group.preemptible)
        strand = PendingClass(group, borrows=borrows, reclaims_first=profile.reclaim_before_spill, by_firm=by_firm)
        for name in profile.pools:
            pool = self._state.pools.get(name)
            if pool is None or name == group.barred_from or not may_start(self._state, group, name):
                continue
            if not may_enter(pool, policy.document.tenant, policy.document.group):
                continue
            board = self._board(pool)
            static = static_rank(self._state, policy, group.profile, pool)
            PoolCandidates(strand, self._stand(policy, board), board, self._line(policy, board, static), static)
        return strand

    def _board(self, pool: PoolState) -> PoolQueue:
        board = self.boards.get(pool.document.name)
        if board is None:
            board = self.boards[pool.document.name] = PoolQueue(pool, self._doubted, amended=self._state.terms.amended)
            for policy in self._state.policies.values():
                self._measure(policy)
        return board

    def _stand(self, policy: PolicyState, board: PoolQueue) -> PolicyInPool:
        stands = self._stands.setdefault(policy, {})
        if board.name not in stands:
            key = (policy.document.tenant, board.name)
            if key not in self._shares:
                self._shares[key] = TenantShareInPool(
                    board.pool, self._state.shares.get(key), amended=self._state.terms.amended
                )
            stands[board.name] = PolicyInPool(self._state, policy, board, self._shares[key])
        return stands[board.name]

    def _line(self, policy: PolicyState, board: PoolQueue, static: tuple[int, int, int]) -> BorrowerQueue:
        lines = self._lines.setdefault(policy, {})
        line = lines.get((board.name, static))
        if line is None:
            self._made += 1
            borrower = self._borrowers.setdefault(policy, Borrower(self._state, policy, self._doubted))
            line = lines[board.name, static] = BorrowerQueue(board.ladder(static), self._made, borrower)
        return line

    def _measure(self, policy: PolicyState) -> None:
        """A policy's accounts have changed. It has a stand wherever it holds or wants anything."""
        stands = self._stands.get(policy)
        if stands is None:
            stands = self._stands[policy] = {}
        if len(stands) < len(policy.scopes) and self._state.policies.get(policy.key) is policy:
            for name in [name for name in policy.scopes if name in self.boards and name not in stands]:
                self._stand(policy, self.boards[name])
        for stand in stands.values():
            if stand.share.is_there and stand.share.measure(self.needs):
                for other in stand.share.stands:
                    other.lend()
                    other.settle()
            stand.measure(self.needs)
        borrower = self._borrowers.get(policy)
        if borrower is not None:
            borrower.doubt()


_key = attrgetter("policy.document.tenant", "policy.document.name", "profile", "preemptible", "beyond", "barred_from")
"""What the groups of one strand have in common."""
