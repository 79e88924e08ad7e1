"""Handing out what is free (R15-R19): the best-ranked candidate of each pool, one grant, then look again.

Strategy: grants are tried on the state and undone at the end of the round (`capacity`), so that the round sees its own effects. Within a
round use only grows and free amounts only shrink, so a request that does not fit a pool is not asked for there again. Which candidate is
best is kept from round to round (`standings`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.domain import capacity
from headrace.domain.closings import is_closed
from headrace.domain.dedication import COMMON, has_owners, reach_in
from headrace.domain.eligibility import RECLAIM, anybody_above, causes
from headrace.domain.placement import find_places
from headrace.domain.scopes import over_capacity, over_limit, scopes_of
from headrace.domain.searches import is_worthwhile
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from headrace.allocator.standings import Candidate, Standings
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Place
    from headrace.domain.pending import JobGroup
    from headrace.domain.ranking import Rank
    from headrace.domain.record_room import RecordRoom
    from headrace.domain.state import JobRecord, PoolState, State
    from headrace.domain.takings import Preemption

GRANTS_MAX = 400
"""Leases in one round, unless one gang has more: bounds the time until the next look."""


class _Round:
    """One round on one state."""

    def __init__(self, state: State, standings: Standings, now: int, skip: AbstractSet[str], room: RecordRoom) -> None:
        self.state = state
        self.standings = standings
        self.now = now
        self.skip = skip
        self.room = room
        self.is_full = False
        self.facts: list[AnyFact] = []
        self.opened: dict[str, JobRecord] = {}
        self._tried: list[tuple[JobRecord, PoolState, Place]] = []
        self._taken: list[tuple[JobGroup, JobRecord]] = []
        self._lifted: list[Preemption] = []
        self._full: set[tuple[str, int, tuple[str, ...]]] = set()
        self._failed: set[tuple[str, JobGroup]] = set()
        self._lenders: dict[tuple[str, tuple[str, str]], bool] = {}

    def grant_nominated(self) -> None:
        """Preemptors first: what they wait for is kept for them, so nobody's turn is taken (R27)."""
        for preemption in list(self.state.preemptions.values()):
            job = preemption.job
            if job.nomination is not preemption or job.key in self.skip or job.state is not JobState.PENDING:
                continue
            if is_closed(self.state, job, preemption.pool):
                continue
            pool = self.state.pools[preemption.pool]
            capacity.lift(self.state, preemption)
            places = self._places(job, pool)
            inside = preemption.cause == RECLAIM
            if places is None or not self._hold(job, pool, places, inside=inside, rule="R27"):
                capacity.nominate(self.state, preemption)
                continue
            self._lifted.append(preemption)

    def grant_pending(self) -> None:
        """The best of each pool, pools by name, until nothing more fits or the round is full; then searches for who found no room."""
        self.standings.refresh()
        while len(self._tried) < GRANTS_MAX and not self.is_full:
            if not any(self._grant_best(self.state.pools[name]) for name in self.standings.pools()):
                break
        for name in self.standings.pools():
            self._open_search(self.state.pools[name])

    def _grant_best(self, pool: PoolState) -> bool:
        """Grant the pool's best candidate; False when it has none that fits."""
        while True:
            best = self._best(pool)
            if best is None:
                return False
            places = self._places(best.job, pool)
            if places is None or not self._hold(best.job, pool, places, inside=best.inside, rule="R15"):
                if self.is_full:
                    return False
                self._failed.add((pool.document.name, best.group))  # a gang, of which one replica would fit
                continue
            self._leave_line(best.group, best.job)
            self.standings.refresh()
            return True

    def _best(self, pool: PoolState) -> Candidate | None:
        best: Candidate | None = None
        name = pool.document.name
        kept_from = self._kept_from(pool)
        for number in self.standings.requests(name):
            for candidate in self._fitting(pool, number):
                if kept_from is not None and candidate.standing > kept_from:
                    break
                if not self._goes_elsewhere(candidate):
                    if best is None or candidate.standing < best.standing:
                        best = candidate
                    break
        return best

    def _fitting(self, pool: PoolState, number: int) -> Iterator[Candidate]:
        name = pool.document.name
        if (name, number, (COMMON,)) in self._full and not has_owners(pool.document):
            return
        for candidate in self.standings.in_order(name, number):
            if not self._could_fit(candidate.group, pool):
                if has_owners(pool.document):
                    continue  # another policy may find room on nodes of its own (R21)
                return
            if candidate.job.key not in self.skip and (name, candidate.group) not in self._failed:
                yield candidate

    def _could_fit(self, group: JobGroup, pool: PoolState) -> bool:
        """Whether one replica could be placed; what cannot be, cannot be for the rest of the round."""
        request, owners = group.request, reach_in(pool.document, group.policy.key)
        asked = (pool.document.name, request.order, owners)
        if asked in self._full:
            return False
        if over_capacity(pool, request.sums) is None and pool.index.find(request.shape, owners) is not None:
            return True
        self._full.add(asked)
        return False

    def _kept_from(self, pool: PoolState) -> Rank | None:
        """While a search is under way, what is free is kept from everybody who ranks below the job it is for (R19)."""
        return None if pool.search is None else self.standings.standing_of(pool.search.job, pool)

    def _goes_elsewhere(self, candidate: Candidate) -> bool:
        """Whether an earlier pool of its order satisfies it now, or has to be tried for something to take back first (R18, R19)."""
        profile = self.state.profile(candidate.job.tenant, candidate.group.profile)
        for pool, earlier in self._before(candidate):
            if self._has_room(earlier, pool):
                return True
            if earlier.inside and profile is not None and profile.reclaim_before_spill and self._may_search(earlier, pool):
                return True
        return False

    def _before(self, candidate: Candidate) -> Iterator[tuple[PoolState, Candidate]]:
        """The earlier pools of its order, and itself as it stands there; none where a limit, its reservation or a bar is in its way."""
        if not candidate.place:
            return
        profile = self.state.profile(candidate.job.tenant, candidate.group.profile)
        for name in profile.pools[: candidate.place] if profile is not None else ():
            earlier = self.standings.of(candidate.group, name)
            if earlier is not None:
                yield self.state.pools[name], earlier

    def _places(self, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
        total = job.request.total
        if over_capacity(pool, job.request.sums) is not None:
            return None
        if over_limit(scopes_of(self.state, job.policy, pool.document.name), pool.governed, total, beyond=job.beyond):
            return None
        return find_places(self.state, job, pool)

    def _leave_line(self, group: JobGroup, job: JobRecord) -> None:
        group.leave(job)
        self.state.pending.mark(group)
        self._taken.append((group, job))

    def _hold(self, job: JobRecord, pool: PoolState, places: tuple[Place, ...], *, inside: bool, rule: str) -> bool:
        """Grant, on trial; False where this record has no room for it: nobody else goes first then, unless no record ever has."""
        facts = leases(job, pool, places, inside=inside, rule=rule)
        if not self.room.takes(facts):
            self.is_full = not self.room.untouched
            return False
        for place in places:
            capacity.take(self.state, job, pool, place)
            self._tried.append((job, pool, place))
        self.facts += facts
        return True

    def _open_search(self, pool: PoolState) -> None:
        """The best-ranked job that finds no room but may take some back opens a search, one for each pool at a time (R19).

        A job searches in one pool after the other, in its order.
        """
        if pool.search is not None:
            return
        best: Candidate | None = None
        for candidate in self.standings.hopeful(pool, self.now):
            if candidate.job.key in self.skip or (best is not None and best.standing <= candidate.standing):
                continue
            if (self._has_room(candidate, pool) and not candidate.limited) or not self._may_search(candidate, pool):
                continue
            if not any(self._may_search(earlier, other) for other, earlier in self._before(candidate)):
                best = candidate
        if best is not None:
            self.opened[pool.document.name] = best.job

    def _has_room(self, candidate: Candidate, pool: PoolState) -> bool:
        return (pool.document.name, candidate.group) not in self._failed and self._could_fit(candidate.group, pool)

    def _may_search(self, candidate: Candidate, pool: PoolState) -> bool:
        """Whether a search for the job is under way in the pool, or could find somebody."""
        job = candidate.job
        if pool.search is not None:
            return pool.search.job is job
        if not is_worthwhile(pool, job, self.now) or not self._somebody_lends(candidate.group, pool):
            return False
        return bool(causes(self.state, job, pool))

    def _somebody_lends(self, group: JobGroup, pool: PoolState) -> bool:
        key = (pool.document.name, group.policy.key)
        found = self._lenders.get(key)
        if found is None:
            found = self._lenders[key] = anybody_above(self.state, group.policy, pool)
        return found

    def undo(self) -> None:
        """Leave the state as it was found."""
        for job, pool, place in reversed(self._tried):
            capacity.give_back(self.state, job, pool, place)
        for preemption in self._lifted:
            capacity.nominate(self.state, preemption)
        for group, job in reversed(self._taken):
            group.join(job)
            self.state.pending.mark(group)


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


def grant(state: State, standings: Standings, now: int, skip: AbstractSet[str], room: RecordRoom) -> list[AnyFact]:
    """All grants of one round, and the searches that open because somebody found no room.

    `skip`: jobs that this record settles; `room`: what it still holds.
    """
    state.pending.ripen(now)
    turn = _Round(state, standings, now, skip, room)
    try:
        turn.grant_nominated()
        turn.grant_pending()
    finally:
        turn.undo()
    opened = [
        f.ReclaimOpenedV1(job=job.key, pool=pool, cause=causes(state, job, state.pools[pool])[0])
        for pool, job in sorted(turn.opened.items())
    ]
    return [*turn.facts, *room.fill(opened)]
