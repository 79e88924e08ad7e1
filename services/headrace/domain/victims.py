"""Which set of jobs has to yield (R26): a legal, sufficient and minimal set of victims, or the reason why there is none.

Preemption searches with it to propose; the allocator checks a proposal with it before it accepts.

Strategy: per node, take eligible jobs in R25's order until the replica fits there, then give back, in reverse, whoever is not needed.
If that is not legal or does not place, drop the first candidate and try again; where that finds nothing either, go through the sets
in R25's order, up to a bound. Of all nodes the plan whose worst victim is best wins. For a gang, for keys that belong to no node and
for what no single node can give, the place is the whole pool. Nothing in the state is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import CPU, GPU, GPU_UNITS, MEMORY, add_to, take_from
from headrace.contracts.facts.preemption import Victim
from headrace.domain.eligibility import (
    PRIORITY,
    Candidate,
    can_yield,
    candidate_of,
    causes,
    eligible,
    keys_that_count,
    may_take_from,
    protected_until,
    short_keys,
    side_below,
)
from headrace.domain.placement import may_hold
from headrace.domain.scopes import over_limit, scopes_of
from headrace.domain.state import JobState
from headrace.domain.vacated import leaving_anyway, places_without

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.contracts.amounts import Amounts
    from headrace.contracts.facts.fact import Place
    from headrace.domain.state import JobRecord, NodeState, PolicyState, PoolState, Scope, State

VICTIMS_MAX = 900
"""Jobs that yield to one preemptor: their stops stand in one record (R26)."""
EFFORT_MAX = 200_000
"""Candidates and nodes looked at in one search before it is given up, which shows in the reason (R26)."""


class Plan(NamedTuple):
    """Victims in the order in which they are taken, where the preemptor goes, and by which cause (R23)."""

    cause: str
    victims: tuple[Victim, ...]
    places: tuple[Place, ...]


class NoPlan(NamedTuple):
    """Why nobody is taken. `protected` candidates would be free to take from `retry_at` on."""

    why: str
    protected: int = 0
    retry_at: int | None = None


Found = tuple[list[Candidate], "tuple[Place, ...]"]


@dataclass(slots=True)
class _Ground:
    """What a search stands on: the preemptor, the pool, what is short, and how much may still be looked at."""

    state: State
    job: JobRecord
    pool: PoolState
    cause: str
    short: frozenset[str]
    effort_left: int = EFFORT_MAX
    sides: dict[tuple[str, str], tuple[Scope, ...]] = field(default_factory=dict)

    def side(self, policy: PolicyState) -> tuple[Scope, ...]:
        """The accounts in which a victim's side has to be above its reservation (R23)."""
        found = self.sides.get(policy.key)
        if found is None:
            found = self.sides[policy.key] = side_below(self.state, policy, self.job.policy, self.pool)
        return found

    def places(self, taken: Iterable[Candidate], nodes: Sequence[NodeState]) -> tuple[Place, ...] | None:
        """Where the preemptor would go without the taken jobs; None: its replicas do not all fit."""
        gone = [candidate.job for candidate in taken]
        self.effort_left -= len(gone) + len(nodes)
        return places_without(self.state, self.job, self.pool, gone, nodes)


def search(state: State, job: JobRecord, pool: PoolState, now: int) -> Plan | NoPlan:
    """The best plan for `job` in `pool` at log time `now`: by reclaim if its side is within its reservation, else by priority."""
    best: Plan | NoPlan = NoPlan("it may not take anything back: beyond its reservation")
    if _at_own_limit(state, job, pool):
        return NoPlan("its own limit is in the way")
    for cause in causes(state, job, pool):
        best = _search_by(state, job, pool, cause, now)
        if isinstance(best, Plan):
            return best
    return best


def _at_own_limit(state: State, job: JobRecord, pool: PoolState) -> bool:
    """A policy's own limit never preempts; under its tenant's, reclaim inside the tenant may make room (R23)."""
    own = [scope for scope in scopes_of(state, job.policy, pool.document.name) if scope.kind == "policy"]
    return over_limit(own, pool.governed, job.request.total, beyond=job.beyond) is not None


def _search_by(state: State, job: JobRecord, pool: PoolState, cause: str, now: int) -> Plan | NoPlan:
    short = short_keys(state, job, pool)
    candidates, protected, retry_at = eligible(state, job, pool, cause, short, now)
    if not candidates:
        return NoPlan("nobody here holds borrowed units that would help", protected, retry_at)
    ground = _Ground(state, job, pool, cause, short)
    if any(leaving_anyway(node) for node in pool.nodes.values()) and ground.places((), _usable_nodes(ground)) is not None:
        return NoPlan("what is leaving already makes room for it")
    node_bound = job.request.replicas == 1 and not (short - {GPU, CPU, MEMORY})
    found = (_best_node(ground, candidates) if node_bound else None) or _attempt(ground, candidates, _usable_nodes(ground))
    if found is None:
        given_up = "; not all sets were tried" if ground.effort_left <= 0 else ""
        return NoPlan(f"no set of borrowed units, taken together, makes room for it{given_up}", protected, retry_at)
    if len(found[0]) > VICTIMS_MAX:
        return NoPlan(f"{len(found[0])} jobs would have to yield to it, at most {VICTIMS_MAX} may", protected, retry_at)
    return _plan(cause, *found)


def _best_node(ground: _Ground, candidates: Sequence[Candidate]) -> Found | None:
    """The best set over all nodes on which some candidate holds a lease: by its worst member, then size, lost work, node (R26)."""
    by_node: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        leases = candidate.job.leases.values()
        for name in dict.fromkeys(lease.node for lease in leases if lease.pool == ground.pool.document.name):
            by_node.setdefault(name, []).append(candidate)
    best: tuple[tuple[object, ...], Found] | None = None
    for name, those in by_node.items():
        node = ground.state.nodes[name]
        if not may_hold(node, ground.job):
            continue
        if best is not None and (those[0].order,) > best[0][:1]:
            continue  # even its best candidate is worse than the worst victim of the set at hand
        found = _attempt(ground, those, (node,))
        if found is not None:
            taken = found[0]
            merit = (max(candidate.order for candidate in taken), len(taken), sum(candidate.lost for candidate in taken), name)
            if best is None or merit < best[0]:
                best = (merit, found)
    return None if best is None else best[1]


def _usable_nodes(ground: _Ground) -> list[NodeState]:
    nodes = [node for node in ground.pool.nodes.values() if may_hold(node, ground.job)]
    return sorted(nodes, key=lambda node: node.name)


def _plan(cause: str, taken: Sequence[Candidate], places: tuple[Place, ...]) -> Plan:
    victims = tuple(
        Victim(
            job=candidate.key,
            attempt=candidate.job.attempt,
            policy="/".join(candidate.job.policy.key),
            lost=candidate.lost // GPU_UNITS,
        )
        for candidate in taken
    )
    return Plan(cause, victims, places)


def _attempt(ground: _Ground, candidates: Sequence[Candidate], nodes: Sequence[NodeState]) -> Found | None:
    """The first set that is legal and sufficient on these nodes, without anybody who is not needed; None: there is none."""
    if ground.places(candidates, nodes) is None:
        return None
    taken = None
    for first in range(len(candidates)):
        taken = _take_in_order(ground, candidates[first:], nodes)
        if taken is not None or ground.effort_left <= 0:
            break
    if taken is None:
        taken = _take_any(ground, candidates, nodes)
    if taken is None:
        return None
    for candidate in reversed(taken[:-1]):
        fewer = [other for other in taken if other is not candidate]
        if ground.places(fewer, nodes) is not None:
            taken = fewer
    places = ground.places(taken, nodes)
    return None if places is None else (taken, places)


def _take_in_order(ground: _Ground, candidates: Sequence[Candidate], nodes: Sequence[NodeState]) -> list[Candidate] | None:
    """The shortest beginning of the candidates, passing over whom it would not be legal to take, that makes room."""
    taken = _Taken(ground)
    for candidate in candidates:
        taken.add(candidate)
        if not (taken.may_come_last(candidate) or taken.is_legal()) or not taken.is_safe(candidate.job.policy):
            taken.remove(candidate)
    legal = taken.members
    if not legal or ground.places(legal, nodes) is None:
        return None
    least, most = 1, len(legal)
    while least < most:
        middle = (least + most) // 2
        if ground.places(legal[:middle], nodes) is None:
            least = middle + 1
        else:
            most = middle
    return legal[:least]


def _take_any(ground: _Ground, candidates: Sequence[Candidate], nodes: Sequence[NodeState]) -> list[Candidate] | None:
    """The first legal and sufficient set of all, those with the first candidates first."""
    branches: list[tuple[int, list[Candidate]]] = [(0, [])]
    while branches and ground.effort_left > 0:
        position, taken = branches.pop()
        if taken and ground.places(taken, nodes) is not None:
            return taken
        if position == len(candidates) or ground.places([*taken, *candidates[position:]], nodes) is None:
            continue
        branches.append((position + 1, taken))
        more = [*taken, candidates[position]]
        if _Taken(ground, more).is_allowed():
            branches.append((position + 1, more))
    return None


class _Taken:
    """A set of victims, and what each account loses by it. All sets inside an allowed one are allowed."""

    def __init__(self, ground: _Ground, members: Iterable[Candidate] = ()) -> None:
        self.members: list[Candidate] = []
        self._ground = ground
        self._lost: dict[int, Amounts] = {}
        for candidate in members:
            self.add(candidate)

    def add(self, candidate: Candidate) -> None:
        """Take one more."""
        self.members.append(candidate)
        for scope in self._ground.side(candidate.job.policy):
            add_to(self._lost.setdefault(id(scope), {}), candidate.job.request.total)

    def remove(self, candidate: Candidate) -> None:
        """Take it no more."""
        self.members.remove(candidate)
        for scope in self._ground.side(candidate.job.policy):
            take_from(self._lost[id(scope)], candidate.job.request.total)

    def is_allowed(self) -> bool:
        """Whether the set may be taken (R26)."""
        return self.is_legal() and all(self.is_safe(policy) for policy in {member.job.policy for member in self.members})

    def is_legal(self) -> bool:
        """Whether the members can be taken in some order, each while its side is still above (R26).

        Whoever may come last is put there: that leaves the others no worse off, so it never matters who is chosen.
        """
        rest = _Taken(self._ground, self.members)
        self._ground.effort_left -= len(self.members)
        while rest.members:
            last = next((candidate for candidate in reversed(rest.members) if rest.may_come_last(candidate)), None)
            if last is None:
                return False
            rest.remove(last)
        return True

    def may_come_last(self, candidate: Candidate) -> bool:
        """Whether its side is above its reservation, on a short key it holds, when all the other members have been taken."""
        ground, held = self._ground, candidate.job.request.total
        ground.effort_left -= 1
        return any(
            all(self._left(scope, key) + held[key] > _reserved(scope, key) for scope in ground.side(candidate.job.policy))
            for key in keys_that_count(ground.pool, ground.short, held)
        )

    def is_safe(self, policy: PolicyState) -> bool:
        """By priority: whether no member of the policy could reclaim afterwards: with it, the policy is beyond its reservation (R26)."""
        if self._ground.cause != PRIORITY:
            return True
        governed = self._ground.pool.governed
        requests = {member.job.request for member in self.members if member.job.policy is policy}
        return all(
            any(
                self._left(scope, key) + amount > _reserved(scope, key)
                for scope in self._ground.side(policy)
                for key, amount in request.total.items()
                if key in governed
            )
            for request in requests
        )

    def _left(self, scope: Scope, key: str) -> int:
        return scope.use.get(key, 0) - self._lost[id(scope)].get(key, 0)


def _reserved(scope: Scope, key: str) -> int:
    return (scope.reservation or {}).get(key, 0)


def review(state: State, job: JobRecord, pool: PoolState, plan: Plan, now: int) -> tuple[Place, ...] | str:
    """The places of a proposed plan as they are now, or why it may no longer be carried out: not legal, not sufficient (R26)."""
    if job.state is not JobState.PENDING or job.nomination is not None:
        return "the preemptor waits no longer"
    if plan.cause not in causes(state, job, pool):
        return "the preemptor may no longer take anything back"
    if _at_own_limit(state, job, pool):
        return "the preemptor is at its limit"
    taken = []
    for victim in plan.victims:
        found = state.jobs.get(victim.job)
        if found is None or found.attempt != victim.attempt or not can_yield(found, pool.document.name):
            return f"{victim.job} is no longer there to yield"
        until = protected_until(found)
        if until is None or until > now:
            return f"{victim.job} is protected by its minimum run time"
        if not may_take_from(state, job, found.policy, pool, plan.cause):
            return f"{victim.job} need not yield to it any more"
        taken.append(candidate_of(job, found, pool, now))
    ground = _Ground(state, job, pool, plan.cause, short_keys(state, job, pool))
    names = dict.fromkeys(place.node for place in plan.places)
    nodes = [pool.nodes[name] for name in names if name in pool.nodes and may_hold(pool.nodes[name], job)]
    places = ground.places(taken, nodes) if len(nodes) == len(names) else None
    if places is None:
        return "it is no longer sufficient"
    return places if _Taken(ground, taken).is_allowed() else "it is no longer legal"
