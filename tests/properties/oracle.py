"""Rounds of grants the slow way: every candidate of every pool ranked by the comparator, everything looked at again after each grant.

No sets of requests, no index that has seen anything before: the state is copied, and the copy is changed as it goes. What was found out
is kept only until the next change. It says who ought to be granted what (R15, R18, R19, R27), and for whom a search ought to open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple

from headrace.allocator.matching import is_charged_otherwise
from headrace.allocator.pending_review import why_never
from headrace.allocator.relocation import nomination_of
from headrace.allocator.suspend_resume import Resumption
from headrace.contracts import facts as f
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import JOB
from headrace.domain.backfill.backfill_placement import awaited_places
from headrace.domain.backfill.hold_policy import is_lent_to
from headrace.domain.backfill.holds import rank_in_line, withhold
from headrace.domain.fold import arrays
from headrace.domain.indexes.pending import JobGroup
from headrace.domain.indexes.pending import Place as LinePlace
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord
from headrace.domain.model.preemption_state import MOVED, Hold
from headrace.domain.model.requests import Request
from headrace.domain.placement.placement import find_places
from headrace.domain.preemption.eligibility import RECLAIM, causes, lends, may_take_from
from headrace.domain.queueing.access import may_enter
from headrace.domain.queueing.gates import may_start
from headrace.domain.queueing.ranking import Rank, is_inside, may_hold_inside, rank, static_rank
from headrace.domain.snapshots.snapshot import copy_of
from headrace.domain.state import capacity
from headrace.domain.state.pools import PoolState
from headrace.domain.state.quota import BOTH, IS_HELD, WILL_BE, limits_of, over_capacity, over_limit, scopes_of, user_scope
from headrace.domain.state.search_backoff import is_backing_off, is_worthwhile, was_searched
from headrace.domain.state.state import State
from headrace.domain.state.supply import known_to
from headrace.domain.state.trial import Trial


class Candidate(NamedTuple):
    rank: Rank
    group: JobGroup
    job: JobRecord
    pool: PoolState
    inside: bool
    limited: bool


class Oracle:
    """One round on a copy of the state; `granted` are (job, pool, nodes, inside), `opened` (job, pool, cause), `resumed` jobs.

    `moved` are (job, pool, nodes).
    """

    def __init__(self, state: State, now: int, skip: frozenset[str] = frozenset()) -> None:
        self.causes_at_first = state
        self.state = copy_of(state)
        self.state.pass_time(now)
        self.now = now
        self.skip = skip
        for key in skip & self.state.holds.keys():  # what is stated of the job ends its hold
            del self.state.holds[key]
        self.granted: list[tuple[str, str, tuple[str, ...], bool]] = []
        self.opened: list[tuple[str, str, str]] = []
        self.resumed: list[str] = []
        self.moved: list[tuple[str, str, tuple[str, ...]]] = []
        self.first: dict[str, JobRecord] = {}
        self._found: dict[tuple[object, ...], Any] = {}

    def _changed(self) -> None:
        """Forget all that was found out: the copy is another one now."""
        self._found.clear()

    def play(self, facts: Iterable[AnyFact], *, in_line: bool = True) -> Oracle:
        """Those for whom places are kept go first (R27), then what `facts` keep is judged, then it is said who ought to be granted what."""
        self._nominated()
        if not in_line:
            return self
        self._choose_models(may_take=False)
        self._keep(facts)
        self._choose_models()
        while any(self._grant(self.state.pools[name]) for name in sorted(self.state.pools)):
            self._choose_models()
        for name in sorted(self.state.pools):
            self._search(self.state.pools[name])
        return self

    def _choose_models(self, *, may_take: bool = True) -> None:
        """Each job that asks for GPU memory asks for the first share with which it finds room (R42).

        Where it can with no share: for the first with which it may take something back, or for the first of all.
        """
        for group in self.state.pending.choosing:
            choices, before = group.request.each, group.request
            job = group.head()
            if job is None:
                continue
            for request in choices:
                group.request = job.request = request
                if any(self._fits_in(group, pool) for pool in self.state.pools.values()):
                    break
            else:
                takes = (one for one in choices if may_take and self._may_take(group, job, one))
                group.request = job.request = next(takes, choices[0])
            if group.request is not before:
                self._changed()

    def _may_take(self, group: JobGroup, job: JobRecord, request: Request) -> bool:
        """Whether it may take something back anywhere with this request, and its policy's own limits do not forbid it (R23)."""
        group.request = job.request = request
        profile, document = self.state.profile(group.policy.document.tenant, group.profile), group.policy.document
        for name in profile.pools if profile is not None else ():
            pool = self.state.pools.get(name)
            if pool is None or not may_enter(pool, document.tenant, document.group) or not causes(self.state, job, pool):
                continue
            if self._limit(group.policy, request, group.beyond, pool, WILL_BE, job.user) in ("", "tenant"):
                return True
        return False

    def _keep(self, facts: Iterable[AnyFact]) -> None:
        """What the round lifts and places before it grants anything to those in line (R16), which has to be right by itself."""
        for fact in facts:
            self._changed()
            if isinstance(fact, f.HoldLiftedV1):
                del self.state.holds[fact.job]
            elif isinstance(fact, f.HoldPlacedV1):
                job, pool = self.state.jobs[fact.job], self.state.pools[fact.pool]
                assert self.now - job.pending_since >= pool.document.backfill_for
                assert fact.job not in self.state.holds
                assert not self._fits(job, pool)
                assert awaited_places(self.state, job, pool) is not None
                self.state.holds[fact.job] = Hold(job, fact.pool, fact.places, self.now)
                self._changed()
        assert all(hold.job.key not in self.skip for hold in self.state.holds.values() if hold.placed_at == self.now)

    def _nominated(self) -> None:
        for preemption in sorted(self.state.preemptions.values(), key=lambda one: (one.sequence, one.id)):
            job, pool = preemption.job, self.state.pools[preemption.pool]
            if job.nomination is not preemption or job.key in self.skip or job.state != "pending":
                continue
            if not may_start(self.state, job, preemption.pool):
                continue
            capacity.lift(self.state, preemption)
            self._changed()
            if not self._limit(job.policy, job.request, job.beyond, pool, IS_HELD, job.user) and self._fits(job, pool):
                inside = is_inside(self.state, job, pool) if preemption.cause == MOVED else preemption.cause == RECLAIM
                self._take(job, pool, inside=inside)
            else:
                capacity.nominate(self.state, preemption)
                self._changed()

    def _take(self, job: JobRecord, pool: PoolState, *, inside: bool) -> None:
        with self._as_seen_by(job, pool):
            places = find_places(self.state, job, pool)
        self._changed()
        self.state.holds.pop(job.key, None)
        for place in places:
            capacity.take(self.state, job, pool, place)
            node = self.state.nodes[place.node]
            if (
                node.probation is not None and not node.probation.job
            ):  # it is given one job, and the next one once that runs (R36)
                node.probation.job = job.key
                pool.index.put(node)
        self.state.pending.remove(job)
        if job.array is not None:  # the next element of its array stands in line, if any may (R15)
            job.state = JobState.STARTING
            arrays.advance(self.state, job.array)
        self.granted.append((job.key, pool.document.name, tuple(place.node for place in places), inside))

    def _grant(self, pool: PoolState) -> bool:
        could = [
            candidate
            for candidate in self.candidates(pool)
            if not candidate.limited and self._fits(candidate.job, pool) and not self._goes_on_in_another_place(candidate)
        ]
        suspended = self._best_suspended(pool)
        moving = self._best_moving(pool)
        moves = moving is not None and (suspended is None or moving[0] < suspended[0])
        first = moving if moves else suspended
        if first is not None and not (could and could[0].rank < first[0]) and not self._keeps_from(first[0], pool):
            (self._move if moves else self._resume)(first[1], pool)
            return True
        if could and self._keeps_from(could[0].rank, pool):
            could = [candidate for candidate in could if self._goes_beside(candidate.job, pool)]
        if could:
            self._take(could[0].job, pool, inside=could[0].inside or not could[0].job.preemptible)
        return bool(could)

    def _keeps_from(self, mine: Rank, pool: PoolState) -> bool:
        """Whether what is free is kept for a job that ranks before, because a search is under way or opens now (R19)."""
        job = self._served(pool)
        if job is None:
            first = next((asking for asking in self._asking(pool) if not self._goes_now(asking)), None)
            if first is None or not first.rank < mine:
                return False
            self.first[pool.document.name] = first.job
            return True
        theirs = rank_in_line(self.state, job, pool) if self.state.pending.group_of(job) is not None else None
        return theirs is not None and mine > theirs

    def _served(self, pool: PoolState) -> JobRecord | None:
        """For whom what is free in the pool is kept."""
        return self.first.get(pool.document.name) if pool.search is None else pool.search.job

    def _best_suspended(self, pool: PoolState) -> tuple[Rank, JobRecord] | None:
        """Who goes on first of those who could though what is kept for jobs that rank before them is not free for them (R18, R29)."""
        if pool.search is not None:
            return None
        resumption = Resumption(self.state, self.skip.union(self.resumed))
        there = [job for job in self.state.suspended.values() if next(iter(job.leases.values())).pool == pool.document.name]
        ranked = [(mine, job) for job in there if (mine := self._rank_of_suspended(resumption, job, pool)) is not None]
        return min(ranked, key=lambda pair: pair[0], default=None)

    def _rank_of_suspended(self, resumption: Resumption, job: JobRecord, pool: PoolState) -> Rank | None:
        mine = None if job.key in self.skip or job.key in self.resumed else resumption.rank_in(job, pool)
        if mine is None:
            return None
        kept = self._keep_out(self._ranked_holds(pool), mine, pool)
        mine = resumption.rank_in(job, pool)
        for out in reversed(kept):
            out.undo()
        return mine

    def _ranked_holds(self, pool: PoolState) -> list[tuple[Rank, Hold]]:
        """The holds in the pool with the ranks of their jobs, best first."""
        key = "holds", pool.document.name
        if key not in self._found:
            here = [hold for hold in self.state.holds.values() if hold.pool == pool.document.name]
            ranked = [(theirs, hold) for hold in here if (theirs := rank_in_line(self.state, hold.job, pool)) is not None]
            self._found[key] = sorted(ranked, key=lambda pair: pair[0])
        return self._found[key]

    @contextmanager
    def _as_seen_by(self, job: JobRecord, pool: PoolState) -> Iterator[None]:
        """Meanwhile what is kept for jobs that rank before it is not free, but for what is lent to it (R16, R18)."""
        others = [(theirs, hold) for theirs, hold in self._ranked_holds(pool) if hold.job is not job]
        mine = rank_in_line(self.state, job, pool) if others else None
        before = [pair for pair in others if mine is not None and pair[0] < mine]
        kept = [
            withhold(Trial(self.state), pool, hold) for _, hold in before if not is_lent_to(self.state, hold, job, self.now)
        ]
        yield
        for out in reversed(kept):
            out.undo()

    def _keep_out(self, holds: list[tuple[Rank, Hold]], mine: Rank, pool: PoolState) -> list[Trial]:
        """What is kept in the pool for those of the holds that rank before, out of reach until it ends."""
        return [withhold(Trial(self.state), pool, hold) for theirs, hold in holds if theirs < mine]

    def _resume(self, job: JobRecord, pool: PoolState) -> None:
        """It goes on where it was (R29)."""
        self._changed()
        for lease in job.leases.values():
            capacity.take(self.state, job, pool, capacity.gpu_part(lease))
        self.resumed.append(job.key)

    def _best_moving(self, pool: PoolState) -> tuple[Rank, JobRecord] | None:
        """Who goes on there first of the suspended jobs that have a checkpoint and cannot go on where they are (R29)."""
        if pool.search is not None or not self.state.terms.amended:
            return None
        ranked = [(mine, job) for job in self.state.suspended.values() if (mine := self._moves_to(job, pool)) is not None]
        return min(ranked, key=lambda pair: pair[0], default=None)

    def _moves_to(self, job: JobRecord, pool: PoolState) -> Rank | None:
        """Its rank in the pool, if that is the first of its order with room for it as things will be when it has left."""
        gone = {*self.skip, *self.resumed, *(key for key, _, _ in self.moved)}
        own, profile = self.state.pools[next(iter(job.leases.values())).pool], self.state.profile(job.tenant, job.profile)
        nodes = [self.state.nodes[lease.node] for lease in job.leases.values()]
        if job.key in gone or not job.checkpoint or job.endings or job.yields_to or not all(node.healthy for node in nodes):
            return None
        if len(nodes) < job.request.replicas or profile is None or pool.document.name not in profile.pools:
            return None
        if self._rank_of_suspended(Resumption(self.state, gone), job, own) is not None:
            return None
        for name in profile.pools:
            window = self.state.maintenance.pools.get(name)
            if window is not None and (window.begun or not self._ends_before(job, window.begins)):
                continue
            if name in self.state.pools and name != job.barred_from and may_start(self.state, job, name):
                found = self._would_go(job, self.state.pools[name])
                if found is not None:
                    moves = why_never(self.state, job) is None and not is_charged_otherwise(self.state, job)
                    return found[0] if name == pool.document.name and moves else None
        return None

    def _ends_before(self, job: JobRecord, moment: int) -> bool:
        """Whether the job has ended by then if it starts now (R41)."""
        terms = job.policy.document.preemption
        grace = terms.callback_grace + terms.term_grace
        return job.time_limit is not None and self.now + job.time_limit + grace <= moment

    def _would_go(self, job: JobRecord, pool: PoolState) -> tuple[Rank, tuple[Place, ...]] | None:
        document = job.policy.document
        if pool.search is not None or not may_enter(pool, document.tenant, document.group):
            return None
        borrows = next((link.borrow for link in document.profiles if link.name == job.profile), True)
        holds = self._ranked_holds(pool)  # others rank by what is held now; it alone is ranked without what it holds (R29)
        leases = list(job.leases.values())
        for lease in leases:
            capacity.give_back(self.state, job, self.state.pools[lease.pool], capacity.held_by(lease))
        inside = is_inside(self.state, job, pool)
        may_hold = inside or borrows if job.preemptible else may_hold_inside(self.state, job, pool)
        mine = rank(self.state, job, job, pool, inside=inside)
        fits = may_hold and not self._limit(job.policy, job.request, job.beyond, pool, BOTH, job.user)
        kept = self._keep_out(holds, mine, pool)
        fits = fits and over_capacity(pool, job.request.sums) is None
        was = job.avoiding
        soon = {name for name, drain in self.state.maintenance.drains.items() if not self._ends_before(job, drain.begins)}
        job.avoiding = tuple({*self.state.set_aside, *(node for node, until in job.avoids.items() if until > self.now), *soon})
        places = find_places(self.state, job, pool) if fits else None
        job.avoiding = was
        for out in reversed(kept):
            out.undo()
        for lease in reversed(leases):
            capacity.take(self.state, job, self.state.pools[lease.pool], capacity.held_by(lease))
        return None if places is None else (mine, places)

    def _move(self, job: JobRecord, pool: PoolState) -> None:
        """Its places are kept for it, and what it still holds makes room for it (R17, R29)."""
        found = self._would_go(job, pool)
        assert found is not None
        self._changed()
        for lease in job.leases.values():
            capacity.yield_use(self.state, job, self.state.pools[lease.pool], capacity.held_by(lease), 1)
        capacity.nominate(self.state, nomination_of(self.state, job, pool, found[1]))
        self.moved.append((job.key, pool.document.name, tuple(place.node for place in found[1])))

    def _goes_beside(self, job: JobRecord, pool: PoolState) -> bool:
        """Whether it only goes to nodes that do not help the job for which victims are looked for (R19)."""
        mine, theirs = set(job.request.shape.models), set(self._served(pool).request.shape.models)
        return bool(mine and theirs) and mine.isdisjoint(theirs)

    def candidates(self, pool: PoolState, *, planned: bool = False) -> list[Candidate]:
        """All heads that may start in a pool as far as their own accounts go, best first; and those whose tenant's limit is reached.

        `planned`: as limits will be once those who yield have left (R17).
        """
        found = []
        for group in self.state.pending.groups.values():
            candidate = self._candidate(group, pool, planned=planned)
            if candidate is not None:
                found.append(candidate)
        return sorted(found, key=lambda candidate: candidate.rank)

    def _candidate(self, group: JobGroup, pool: PoolState, *, planned: bool = False) -> Candidate | None:
        key = "candidate", id(group), id(group.request), pool.document.name, planned
        if key not in self._found:
            self._found[key] = self._look_at(group, pool, planned=planned)
        return self._found[key]

    def _look_at(self, group: JobGroup, pool: PoolState, *, planned: bool) -> Candidate | None:
        job, document, name = group.head(), group.policy.document, pool.document.name
        profile = self.state.profile(document.tenant, group.profile)
        if job is None or job.key in self.skip or profile is None or name not in profile.pools or name == group.barred_from:
            return None
        if not may_enter(pool, document.tenant, document.group) or not may_start(self.state, group, name):
            return None
        inside = is_inside(self.state, group, pool)
        borrows = next((link.borrow for link in document.profiles if link.name == group.profile), True)
        limit = self._limit(group.policy, group.request, group.beyond, pool, WILL_BE if planned else BOTH, group.user)
        may_hold = inside or borrows if group.preemptible else may_hold_inside(self.state, group, pool)
        if limit == "policy" or not may_hold:
            return None
        limited = limit == "tenant" or (planned and self._is_stuck(group, pool))
        place = None if limit or group.policy.document.fair_among is None else self._dealt(group, job, pool, inside=inside)
        return Candidate(rank(self.state, group, job, pool, inside=inside, place=place), group, job, pool, inside, limited)

    def _dealt(self, group: JobGroup, job: JobRecord, pool: PoolState, *, inside: bool) -> LinePlace:
        """Where it stands among all jobs of its policy that are equal to it but for their age: the least user's oldest one first."""
        mine = self._standing(group, pool)
        if mine is None:  # it may only ask for something back, and keeps its own place
            return (-job.priority, _since(job), job.order, job.key)
        alike = [
            other
            for fellows in self.state.pending.groups.values()
            if fellows.policy is group.policy and mine == self._standing(fellows, pool)
            for other in fellows.members.values()
            if other.priority == job.priority
        ]
        assert mine[0] is inside
        by_age = sorted((_since(other), other.order, other.key) for other in alike)
        by_use = sorted(alike, key=lambda other: (self._use(other), _since(other), other.order, other.key))
        return (-job.priority, *by_age[by_use.index(job)])

    def _use(self, job: JobRecord) -> Fraction | int:
        """The greatest share that the jobs of its user under its policy use of what the policy reaches."""
        links = [self.state.profile(job.tenant, link.name) for link in job.policy.document.profiles]
        pools = {name for profile in links if profile is not None for name in profile.pools if name in self.state.pools}
        found: int | Fraction = 0
        for key, used in user_scope(job.policy, job.user).use.items():
            there = [self.state.pools[name] for name in pools if key in self.state.pools[name].governed]
            capacity_there = sum(known_to(pool, job.policy.key).get(key, 0) for pool in there)
            if capacity_there:
                found = max(found, Fraction((used << 32) // capacity_there))
        return found

    def _standing(self, group: JobGroup, pool: PoolState) -> tuple[bool, object] | None:
        """Whether its jobs stand inside the reservation, and the rest of (1)-(5); None: they may be granted nothing here."""
        document, name = group.policy.document, pool.document.name
        profile = self.state.profile(document.tenant, group.profile)
        if profile is None or name not in profile.pools or name == group.barred_from:
            return None
        if not may_enter(pool, document.tenant, document.group) or not may_start(self.state, group, name):
            return None
        inside = is_inside(self.state, group, pool)
        borrows = next((link.borrow for link in document.profiles if link.name == group.profile), True)
        may_hold = inside or borrows if group.preemptible else may_hold_inside(self.state, group, pool)
        if not may_hold or self._limit(group.policy, group.request, group.beyond, pool, BOTH, group.user):
            return None
        return inside, static_rank(self.state, group.policy, group.profile, pool)

    def _is_stuck(self, group: JobGroup, pool: PoolState) -> bool:
        """Whether what leases hold is over its tenant's limit, and some of them are overdue, so that they may stay (R17, R28)."""
        share = self.state.shares.get((group.policy.document.tenant, pool.document.name))
        if share is None or not pool.overdue or not self.state.terms.amended:
            return False
        return over_limit((share,), pool.governed, group.request.total, against=BOTH) is not None

    def _limit(self, policy, request, beyond: bool, pool: PoolState, against: int, user: str = "") -> str:
        if not beyond and self._is_user_at_limit(policy, request, pool, against, user):
            return "policy"
        scopes = scopes_of(self.state, policy, pool.document.name)
        short = over_limit(scopes, pool.governed, request.total, beyond=beyond, against=against)
        return "" if short is None else short.scope.kind

    def _is_user_at_limit(self, policy, request, pool: PoolState, against: int, user: str) -> bool:
        """Whether what a user's jobs hold leaves too little of what each user of the policy may hold (R7)."""
        scope = user_scope(policy, user) if user else None
        for key, most in policy.document.per_user.limit.items() if scope is not None and policy.document.per_user else ():
            used, held = scope.use.get(key, 0), scope.leased.get(key, 0)
            counted = {WILL_BE: used, IS_HELD: held, BOTH: max(used, held)}[against]
            asked = request.total.get(key, 0)
            if asked and counted + asked > most and key in (*pool.governed, JOB):
                return True
        return False

    def _fits(self, job: JobRecord, pool: PoolState) -> bool:
        key = "fits", job.key, id(job.request), pool.document.name
        if key not in self._found:
            with self._as_seen_by(job, pool):
                fits = over_capacity(pool, job.request.sums) is None and find_places(self.state, job, pool) is not None
            self._found[key] = fits
        return self._found[key]

    def _others(self, candidate: Candidate, *, earlier: bool) -> list[PoolState]:
        """The pools of its order, or those of them that come before the one in which it stands here."""
        names = list(self.state.profile(candidate.job.tenant, candidate.group.profile).pools)
        place = names.index(candidate.pool.document.name)
        names = names[:place] if earlier else [name for name in names if name != candidate.pool.document.name]
        return [self.state.pools[name] for name in names if name in self.state.pools]

    def _fits_in(self, group: JobGroup, pool: PoolState) -> bool:
        there = self._candidate(group, pool)
        return there is not None and not there.limited and self._fits(there.job, pool)

    def _goes_on_in_another_place(self, candidate: Candidate) -> bool:
        """To an earlier pool of its order: it has room there, or does not spill from it (R18, R19)."""
        first = self.state.profile(candidate.job.tenant, candidate.group.profile).reclaim_before_spill
        for pool in self._others(candidate, earlier=True):
            if self._fits_in(candidate.group, pool):
                return True
            there = self._candidate(candidate.group, pool, planned=True)
            if there is None:
                continue
            if self._is_served(there) or (first and self._could_find(there, reclaiming=True)):
                return True
        return False

    def _goes_now(self, asking: Candidate) -> bool:
        """Whether it has room in a pool that it would rather take than wait for victims in this one."""
        first = self.state.profile(asking.job.tenant, asking.group.profile).reclaim_before_spill
        stays = first and self._could_take(asking, reclaiming=True)
        return any(self._fits_in(asking.group, pool) for pool in self._others(asking, earlier=stays))

    def _is_served(self, candidate: Candidate) -> bool:
        search = candidate.pool.search
        is_its = search is not None and search.job is candidate.job
        return is_its and bool(causes(self.state, candidate.job, candidate.pool))

    def _could_find(self, candidate: Candidate, *, reclaiming: bool = False) -> bool:
        is_new = is_worthwhile(candidate.pool, candidate.job, self.now)
        return is_new and self._could_take(candidate, reclaiming=reclaiming)

    def _could_take(self, candidate: Candidate, *, reclaiming: bool) -> bool:
        """Whether a policy from which it may take is above its reservation: back what is reserved for it, or by priority."""
        job, pool = candidate.job, candidate.pool
        by_priority = job.policy.document.preemption.preempt_lower_priority and not reclaiming
        return any(
            lends(self.state, other, job.policy, pool)
            and (
                may_take_from(self.state, job, other, pool, RECLAIM)
                or (by_priority and other.document.tenant == job.policy.document.tenant)
            )
            for other in self.state.policies.values()
        )

    def _asking(self, pool: PoolState) -> Iterator[Candidate]:
        """Those who find no room in the pool and might take something there, and in no earlier pool of their order; best first."""
        for candidate in self.candidates(pool, planned=True):
            if is_backing_off(pool, self.now) and was_searched(pool, candidate.job):
                continue
            if self._fits(candidate.job, pool) and not candidate.limited:
                continue
            before = [self._candidate(candidate.group, other, planned=True) for other in self._others(candidate, earlier=True)]
            if any(one is not None and (self._is_served(one) or self._could_find(one)) for one in before):
                continue
            if self._could_find(candidate):
                yield candidate

    def _search(self, pool: PoolState) -> None:
        best = next(self._asking(pool), None) if pool.search is None else None
        if best is not None:
            job = arrays.element_of(self.causes_at_first, best.job.key)  # an element may have come into line in this round
            cause = self._cause_at_first(job, pool_of(self.causes_at_first, pool))
            if cause:
                self.opened.append((best.job.key, pool.document.name, cause))

    def _cause_at_first(self, job: JobRecord, pool: PoolState) -> str:
        """The cause of the first of its shares with one, within its policy's own limits, as things were before the round (R42)."""
        state = self.causes_at_first
        for request in job.request.each:
            with Trial(state) as trial:
                trial.choose(job, request)
                found = causes(state, job, pool)
                short = over_limit(limits_of(state, job, pool.document.name), pool.governed, request.total, beyond=job.beyond)
            if found and (short is None or short.scope.kind == "tenant"):
                return found[0]
        return next(iter(causes(state, job, pool)), "")


def _since(job: JobRecord) -> int:
    """Since when it waits in line: its admission, or the preemption that put it last (R29)."""
    return max(job.admitted_at, job.last_since)


def pool_of(state: State, pool: PoolState) -> PoolState:
    return state.pools[pool.document.name]
