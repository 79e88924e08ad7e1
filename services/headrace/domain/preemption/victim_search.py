"""Searching by place for the set that yields (R26): a node, or for a gang and for what belongs to no node, choices of nodes.

Naive meaning, at each node: take in R25's order, passing over whom it would not be legal to take, until the replica fits; give back, in
reverse, every job that is not needed; if that does not do, drop the first candidate and try again. Of all nodes the plan with the best
worst victim wins, then fewest victims, least lost work, the node's name.

Strategy: sweep over all candidates in R25's order, as if taking were always legal. When a node first has room, no set there can do without
the candidate at hand or a worse one: so nodes come up in the order of a lower bound of their worst victim, and the sweep ends where the
bound is beyond the best plan. For a gang the same sweep says from which candidate on all nodes together have room; within that
beginning the cheapest replicas are chosen one after the other, and where legality is in the way the beginning grows.
"""

from __future__ import annotations

import heapq
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.contracts.values.amounts import GPU
from headrace.domain.placement.placement import may_hold
from headrace.domain.placement.placement_after_preemption import PlacementAfterPreemption, accounts_of, leaving_anyway
from headrace.domain.preemption.hopeless import is_hopeless
from headrace.domain.preemption.legality import Taken
from headrace.domain.state.supply import sums_bind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from headrace.contracts.facts.fact import Place
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.preemption.eligibility import VictimGroup
    from headrace.domain.preemption.victim_candidates import VictimCandidate, VictimCandidates
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

EFFORT_MAX = 50_000
"""Jobs that leave a clearing in one search before it is given up, which shows in the reason (R26)."""
GROWTH = 16  # a gang's prefix of the candidates grows by this part of them while not enough of it may legally be taken
DROPS_AMONG = 256  # in a prefix no longer than this, the first candidates are dropped one by one before it grows

_job_of, _job_and_site_of = attrgetter("job"), attrgetter("job", "site")


class Candidates(Protocol):
    """Possible victims in R25's order. `drawn`: those that have been looked at."""

    drawn: list[VictimCandidate]

    def __iter__(self) -> Iterator[VictimCandidate]: ...

    def all(self) -> Sequence[VictimCandidate]: ...


class VictimSet(NamedTuple):
    """Who is taken, in the order in which they are, and where the preemptor goes."""

    victims: list[VictimCandidate]
    places: tuple[Place, ...]


class SearchContext:
    """What a search stands on: the preemptor, the pool, `among` which nodes, by which cause, and how much may still be looked at."""

    __slots__ = ("_anyway", "accounts", "among", "cause", "effort_left", "job", "pool", "state")

    def __init__(self, state: State, job: JobRecord, pool: PoolState, cause: str) -> None:
        self.state = state
        self.job = job
        self.pool = pool
        self.cause = cause
        self.effort_left = EFFORT_MAX
        self.among: Collection[str] | None = None
        self._anyway = leaving_anyway(state, pool)
        self.accounts = accounts_of(state, job, pool, chain.from_iterable(self._anyway.values()))

    def taken(self, kinds: Iterable[VictimGroup] = ()) -> Taken:
        """The account of a set."""
        return Taken(self.cause, kinds)

    def clearing(self, nodes: Iterable[NodeState], *, alone: bool = False) -> PlacementAfterPreemption:
        """A trial on these nodes; `alone`: whatever the accounts say that belong to no node."""
        return PlacementAfterPreemption(self.job, nodes, self._anyway, () if alone else self.accounts, self.pool.index.slices)

    def is_of_nodes(self) -> bool:
        """Whether what is missing belongs to nodes: then a set that makes room on one of them does so by those who are there alone."""
        lacks = [(account.tenant, key) for account in self.accounts for key in account.lacks]
        is_of_gpus = self.job.request.replicas == 1 and all(not tenant and key == GPU for tenant, key in lacks)
        return is_of_gpus and not (lacks and sums_bind(self.pool))

    def usable(self) -> list[NodeState]:
        """Nodes on which the job may be placed, `among` those that are searched now."""
        nodes = self.pool.nodes
        there = nodes.values() if self.among is None else [nodes[name] for name in self.among]
        return [node for node in there if may_hold(self.pool, node, self.job)]

    def places(self, gone: Iterable[JobRecord], nodes: Iterable[NodeState]) -> tuple[Place, ...] | None:
        """Where the preemptor would go on these nodes without the jobs in `gone`; None: its replicas do not all fit."""
        clearing = self.clearing(nodes)
        self.effort_left -= len(clearing.open_all())
        for job in gone:
            clearing.leave(job)
            self.effort_left -= 1
        return clearing.places()


def find(context: SearchContext, eligible: VictimCandidates) -> VictimSet | None:
    """Jobs that have to yield; None if none are found, for certain only while effort is left."""
    if is_hopeless(context.accounts, eligible):
        return None
    if not context.is_of_nodes():
        return best_choice(context, eligible) or any_set(context, eligible.all(), context.usable())
    found = best_node(context, eligible)
    if found is not None:
        return found
    for node in context.usable():
        there = [
            candidate for candidate in eligible.all() if any(lease.node == node.name for lease in candidate.job.leases.values())
        ]
        found = any_set(context, there, (node,)) if there else None
        if found is not None:
            return found
    return None


def best_node(context: SearchContext, eligible: VictimCandidates) -> VictimSet | None:
    """For one replica: the best plan of all nodes with a possible victim; None if no node has one."""
    sweep = context.clearing(context.usable(), alone=True)
    best: tuple[tuple[object, ...], VictimSet] | None = None
    planned: set[str] = set()
    seen = 0
    for left in sweep.leave_in_turn(map(_job_and_site_of, eligible)):
        candidate = eligible.drawn[left - 1]
        if best is not None and (candidate,) > best[0][:1]:
            break
        context.effort_left -= left - seen
        seen = left
        for name in [lease.node for lease in candidate.job.leases.values()]:
            if not sweep.replicas_on(name) or name in planned:
                continue
            planned.add(name)
            node = context.state.nodes[name]
            jobs = {lease.job.key: lease.job for lease in node.leases.values()}
            there = sorted(other for job in jobs.values() if (other := eligible.of(job)) is not None)
            found = _plan_on(context, there, node)
            if found is not None and (best is None or merit(found, name) < best[0]):
                best = (merit(found, name), found)
    return None if best is None else best[1]


def merit(found: VictimSet, name: str) -> tuple[object, ...]:
    """The smaller the better: worst victim, how many, what they lose, node."""
    taken = found.victims
    return (max(taken), len(taken), sum(candidate.lost for candidate in taken), name)


def _plan_on(context: SearchContext, candidates: Sequence[VictimCandidate], node: NodeState) -> VictimSet | None:
    """The naive meaning, on one node; None if it finds no victims."""
    clearing = context.clearing((node,))
    clearing.open_all()
    chosen = _take(context, candidates, clearing, context.taken())
    places = clearing.places() if chosen is not None else None
    return VictimSet(chosen, places) if chosen is not None and places is not None else None


def _take(
    context: SearchContext, candidates: Sequence[VictimCandidate], clearing: PlacementAfterPreemption, taken: Taken
) -> list[VictimCandidate] | None:
    """Jobs that leave, in R25's order, until the clearing suffices, without jobs that are not needed.

    On return they have left the clearing and are taken; if none are found, both are as before.
    """
    for first in range(len(candidates)):
        chosen: list[VictimCandidate] = []
        passed = 0
        for candidate in candidates[first:]:
            if not taken.admits(candidate.kind):
                passed += 1
                continue
            clearing.leave(candidate.job)
            context.effort_left -= 1
            chosen.append(candidate)
            if clearing.suffices:
                return [*_give_back(chosen[:-1], clearing, taken), candidate]
        for candidate in chosen:
            clearing.come_back(candidate.job)
            taken.remove(candidate.kind)
        if not passed or context.effort_left <= 0:
            break  # not even all of them make room
    return None


def _give_back(chosen: Sequence[VictimCandidate], clearing: PlacementAfterPreemption, taken: Taken) -> list[VictimCandidate]:
    """Let come back, in reverse, who is not needed; the others."""
    needed = []
    for candidate in reversed(chosen):
        clearing.come_back(candidate.job)
        if clearing.suffices:
            taken.remove(candidate.kind)
        else:
            clearing.leave(candidate.job)
            needed.append(candidate)
    needed.reverse()
    return needed


def best_choice(context: SearchContext, eligible: Candidates) -> VictimSet | None:
    """For a gang, and for what belongs to no node: a choice of nodes; None if none is found."""
    nodes = {node.name: node for node in context.usable()}
    sweep = context.clearing(nodes.values())
    before = sweep.open_all()
    reach = sweep.leave_until_enough(map(_job_and_site_of, eligible))
    context.effort_left -= reach
    if not sweep.suffices:
        return None
    while True:
        most = sweep.open_all()
        for first in range(reach if reach <= DROPS_AMONG else 1):
            found = _Choice(context, nodes, before, most, eligible.drawn[first:reach]).best()
            if found is not None or context.effort_left <= 0:
                return found
        candidates = eligible.all()
        if reach == len(candidates):
            return None
        further = candidates[reach : reach + len(candidates) // GROWTH + 1]
        sweep.leave_all(map(_job_and_site_of, further))
        reach += len(further)


class _Offer(NamedTuple):
    """One more replica on a node: how many have to yield for it, what they lose, the node; and how much room it has then."""

    size: int
    lost: int
    node: str
    victims: list[VictimCandidate]


class _Anybody(Taken):
    """All candidates, whether that is allowed or not: legality is checked later."""

    def __init__(self) -> None:
        super().__init__("")

    def admits(self, kind: VictimGroup) -> bool:
        """True for every kind of job."""
        return kind is not None

    def remove(self, kind: VictimGroup) -> None:
        """Nothing is kept of it."""


class _Choice:
    """A choice of nodes for a gang, among a beginning of the candidates.

    `before` and `most`: how many replicas each node can hold before any job has gone, and after all of that beginning.
    """

    def __init__(
        self,
        context: SearchContext,
        nodes: Mapping[str, NodeState],
        before: Mapping[str, int],
        most: Mapping[str, int],
        candidates: Sequence[VictimCandidate],
    ) -> None:
        self._ground = context
        self._nodes = nodes
        self._before = before
        self._candidates = candidates
        self._chosen: dict[JobRecord, VictimCandidate] = {}
        self._taken = context.taken()
        self._there: dict[str, list[VictimCandidate]] = {}
        known = dict(zip(map(_job_of, candidates), candidates, strict=True))
        for name, count in before.items():
            if most[name] > count:
                jobs = {lease.job for lease in nodes[name].leases.values()}
                self._there[name] = sorted(known[job] for job in jobs if job in known)

    def best(self) -> VictimSet | None:
        """Replica by replica the cheapest offer of all; then jobs that free what belongs to no node; then give back."""
        missing = self._ground.job.request.replicas - sum(self._before.values())
        offers = [offer for name in self._there if (offer := self._offer(name)) is not None]
        heapq.heapify(offers)
        while missing > 0 and offers:
            offer = heapq.heappop(offers)
            if self._accept(offer):
                missing -= 1
                again = self._offer(offer.node)
            else:
                again = self._offer(offer.node, legal=True)
            if again is not None:
                heapq.heappush(offers, again)
        return self._complete()

    def _accept(self, offer: _Offer) -> bool:
        """Take who is offered, if that is still what the node asks for, and allowed."""
        if any(candidate.job in self._chosen for candidate in offer.victims):
            return False
        for number, candidate in enumerate(offer.victims):
            if not self._taken.admits(candidate.kind):
                for other in offer.victims[:number]:
                    self._taken.remove(other.kind)
                return False
        self._chosen.update((candidate.job, candidate) for candidate in offer.victims)
        return True

    def _offer(self, name: str, *, legal: bool = False) -> _Offer | None:
        """What one more replica on the node would take, beside those already chosen; None if no victim gives it."""
        free = [candidate for candidate in self._there[name] if candidate.job not in self._chosen]
        if not free:
            return None
        clearing = self._ground.clearing((self._nodes[name],), alone=True)
        clearing.open_all()
        for candidate in self._there[name]:
            if candidate.job in self._chosen:
                clearing.leave(candidate.job)
        clearing.goal = clearing.replicas + 1
        taken = self._taken if legal else _Anybody()
        victims = _take(self._ground, free, clearing, taken)
        if victims is None:
            return None
        for candidate in victims:
            taken.remove(candidate.kind)
        return _Offer(len(victims), sum(candidate.lost for candidate in victims), name, victims)

    def _complete(self) -> VictimSet | None:
        """Take on, in order, while something is missing that no offer gives; then let come back, in reverse, who is not needed."""
        clearing = self._ground.clearing(self._nodes.values())
        clearing.open_all()
        clearing.leave_all(map(_job_and_site_of, self._chosen.values()))
        clearing.leave_until_enough(map(_job_and_site_of, self._take_on()))
        if not clearing.suffices:
            return None
        victims = _give_back(sorted(self._chosen.values()), clearing, self._taken)
        places = clearing.places()
        return None if places is None else VictimSet(victims, places)

    def _take_on(self) -> Iterator[VictimCandidate]:
        """In order, the other jobs that may be taken; they are taken as they are drawn."""
        for candidate in self._candidates:
            if candidate.job not in self._chosen and self._taken.admits(candidate.kind):
                self._chosen[candidate.job] = candidate
                yield candidate


def any_set(context: SearchContext, candidates: Sequence[VictimCandidate], nodes: Sequence[NodeState]) -> VictimSet | None:
    """The first legal and sufficient set of all, those with the first candidates first, without jobs that are not needed (R26).

    Each set is made anew: this is for the rare case in which the searches above find nothing although there might be something.
    """
    if _places(context, candidates, nodes) is None:
        return None
    branches: list[tuple[int, list[VictimCandidate]]] = [(0, [])]
    while branches and context.effort_left > 0:
        position, chosen = branches.pop()
        if chosen and _places(context, chosen, nodes) is not None:
            return _minimal(context, chosen, nodes)
        if position == len(candidates) or _places(context, [*chosen, *candidates[position:]], nodes) is None:
            continue
        branches.append((position + 1, chosen))
        more = [*chosen, candidates[position]]
        if context.taken(candidate.kind for candidate in more).is_allowed():
            branches.append((position + 1, more))
    return None


def _minimal(context: SearchContext, chosen: list[VictimCandidate], nodes: Sequence[NodeState]) -> VictimSet | None:
    """The set without jobs that are not needed: all sets inside an allowed one are allowed."""
    for candidate in reversed(chosen[:-1]):
        fewer = [other for other in chosen if other is not candidate]
        if _places(context, fewer, nodes) is not None:
            chosen = fewer
    places = _places(context, chosen, nodes)
    return None if places is None else VictimSet(chosen, places)


def _places(context: SearchContext, gone: Sequence[VictimCandidate], nodes: Sequence[NodeState]) -> tuple[Place, ...] | None:
    return context.places((candidate.job for candidate in gone), nodes)
