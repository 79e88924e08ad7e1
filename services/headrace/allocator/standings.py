"""What each group of pending jobs stands at in each pool of its order, kept from round to round (R15).

Strategy: a standing depends on the group's head, its policy's accounts and the documents, and those change for a few policies at a time. So
standings are worked out anew only for groups that the fold has marked stale, and stand in one heap for each (pool, request); what is
superseded is dropped when it comes up. A memo, not a truth: worked out from nothing it would be the same.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from headrace.domain.access import may_enter
from headrace.domain.closings import is_closed
from headrace.domain.eligibility import causes, may_reclaim
from headrace.domain.ranking import Rank, is_inside, rank
from headrace.domain.scopes import over_limit, scopes_of
from headrace.domain.searches import is_resting, was_searched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.pending import JobGroup
    from headrace.domain.state import JobRecord, PoolState, State

_SLACK = 64


class Candidate(NamedTuple):
    """The head of a group, as it stands in one pool. `place` is the pool's in its order; `stamp` is unique and ends comparisons.

    `limited`: its tenant's limit is reached there, so it is granted nothing, but may take back from the tenant's other policies (R23).
    """

    standing: Rank
    stamp: int
    pool: str
    place: int
    group: JobGroup
    job: JobRecord
    limited: bool = False

    @property
    def inside(self) -> bool:
        """Whether it fits in its unused reservation there."""
        return self.standing[0] == 0


def _party(group: JobGroup) -> tuple[str, str]:
    return group.policy.document.tenant, group.policy.document.group


class Standings:
    """All candidates of one state. Call `refresh` after anything has changed, before asking."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._documents = -1
        self._of: dict[JobGroup, dict[str, Candidate]] = {}
        self._stamp = 0
        self._heaps: dict[str, dict[int, list[Candidate]]] = {}
        self._hopeful: dict[str, dict[JobGroup, Candidate]] = {}
        self._fresh: dict[str, dict[JobGroup, Candidate]] = {}
        state.watch()

    def refresh(self) -> None:
        """Work out anew what the fold, or a trial grant, has made stale."""
        state = self._state
        groups, policies = state.take_stale()
        if self._documents != state.documents_sequence:
            self._documents = state.documents_sequence
            for memo in (self._of, self._heaps, self._hopeful, self._fresh):
                memo.clear()
            groups = dict.fromkeys(state.pending.groups.values())
        else:
            for policy in policies:
                groups.update(state.pending.by_policy.get(policy.key, {}))
        for group in groups:
            self._work_out(group)

    def _work_out(self, group: JobGroup) -> None:
        self._forget(group)
        job, profile = group.head(), self._state.profile(group.policy.document.tenant, group.profile)
        if job is None or profile is None:
            return
        standings = self._of[group] = {}
        borrow = next((link.borrow for link in group.policy.document.profiles if link.name == group.profile), True)
        for place, name in enumerate(profile.pools):
            pool = self._state.pools.get(name)
            if (
                pool is None
                or name == group.barred_from
                or not may_enter(pool, *_party(group))
                or is_closed(self._state, group, name)
            ):
                continue
            inside = is_inside(self._state, group, pool)
            if not inside and not (group.preemptible and borrow):
                continue
            limit = self._limit(group, pool)
            if limit == "policy":
                continue
            self._stamp += 1
            standing = rank(self._state, group, job, pool, inside=inside)
            candidate = Candidate(standing, self._stamp, name, place, group, job, limit == "tenant")
            if not candidate.limited:
                standings[name] = candidate
                self._enter(candidate)
            if (inside or self._may_take(job, pool)) and causes(self._state, job, pool):
                self._hopeful.setdefault(name, {})[group] = candidate
                if not was_searched(pool, job):
                    self._fresh.setdefault(name, {})[group] = candidate

    def _may_take(self, job: JobRecord, pool: PoolState) -> bool:
        """Whether a job beyond its reservation may take something back: by priority, or within its tenant's share (R23)."""
        if job.policy.document.preemption.preempt_lower_priority:
            return True
        return (job.tenant, pool.document.name) in self._state.shares and may_reclaim(self._state, job, pool)

    def _enter(self, candidate: Candidate) -> None:
        heap = self._heaps.setdefault(candidate.pool, {}).setdefault(candidate.group.request.order, [])
        if len(heap) > _SLACK and len(heap) > 4 * len(self._of):
            heap[:] = [kept for kept in heap if self._is_current(kept)]
            heapq.heapify(heap)
        heapq.heappush(heap, candidate)

    def _forget(self, group: JobGroup) -> None:
        self._of.pop(group, None)
        for table in (*self._hopeful.values(), *self._fresh.values()):
            table.pop(group, None)

    def _limit(self, group: JobGroup, pool: PoolState) -> str:
        """Whose limit is in the way there: the policy's own, else the tenant's, else nobody's."""
        scopes = scopes_of(self._state, group.policy, pool.document.name)
        short = over_limit(scopes, pool.governed, group.request.total, beyond=group.beyond)
        return "" if short is None else short.scope.kind

    def _is_current(self, candidate: Candidate) -> bool:
        return self.of(candidate.group, candidate.pool) is candidate

    def of(self, group: JobGroup, pool: str) -> Candidate | None:
        """The group's candidate in a pool; None where a limit or the reservation is in its way there."""
        standings = self._of.get(group)
        return None if standings is None else standings.get(pool)

    def pools(self) -> list[str]:
        """Pools that have candidates, by name."""
        return sorted({*self._heaps, *self._hopeful})

    def requests(self, pool: str) -> list[int]:
        """The numbers of the requests that have candidates in a pool."""
        return list(self._heaps.get(pool, ()))

    def in_order(self, pool: str, request: int) -> Iterator[Candidate]:
        """The candidates of a pool with a request, best first. What is passed over stays where it is."""
        heap = self._heaps.get(pool, {}).get(request, [])
        passed: list[Candidate] = []
        try:
            while heap:
                candidate = heap[0]
                if not self._is_current(candidate):
                    heapq.heappop(heap)
                    continue
                yield candidate
                if heap and heap[0] is candidate:
                    passed.append(heapq.heappop(heap))
        finally:
            for candidate in passed:
                heapq.heappush(heap, candidate)

    def hopeful(self, pool: PoolState, now: int) -> list[Candidate]:
        """Candidates that might take something back in a pool: inside their reservation, or allowed to take by priority (R23).

        While the pool rests from fruitless searches, only those that were never searched for.
        """
        name = pool.document.name
        if not is_resting(pool, now):
            return list(self._hopeful.get(name, {}).values())
        fresh = self._fresh.get(name, {})
        for group in [group for group, candidate in fresh.items() if was_searched(pool, candidate.job)]:
            del fresh[group]
        return list(fresh.values())

    def standing_of(self, job: JobRecord, pool: PoolState) -> Rank | None:
        """What a pending job's group stands at in a pool, if it stands in line."""
        group = self._state.pending.group_of(job)
        if group is None:
            return None
        return rank(self._state, group, job, pool, inside=is_inside(self._state, group, pool))
