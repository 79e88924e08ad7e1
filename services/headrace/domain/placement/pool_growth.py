"""Pools that can grow (R38): whether one could hold a job after creating nodes, and how few nodes would do for all who ask.

Strategy: who asks is a count of equal requests, never a job by itself; nodes are filled one after the other with what is largest first. A
resource that a created node's document does not state (cpus 0, memory 0) is taken to be enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.documents.model import PROVIDERS, BurstNode
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.amounts import CPU_UNITS, GPU_UNITS
from headrace.contracts.values.durations import MINUTE
from headrace.contracts.values.isolation import ANY, rank
from headrace.contracts.values.mig import EMPTY, Layout, family_of, open_starts
from headrace.contracts.values.money import format_money
from headrace.domain.model.requests import Request
from headrace.domain.placement.offers import is_provided, living, open_offers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.domain.model.requests import Shape
    from headrace.domain.model.time_rules import Growth
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

CLOSED_FIRST = 10 * MINUTE
DOUBLINGS_MAX = 10
"""After growth has failed so often in a row, a pool is closed for growth for a week at a time."""
_ENOUGH = 1 << 62
REPLICAS_MAX = 1_000
"""More replicas than that are not counted on one node."""


class GrowthRequest(NamedTuple):
    """A number of `jobs` with one request; `name`: the first of them."""

    request: Request
    jobs: int
    name: str


def open_growth(state: State, pool: str) -> Growth | None:
    """The growth that is under way in a pool."""
    growth = state.terms.growths.get(pool)
    return growth if growth is not None and growth.open else None


def creatable_nodes(state: State, pool: PoolState, now: int) -> int:
    """How many nodes may be asked for; 0 where none can be created, or the pool is closed for growth."""
    burst, growth = pool.document.burst, state.terms.growths.get(pool.document.name)
    if burst is None or (growth is not None and (growth.open or growth.closed_until > now)):
        return 0
    if is_provided(state, burst) and not open_offers(state, pool, now):
        return 0
    return max(0, burst.max_nodes - len(living(state.instances.values(), pool)))


def due_at(pool: PoolState, growth: Growth) -> int:
    """When growth that has not come is given up: after twice the time that a node takes to boot."""
    return growth.asked_at + 2 * (pool.document.burst.boot if pool.document.burst is not None else 0)


def closed_for(growth: Growth) -> int:
    """How long a pool whose growth has failed once more is closed for growth."""
    return CLOSED_FIRST << min(growth.failures, DOUBLINGS_MAX)


def may_hold(node: BurstNode, shape: Shape, level: int = PROVISIONING) -> bool:
    """Whether one created node could hold one replica. `level`: of the installation; below that of provisioning slices were ignored."""
    return (not shape.models or node.gpu_model in shape.models) and _suits(node, shape) and _Bin(node, level).put(shape)


def request_for(node: BurstNode, request: Request, level: int = PROVISIONING) -> Request | None:
    """Of what a job may be given (R42), the first that one created node could hold; None if it could hold none of it."""
    return next((one for one in request.each if may_hold(node, one.shape, level)), None)


def replicas_in(node: BurstNode, shape: Shape, level: int = PROVISIONING) -> int:
    """How many replicas of one shape a created node holds."""
    empty, count = _Bin(node, level), 0
    while count < REPLICAS_MAX and empty.put(shape):
        count += 1
    return count


def _suits(node: BurstNode, shape: Shape) -> bool:
    """Whether a created node, by its description, isolates the replica as it asks for, and can run it."""
    if shape.contained and not node.containers:
        return False
    return not shape.needs_device or node.isolation == ANY or rank(node.isolation) >= shape.isolation


def growing_for(state: State, pools: Iterable[PoolState], request: Request) -> str | None:
    """How far the first of the pools is that grows and could then hold one replica of what a job may be given; None: none does."""
    for pool in pools:
        growth, burst = open_growth(state, pool.document.name), pool.document.burst
        if growth is not None and burst is not None and request_for(burst.node, request) is not None:
            return f"{growth.joined} of {growth.nodes} nodes have come to pool {pool.document.name}{_how(state, pool, growth)}"
    return None


def _how(state: State, pool: PoolState, growth: Growth) -> str:
    """Who brings the others, and how far they are."""
    burst = pool.document.burst
    if burst is not None and burst.provider not in PROVIDERS[1:]:
        return f"; its provider is {burst.provider}: an operator adds nodes"
    there = [one for one in state.instances.values() if growth.sequence and one.growth == growth.sequence and one.lives]
    stages = [one.stage for one in there]
    counts = [f"{stages.count(stage)} {stage}" for stage in ("ordered", "booting", "leaving") if stage in stages]
    price = sum(one.price for one in there)
    cost = f"; the nodes cost {format_money(price)} an hour" if price else ""
    return (f" ({', '.join(counts)})" if counts else "") + cost


@dataclass(slots=True)
class _Bin:
    """A node that would be created, and what is left of it.

    `parts`: units left of devices that are shared; `layouts`: the slices on each device in MIG mode.
    """

    node: BurstNode
    level: int = PROVISIONING
    whole: int = 0
    cpu: int = 0
    memory: int = 0
    parts: list[int] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.whole = 0 if self.node.mig else self.node.gpus
        self.layouts = [EMPTY] * (self.node.gpus if self.node.mig else 0)
        self.cpu = self.node.cpus * CPU_UNITS or _ENOUGH
        self.memory = self.node.memory or _ENOUGH

    def put(self, shape: Shape) -> bool:
        """Hold one replica more; False, and nothing changed, where it does not fit."""
        if shape.whole > self.whole or shape.cpu > self.cpu or shape.memory > self.memory:
            return False
        if shape.fraction and not self._share(shape.fraction):
            return False
        if shape.mig and self.level >= PROVISIONING and not self._cut(shape.mig):
            return False
        self.whole -= shape.whole
        self.cpu -= shape.cpu
        self.memory -= shape.memory
        return True

    def _cut(self, name: str) -> bool:
        family = family_of(self.node.gpu_model)
        for place, layout in enumerate(self.layouts):
            starts = open_starts(family, layout, name)
            if starts:
                self.layouts[place] = tuple(sorted((*layout, (starts[-1], name))))
                return True
        return False

    def _share(self, units: int) -> bool:
        fitting = [place for place, left in enumerate(self.parts) if left >= units]
        if fitting:
            self.parts[min(fitting, key=self.parts.__getitem__)] -= units
            return True
        if not self.whole:
            return False
        self.whole -= 1
        self.parts.append(GPU_UNITS - units)
        return True


def nodes_for(node: BurstNode, asks: Iterable[GrowthRequest], nodes_max: int, level: int = PROVISIONING) -> int:
    """Number of nodes, at most `nodes_max`, that would hold `asks`: the largest requests first, each job with all its replicas or not."""
    bins: list[_Bin] = []
    for ask in sorted(asks, key=lambda ask: (_size(ask.request), ask.name), reverse=True):
        first = 0
        for _ in range(ask.jobs):
            first, placed = _put(bins, first, _Bin(node, level), ask.request, nodes_max)
            if not placed:
                break
    return len(bins)


def _size(request: Request) -> tuple[int, int, int, int]:
    shape = request.shape
    return shape.whole, shape.fraction, shape.cpu, shape.memory


def _put(bins: list[_Bin], first: int, empty: _Bin, request: Request, nodes_max: int) -> tuple[int, bool]:
    """Place one job's replicas, from the bin `first` on: it does not fit in those before it.

    Gives where that is from now on, and whether the job went. Of a gang that did not, old bins keep what they took: it adds no node.
    """
    left, at, opened = request.replicas, first, len(bins)
    while left:
        if at == len(bins):
            if len(bins) == nodes_max:
                del bins[opened:]
                return at, False
            bins.append(_Bin(empty.node, empty.level))
        if bins[at].put(request.shape):
            left -= 1
        else:
            at += 1
    return at, True
