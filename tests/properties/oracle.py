"""Rounds of grants the slow way: every candidate of every pool ranked by the comparator, everything looked at again after each grant.

Nothing is kept, no sets of requests, no index that has seen anything before: the state is copied, and the copy is changed as it goes. It
says who ought to be granted what (R15, R18, R19, R27), and for whom a search ought to open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headrace.allocator.resuming import Resuming
from headrace.contracts import facts as f
from headrace.contracts.facts import AnyFact
from headrace.domain import capacity
from headrace.domain.jobs import JobRecord
from headrace.domain.pending import JobGroup
from headrace.domain.places.awaited import awaited_places
from headrace.domain.places.placement import find_places
from headrace.domain.queueing.access import may_enter
from headrace.domain.queueing.gates import may_start
from headrace.domain.queueing.holds import OutOfReach, as_seen_by, rank_in_line
from headrace.domain.queueing.ranking import Rank, is_inside, rank
from headrace.domain.reclaim.eligibility import RECLAIM, anybody_above, causes
from headrace.domain.scopes import over_capacity, over_limit, scopes_of
from headrace.domain.searches import is_resting, is_worthwhile, was_searched
from headrace.domain.snapshot import copy_of
from headrace.domain.state import PoolState, State
from headrace.domain.takings import Hold


class Candidate(NamedTuple):
    rank: Rank
    group: JobGroup
    job: JobRecord
    pool: PoolState
    inside: bool
    limited: bool


class Oracle:
    """One round on a copy of the state; `granted` are (job, pool, nodes, inside), `opened` (job, pool, cause), `resumed` jobs."""

    def __init__(self, state: State, now: int, skip: frozenset[str] = frozenset()) -> None:
        self.causes_at_first = state
        self.state = copy_of(state)
        self.now = now
        self.skip = skip
        self.granted: list[tuple[str, str, tuple[str, ...], bool]] = []
        self.opened: list[tuple[str, str, str]] = []
        self.resumed: list[str] = []
        self.state.pending.ripen(now)

    def play(self, facts: Iterable[AnyFact], *, in_line: bool = True) -> Oracle:
        """Those for whom places are kept go first (R27), then what `facts` keep is judged, then it is said who ought to be granted what."""
        self._nominated()
        if not in_line:
            return self
        self._keep(facts)
        while any(self._grant(self.state.pools[name]) for name in sorted(self.state.pools)):
            pass
        for name in sorted(self.state.pools):
            self._search(self.state.pools[name])
        return self

    def _keep(self, facts: Iterable[AnyFact]) -> None:
        """What the round lifts and places before it grants anything to those in line (R16), which has to be right by itself."""
        for fact in facts:
            if isinstance(fact, f.HoldLiftedV1):
                del self.state.holds[fact.job]
            elif isinstance(fact, f.HoldPlacedV1):
                job, pool = self.state.jobs[fact.job], self.state.pools[fact.pool]
                assert self.now - job.pending_since >= pool.document.backfill_for
                assert fact.job not in self.state.holds
                assert not self._fits(job, pool)
                assert awaited_places(self.state, job, pool) is not None
                self.state.holds[fact.job] = Hold(job, fact.pool, fact.places, self.now)
        assert all(hold.job.key not in self.skip for hold in self.state.holds.values() if hold.placed_at == self.now)

    def _nominated(self) -> None:
        for preemption in sorted(self.state.preemptions.values(), key=lambda one: (one.sequence, one.id)):
            job, pool = preemption.job, self.state.pools[preemption.pool]
            if job.nomination is not preemption or job.key in self.skip or job.state != "pending":
                continue
            if not may_start(self.state, job, preemption.pool):
                continue
            capacity.lift(self.state, preemption)
            if not self._limit(job.policy, job.request, job.beyond, pool) and self._fits(job, pool):
                self._take(job, pool, inside=preemption.cause == RECLAIM)
            else:
                capacity.nominate(self.state, preemption)

    def _take(self, job: JobRecord, pool: PoolState, *, inside: bool) -> None:
        with as_seen_by(self.state, job, pool):
            places = find_places(self.state, job, pool)
        self.state.holds.pop(job.key, None)
        for place in places:
            capacity.take(self.state, job, pool, place)
        self.state.pending.remove(job)
        self.granted.append((job.key, pool.document.name, tuple(place.node for place in places), inside))

    def _grant(self, pool: PoolState) -> bool:
        kept_from = self._kept_from(pool)
        suspended = self._best_suspended(pool)
        for candidate in self.candidates(pool):
            if suspended is not None and suspended[0] < candidate.rank:
                break
            if kept_from is not None and candidate.rank > kept_from and not self._goes_beside(candidate.job, pool):
                continue
            if not candidate.limited and self._fits(candidate.job, pool) and not self._goes_elsewhere(candidate):
                self._take(candidate.job, pool, inside=candidate.inside)
                return True
        if suspended is not None:
            self._resume(suspended[1], pool)
        return suspended is not None

    def _best_suspended(self, pool: PoolState) -> tuple[Rank, JobRecord] | None:
        """Who goes on first of those who could though what is kept for whoever ranks before them is not free for them (R18, R29)."""
        if pool.search is not None:
            return None
        resuming = Resuming(self.state, self.skip.union(self.resumed))
        there = [job for job in self.state.suspended.values() if next(iter(job.leases.values())).pool == pool.document.name]
        ranked = [(mine, job) for job in there if (mine := self._rank_of_suspended(resuming, job, pool)) is not None]
        return min(ranked, key=lambda pair: pair[0], default=None)

    def _rank_of_suspended(self, resuming: Resuming, job: JobRecord, pool: PoolState) -> Rank | None:
        mine = None if job.key in self.skip or job.key in self.resumed else resuming._rank(job, pool)
        if mine is None:
            return None
        here = [hold for hold in self.state.holds.values() if hold.pool == pool.document.name]
        ranked = [(theirs, hold) for hold in here if (theirs := rank_in_line(self.state, hold.job, pool)) is not None]
        kept = [
            OutOfReach(self.state, pool, hold) for theirs, hold in sorted(ranked, key=lambda pair: pair[0]) if theirs < mine
        ]
        mine = resuming._rank(job, pool)
        for out in reversed(kept):
            out.end()
        return mine

    def _resume(self, job: JobRecord, pool: PoolState) -> None:
        """It goes on where it was (R29)."""
        for lease in job.leases.values():
            capacity.take(self.state, job, pool, capacity.gpu_part(lease))
        self.resumed.append(job.key)

    def _goes_beside(self, job: JobRecord, pool: PoolState) -> bool:
        """Whether it only goes to nodes that do not help the job for which victims are looked for (R19)."""
        mine, theirs = set(job.request.shape.models), set(pool.search.job.request.shape.models)
        return bool(mine and theirs) and mine.isdisjoint(theirs)

    def candidates(self, pool: PoolState) -> list[Candidate]:
        """All heads that may start in a pool as far as their own accounts go, best first; and those whose tenant's limit is reached."""
        found = []
        for group in self.state.pending.groups.values():
            candidate = self._candidate(group, pool)
            if candidate is not None:
                found.append(candidate)
        return sorted(found, key=lambda candidate: candidate.rank)

    def _candidate(self, group: JobGroup, pool: PoolState) -> Candidate | None:
        job, document, name = group.head(), group.policy.document, pool.document.name
        profile = self.state.profile(document.tenant, group.profile)
        if job is None or job.key in self.skip or profile is None or name not in profile.pools or name == group.barred_from:
            return None
        if not may_enter(pool, document.tenant, document.group) or not may_start(self.state, group, name):
            return None
        inside = is_inside(self.state, group, pool)
        borrows = next((link.borrow for link in document.profiles if link.name == group.profile), True)
        limit = self._limit(group.policy, group.request, group.beyond, pool)
        if limit == "policy" or (not inside and not (group.preemptible and borrows)):
            return None
        return Candidate(rank(self.state, group, job, pool, inside=inside), group, job, pool, inside, limit == "tenant")

    def _limit(self, policy, request, beyond: bool, pool: PoolState) -> str:
        short = over_limit(scopes_of(self.state, policy, pool.document.name), pool.governed, request.total, beyond=beyond)
        return "" if short is None else short.scope.kind

    def _fits(self, job: JobRecord, pool: PoolState) -> bool:
        with as_seen_by(self.state, job, pool):
            return over_capacity(pool, job.request.sums) is None and find_places(self.state, job, pool) is not None

    def _kept_from(self, pool: PoolState) -> Rank | None:
        group = self.state.pending.group_of(pool.search.job) if pool.search is not None else None
        if group is None:
            return None
        return rank(self.state, group, pool.search.job, pool, inside=is_inside(self.state, group, pool))

    def _before(self, candidate: Candidate) -> list[Candidate]:
        profile = self.state.profile(candidate.job.tenant, candidate.group.profile)
        place = profile.pools.index(candidate.pool.document.name)
        names = [name for name in profile.pools[:place] if name in self.state.pools]
        found = [self._candidate(candidate.group, self.state.pools[name]) for name in names]
        return [earlier for earlier in found if earlier is not None and not earlier.limited]

    def _goes_elsewhere(self, candidate: Candidate) -> bool:
        profile = self.state.profile(candidate.job.tenant, candidate.group.profile)
        return self._is_searched_for_before(candidate) or any(
            self._fits(earlier.job, earlier.pool)
            or (earlier.inside and profile.reclaim_before_spill and self._may_search(earlier))
            for earlier in self._before(candidate)
        )

    def _is_searched_for_before(self, candidate: Candidate) -> bool:
        """Whether victims are looked for in an earlier pool of its order: then it does not spill (R19)."""
        profile = self.state.profile(candidate.job.tenant, candidate.group.profile)
        for name in profile.pools[: profile.pools.index(candidate.pool.document.name)]:
            pool = self.state.pools.get(name)
            if pool is None or pool.search is None or pool.search.job is not candidate.job:
                continue
            if self._candidate(candidate.group, pool) is not None and causes(self.state, candidate.job, pool):
                return True
        return False

    def _may_search(self, candidate: Candidate) -> bool:
        pool, job = candidate.pool, candidate.job
        if pool.search is not None:
            return pool.search.job is job and bool(causes(self.state, job, pool))
        if not is_worthwhile(pool, job, self.now) or not anybody_above(self.state, job.policy, pool):
            return False
        return bool(causes(self.state, job, pool))

    def _search(self, pool: PoolState) -> None:
        if pool.search is not None:
            return
        for candidate in self.candidates(pool):
            if is_resting(pool, self.now) and was_searched(pool, candidate.job):
                continue
            if self._fits(candidate.job, pool) and not candidate.limited:
                continue
            if not self._may_search(candidate) or any(self._may_search(earlier) for earlier in self._before(candidate)):
                continue
            cause = causes(
                self.causes_at_first, self.causes_at_first.jobs[candidate.job.key], pool_of(self.causes_at_first, pool)
            )
            self.opened.append((candidate.job.key, pool.document.name, cause[0]))
            return


def pool_of(state: State, pool: PoolState) -> PoolState:
    return state.pools[pool.document.name]
