"""Handing out what is free (R15-R19): the best-ranked candidate of each pool, one grant, then look again.

Strategy: within a round only grants happen, so use only grows and free amounts only shrink: a candidate's rank can only get worse and what
does not fit stays that way. So each pool keeps a heap of groups; the top is ranked again when it comes up, and is put back if it has
got worse. Grants are tried on the state and undone at the end of the round (`capacity`), so that the round sees its own effects.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.domain import capacity
from headrace.domain.eligibility import anybody_above, causes
from headrace.domain.placement import find_places
from headrace.domain.ranking import Rank, is_inside, rank
from headrace.domain.scopes import over_capacity, over_limit, scopes_of
from headrace.domain.searches import is_worthwhile
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Place
    from headrace.domain.pending import JobGroup
    from headrace.domain.state import JobRecord, PoolState, Preemption, State

GRANTS_MAX = 400
"""Leases in one round: bounds the record (R2: a gang is never split) and the time until the next look."""


class _Round:
    """One round on one state. `grants` are facts; `_tried` is what has to be undone."""

    def __init__(self, state: State, now: int, skip: frozenset[str]) -> None:
        self.state = state
        self.now = now
        self.skip = skip
        self.facts: list[AnyFact] = []
        self.opened: dict[str, tuple[Rank, JobRecord]] = {}
        self._tried: list[tuple[JobRecord, PoolState, Place]] = []
        self._taken: list[tuple[JobGroup, JobRecord]] = []
        self._lifted: list[Preemption] = []
        self._heaps: dict[str, list[tuple[Rank, int, JobGroup, JobRecord]]] = {}
        self._full: set[tuple[str, int]] = set()
        self._lenders: dict[tuple[str, tuple[str, str]], bool] = {}

    def grant_nominated(self) -> None:
        """Preemptors first: what they wait for is kept for them, so nobody's turn is taken (R27)."""
        for preemption in list(self.state.preemptions.values()):
            job = preemption.job
            if job.nomination is not preemption or job.key in self.skip or job.state is not JobState.PENDING:
                continue
            pool = self.state.pools[preemption.pool]
            capacity.lift(self.state, job.policy, pool, preemption.places, preemption.total)
            places = self._places(job, pool)
            if places is None:
                capacity.nominate(self.state, job.policy, pool, preemption.places, preemption.total)
                continue
            self._lifted.append(preemption)
            self._hold(job, pool, places)
            self.facts += leases(job, pool, places, inside=True, rule="R27")

    def grant_pending(self) -> None:
        """Fill the heaps, then the best of each pool, pools by name, until nothing more fits or the round is full."""
        for group in self.state.pending.groups.values():
            self._enter(group, 0)
        while len(self._tried) < GRANTS_MAX:
            if not any(self._grant_one(self.state.pools[name]) for name in sorted(self._heaps)):
                return

    def _enter(self, group: JobGroup, first: int) -> None:
        """Put the group's head into the heap of the first pool, from place `first` of its order, that could satisfy it now (R18)."""
        job = group.head()
        profile = self.state.profile(group.policy.document.tenant, group.profile)
        if job is None or profile is None or job.key in self.skip:
            return
        borrow = next((link.borrow for link in group.policy.document.profiles if link.name == group.profile), True)
        for place in range(first, len(profile.pools)):
            pool = self.state.pools.get(profile.pools[place])
            if pool is None or pool.document.name == group.barred_from:
                continue
            fits = self._could_fit(group, pool)
            if not fits and not self._search_could_help(job, pool):
                continue
            inside = is_inside(self.state, group, pool)
            if not inside and not (group.preemptible and borrow):
                continue
            if self._limited(group, pool):
                continue
            standing = rank(self.state, group, job, pool, inside=inside)
            if fits:
                heapq.heappush(self._heaps.setdefault(pool.document.name, []), (standing, place, group, job))
                return
            if self._searches(job, pool, standing) and inside and profile.reclaim_before_spill:
                return

    def _could_fit(self, group: JobGroup, pool: PoolState) -> bool:
        """Whether the request alone could be satisfied; what cannot be, cannot be for the rest of the round."""
        asked = (pool.document.name, group.request.order)
        if asked in self._full:
            return False
        if over_capacity(pool, group.request.total) is None and pool.index.find(group.request.shape) is not None:
            return True
        self._full.add(asked)
        return False

    def _limited(self, group: JobGroup, pool: PoolState) -> bool:
        scopes = scopes_of(self.state, group.policy, pool.document.name)
        return over_limit(scopes, pool.governed, group.request.total, beyond=group.beyond) is not None

    def _grant_one(self, pool: PoolState) -> bool:
        """Grant the pool's best candidate; False when it has none left."""
        heap = self._heaps[pool.document.name]
        while heap:
            standing, place, group, job = heapq.heappop(heap)
            inside = is_inside(self.state, group, pool)
            now_standing = rank(self.state, group, job, pool, inside=inside)
            if now_standing != standing:
                self._enter(group, place)
                continue
            if pool.search is not None and self._waits_for_search(pool, standing):
                continue
            places = self._places(job, pool)
            if places is None:
                self._found_no_room(group, job, pool, standing, place)
                continue
            self._take(group, job, pool, places, inside=inside)
            self._enter(group, 0)
            return True
        return False

    def _found_no_room(self, group: JobGroup, job: JobRecord, pool: PoolState, standing: Rank, place: int) -> None:
        """Search here if that may help, else spill to the next pool of the order (R18, R19)."""
        profile = self.state.profile(group.policy.document.tenant, group.profile)
        searches = not self._limited(group, pool) and self._searches(job, pool, standing)
        if not (searches and standing[0] == 0 and profile is not None and profile.reclaim_before_spill):
            self._enter(group, place + 1)

    def _waits_for_search(self, pool: PoolState, standing: Rank) -> bool:
        """While a search is under way, what is free is kept from everybody who ranks below the job it is for (R19)."""
        search = pool.search
        if search is None:
            return False
        job = search.job
        group = self.state.pending.group_of(job)
        if group is None:
            return False
        return standing > rank(self.state, group, job, pool, inside=is_inside(self.state, group, pool))

    def _places(self, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
        total = job.request.total
        if over_capacity(pool, total) is not None:
            return None
        if over_limit(scopes_of(self.state, job.policy, pool.document.name), pool.governed, total, beyond=job.beyond):
            return None
        return find_places(self.state, job, pool)

    def _take(self, group: JobGroup, job: JobRecord, pool: PoolState, places: tuple[Place, ...], *, inside: bool) -> None:
        self._hold(job, pool, places)
        del group.members[job.key]
        group.head()
        self._taken.append((group, job))
        self.facts += leases(job, pool, places, inside=inside, rule="R15")

    def _hold(self, job: JobRecord, pool: PoolState, places: tuple[Place, ...]) -> None:
        for place in places:
            capacity.take(self.state, job, pool, place)
            self._tried.append((job, pool, place))

    def _search_could_help(self, job: JobRecord, pool: PoolState) -> bool:
        """Whether a search for the job is under way, or one might find something: a cheap look before the rules are asked."""
        if pool.search is not None:
            return pool.search.job is job
        if not is_worthwhile(pool, job, self.now):
            return False
        key = (pool.document.name, job.policy.key)
        found = self._lenders.get(key)
        if found is None:
            found = self._lenders[key] = anybody_above(self.state, job, pool)
        return found

    def _searches(self, job: JobRecord, pool: PoolState, standing: Rank) -> bool:
        """Whether a search for the job is under way in the pool, or opens now: for the best-ranked job that finds no room but may
        take some back, one for each pool at a time (R19)."""
        if pool.search is not None:
            return pool.search.job is job
        if not self._search_could_help(job, pool) or not causes(self.state, job, pool):
            return False
        best = self.opened.get(pool.document.name)
        if best is None or standing < best[0]:
            self.opened[pool.document.name] = (standing, job)
        return True

    def undo(self) -> None:
        """Leave the state as it was found."""
        for job, pool, place in reversed(self._tried):
            capacity.give_back(self.state, job, pool, place)
        for preemption in self._lifted:
            pool = self.state.pools[preemption.pool]
            capacity.nominate(self.state, preemption.job.policy, pool, preemption.places, preemption.total)
        for group, job in reversed(self._taken):
            group.members[job.key] = job
            heapq.heappush(group.heap, (-job.priority, job.admitted_at, job.order, job.key, job))


def leases(job: JobRecord, pool: PoolState, places: tuple[Place, ...], *, inside: bool, rule: str) -> list[AnyFact]:
    """The facts by which the job's next attempt begins: one lease for each replica."""
    return [
        f.LeaseGrantedV1(
            job=job.key,
            attempt=job.attempt + 1,
            rank=number,
            node=place.node,
            pool=pool.document.name,
            devices=place.devices,
            amounts=place.amounts,
            inside=inside,
            resume_from=job.checkpoint,
            rule=rule,
        )
        for number, place in enumerate(places)
    ]


def grant(state: State, now: int, skip: frozenset[str]) -> list[AnyFact]:
    """All grants of one round, and the searches that open because somebody found no room. `skip`: jobs that this record settles."""
    state.pending.ripen(now)
    turn = _Round(state, now, skip)
    try:
        turn.grant_nominated()
        turn.grant_pending()
    finally:
        turn.undo()
    opened = [
        f.ReclaimOpenedV1(job=job.key, pool=pool, cause=causes(state, job, state.pools[pool])[0])
        for pool, (_, job) in sorted(turn.opened.items())
    ]
    return [*turn.facts, *opened]
