"""Which set of jobs has to yield (R26): a legal, sufficient and minimal set of victims, or the reason why there is none.

Preemption searches with it to propose; the allocator checks a proposal with it before it accepts.

Strategy: per node, take eligible jobs in R25's order until the replica fits there, then give back, in reverse, whoever is not needed.
If that is not legal or does not place, drop the first candidate and try again. Of all nodes the plan whose worst victim is best
wins. For a gang, and for keys that belong to no node, the place is the whole pool. Nothing in the state is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import CPU, GPU, GPU_UNITS, MEMORY, add_to
from headrace.contracts.facts.fact import Place
from headrace.contracts.facts.preemption import Victim
from headrace.domain.eligibility import (
    PRIORITY,
    Candidate,
    can_yield,
    candidate_of,
    causes,
    eligible,
    keys_that_count,
    protected_until,
    short_keys,
    victim_side,
)
from headrace.domain.placement import model_allowed, pick_devices
from headrace.domain.scopes import over_limit, policy_side, scopes_of
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.contracts.amounts import Amounts
    from headrace.contracts.facts.fact import DeviceShare
    from headrace.domain.state import JobRecord, LeaseState, NodeState, PoolState, Scope, State


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


@dataclass(slots=True)
class _Ground:
    """What a search stands on: the preemptor, the pool, what is short, and what each side may still lose."""

    state: State
    job: JobRecord
    pool: PoolState
    cause: str
    short: frozenset[str]
    candidates: list[Candidate]
    sides: dict[str, tuple[Scope, ...]] = field(default_factory=dict)

    def side(self, victim: JobRecord) -> tuple[Scope, ...]:
        """The accounts in which the victim's side has to be above its reservation (R23)."""
        found = self.sides.get(victim.key)
        if found is None:
            found = self.sides[victim.key] = victim_side(self.state, self.job, victim, self.pool)
        return found


def search(state: State, job: JobRecord, pool: PoolState, now: int) -> Plan | NoPlan:
    """The best plan for `job` in `pool` at log time `now`: by reclaim if its side is within its reservation, else by priority."""
    best: Plan | NoPlan = NoPlan("it may not take anything back: beyond its reservation")
    if over_limit(scopes_of(state, job.policy, pool.document.name), pool.governed, job.request.total, beyond=job.beyond):
        return NoPlan("its own limit is in the way")
    for cause in causes(state, job, pool):
        best = _search_by(state, job, pool, cause, now)
        if isinstance(best, Plan):
            return best
    return best


def _search_by(state: State, job: JobRecord, pool: PoolState, cause: str, now: int) -> Plan | NoPlan:
    short = short_keys(pool, job.request.total)
    candidates, protected, retry_at = eligible(state, job, pool, cause, short, now)
    if not candidates:
        return NoPlan("nobody here holds borrowed units that would help", protected, retry_at)
    ground = _Ground(state, job, pool, cause, short, candidates)
    if any(_leaving_anyway(node) for node in pool.nodes.values()) and _places(ground, (), _usable_nodes(ground)) is not None:
        return NoPlan("what is leaving already makes room for it")
    node_bound = job.request.replicas == 1 and not (short - {GPU, CPU, MEMORY})
    plan = _best_node(ground) if node_bound else None
    if plan is None:
        plan = _whole_pool(ground)
    if plan is None:
        return NoPlan("no set of borrowed units, taken together, makes room for it", protected, retry_at)
    return plan


def _best_node(ground: _Ground) -> Plan | None:
    """The best plan over all nodes on which some candidate holds a lease."""
    by_node: dict[str, list[Candidate]] = {}
    for candidate in ground.candidates:
        leases = candidate.job.leases.values()
        for name in dict.fromkeys(lease.node for lease in leases if lease.pool == ground.pool.document.name):
            by_node.setdefault(name, []).append(candidate)
    best: tuple[tuple[object, ...], str, list[Candidate], tuple[Place, ...]] | None = None
    for name, candidates in by_node.items():
        node = ground.state.nodes[name]
        if not node.grantable or not model_allowed(node, ground.job.request.shape):
            continue
        if best is not None and (candidates[0][:4],) > (best[0][0],):
            continue  # even its best candidate is worse than the worst victim of the plan at hand
        found = _attempt(ground, candidates, (node,))
        if found is not None:
            taken, places = found
            merit = (taken[-1][:4], len(taken), sum(candidate.lost for candidate in taken), name)
            if best is None or merit < best[0]:
                best = (merit, name, taken, places)
    return None if best is None else _plan(ground, best[2], best[3])


def _whole_pool(ground: _Ground) -> Plan | None:
    found = _attempt(ground, ground.candidates, _usable_nodes(ground))
    return None if found is None else _plan(ground, *found)


def _usable_nodes(ground: _Ground) -> list[NodeState]:
    shape = ground.job.request.shape
    nodes = [node for node in ground.pool.nodes.values() if node.grantable and model_allowed(node, shape)]
    return sorted(nodes, key=lambda node: node.name)


def _plan(ground: _Ground, taken: Sequence[Candidate], places: tuple[Place, ...]) -> Plan:
    victims = tuple(
        Victim(
            job=candidate.key,
            attempt=candidate.job.attempt,
            policy="/".join(candidate.job.policy.key),
            lost=candidate.lost // GPU_UNITS,
        )
        for candidate in taken
    )
    return Plan(ground.cause, victims, places)


def _attempt(
    ground: _Ground, candidates: Sequence[Candidate], nodes: Sequence[NodeState]
) -> tuple[list[Candidate], tuple[Place, ...]] | None:
    """Take in order until it places, give back in reverse; not so: drop the first candidate and try again (R26)."""
    for first in range(len(candidates)):
        taken = _take_until_it_places(ground, candidates[first:], nodes)
        if taken is None:
            return None  # with fewer candidates even less would be freed
        for candidate in reversed(taken[:-1]):
            fewer = [other for other in taken if other is not candidate]
            if _places(ground, fewer, nodes) is not None and _is_legal(ground, fewer):
                taken = fewer
        places = _places(ground, taken, nodes)
        if places is not None and _is_legal(ground, taken):
            return taken, places
    return None


def _take_until_it_places(
    ground: _Ground, candidates: Sequence[Candidate], nodes: Sequence[NodeState]
) -> list[Candidate] | None:
    taken: list[Candidate] = []
    given: dict[int, Amounts] = {}
    for candidate in candidates:
        if not _still_above(ground, candidate.job, given):
            continue
        taken.append(candidate)
        _note_given(ground, candidate.job, given)
        if _places(ground, taken, nodes) is not None:
            return taken
    return None


def _still_above(ground: _Ground, victim: JobRecord, given: dict[int, Amounts]) -> bool:
    """Whether its side is still above its reservation on a short key it holds, after what was taken before it (R26)."""
    side = ground.side(victim)
    return any(
        all(
            scope.use.get(key, 0) - given.get(id(scope), {}).get(key, 0) > (scope.reservation or {}).get(key, 0)
            for scope in side
        )
        for key in keys_that_count(ground.pool, ground.short, victim.request.total)
    )


def _note_given(ground: _Ground, victim: JobRecord, given: dict[int, Amounts]) -> None:
    for scope in ground.side(victim):
        add_to(given.setdefault(id(scope), {}), victim.request.total)


def _is_legal(ground: _Ground, taken: Sequence[Candidate]) -> bool:
    """The members can be taken in this order, each while its side is still above (R26); by priority none could reclaim afterwards."""
    given: dict[int, Amounts] = {}
    for candidate in taken:
        if not _still_above(ground, candidate.job, given):
            return False
        _note_given(ground, candidate.job, given)
    return ground.cause != PRIORITY or all(_could_not_reclaim(ground, candidate.job, taken) for candidate in taken)


def _could_not_reclaim(ground: _Ground, victim: JobRecord, taken: Sequence[Candidate]) -> bool:
    """Its policy's use without the set, plus that victim, is still above its reservation, on some governed key it asks for (R26)."""
    gone: Amounts = {}
    for candidate in taken:
        if candidate.job.policy is victim.policy:
            add_to(gone, candidate.job.request.total)
    asked = {key: amount for key, amount in victim.request.total.items() if key in ground.pool.governed}
    return any(
        scope.use.get(key, 0) - gone.get(key, 0) + amount > (scope.reservation or {}).get(key, 0)
        for scope in policy_side(victim.policy, ground.pool.document.name)
        for key, amount in asked.items()
    )


def _places(ground: _Ground, taken: Iterable[Candidate], nodes: Sequence[NodeState]) -> tuple[Place, ...] | None:
    """Where all replicas would go with the taken jobs, and whatever leaves anyway, out of the way; None: they do not all fit."""
    leaving = [lease for candidate in taken for lease in candidate.job.leases.values()]
    leaving += [lease for node in nodes for lease in _leaving_anyway(node)]
    if not _sums_fit(ground, leaving):
        return None
    request = ground.job.request
    room = [_Room(node, leaving) for node in nodes]
    places: list[Place] = []
    for rank in range(request.replicas):
        for candidate in room:
            devices = candidate.pick(request.shape.cpu, request.shape.memory, ground)
            if devices is not None:
                amounts = request.lease_amounts(rank)
                candidate.hold(devices, amounts)
                places.append(Place(node=candidate.node.name, devices=devices, amounts=amounts))
                break
        else:
            return None
    return tuple(places)


def _sums_fit(ground: _Ground, leaving: Sequence[LeaseState]) -> bool:
    """Ceilings and custom keys of the pool, which belong to no node."""
    freed: Amounts = {}
    for lease in leaving:
        if lease.pool == ground.pool.document.name:
            add_to(freed, lease.amounts)
    for key, asked in ground.job.request.total.items():
        if asked and key in ground.pool.governed:
            free = ground.pool.usable.get(key, 0) - ground.pool.use.get(key, 0) + freed.get(key, 0)
            if free < asked:
                return False
    return True


class _Room:
    """A copy of what a node could give once some of its leases have gone."""

    __slots__ = ("cpu", "memory", "node", "opens")

    def __init__(self, node: NodeState, leaving: Iterable[LeaseState]) -> None:
        self.node = node
        self.cpu = node.cpu_free - node.cpu_nominated
        self.memory = node.memory_free - node.memory_nominated
        free = {device.name: device.free for device in node.devices}
        for lease in leaving:
            if lease.node == node.name:
                self.cpu += lease.amounts.get(CPU, 0)
                self.memory += lease.amounts.get(MEMORY, 0)
                for share in lease.devices:
                    free[share.device] = free.get(share.device, 0) + share.units
        self.opens = [max(0, free[device.name] - device.nominated) for device in node.devices]

    def pick(self, cpu: int, memory: int, ground: _Ground) -> tuple[DeviceShare, ...] | None:
        """The devices one replica would take here, or None."""
        if self.cpu < cpu or self.memory < memory:
            return None
        return pick_devices(self.node, self.opens, ground.job.request.shape)

    def hold(self, devices: tuple[DeviceShare, ...], amounts: Amounts) -> None:
        """A replica goes here."""
        self.cpu -= amounts.get(CPU, 0)
        self.memory -= amounts.get(MEMORY, 0)
        units = {share.device: share.units for share in devices}
        for number, device in enumerate(self.node.devices):
            self.opens[number] -= units.get(device.name, 0)


def _leaving_anyway(node: NodeState) -> list[LeaseState]:
    """Leases already under a ladder that frees them for nobody in particular (a cancel, a time limit): first to be counted on (R25)."""
    return [lease for lease in node.leases.values() if lease.job.state is JobState.STOPPING and not lease.job.yields_to]


def review(state: State, job: JobRecord, pool: PoolState, plan: Plan, now: int) -> tuple[Place, ...] | str:
    """The places of a proposed plan as they are now, or why it may no longer be carried out: not legal, not sufficient (R26)."""
    if job.state is not JobState.PENDING or job.nomination is not None:
        return "the preemptor waits no longer"
    if plan.cause not in causes(state, job, pool):
        return "the preemptor may no longer take anything back"
    if over_limit(scopes_of(state, job.policy, pool.document.name), pool.governed, job.request.total, beyond=job.beyond):
        return "the preemptor is at its limit"
    short = short_keys(pool, job.request.total)
    taken = []
    for victim in plan.victims:
        found = state.jobs.get(victim.job)
        if found is None or found.attempt != victim.attempt or not can_yield(found, pool.document.name):
            return f"{victim.job} is no longer there to yield"
        until = protected_until(found)
        if until is None or until > now:
            return f"{victim.job} is protected by its minimum run time"
        taken.append(candidate_of(found, now))
    ground = _Ground(state, job, pool, plan.cause, short, taken)
    nodes = [state.nodes[name] for name in dict.fromkeys(place.node for place in plan.places) if name in state.nodes]
    places = None if any(not node.grantable for node in nodes) else _places(ground, taken, nodes)
    if places is None:
        return "it is no longer sufficient"
    return places if _is_legal(ground, taken) else "it is no longer legal"
