"""What the usual requests would use of each kind of node, if they came until a little more was asked for than there is (R20).

The *plan* is found by congestion prices: demand is cut into slices, each slice goes where its GPUs and cpus are cheapest, and a resource
is the dearer the fuller it is. Then slices move, from the dearest place to a cheaper one, until none wants to. So demand that can go
nowhere else makes its models dear, and what is flexible keeps away from them; what needs many cpus goes where cpus are idle.

Whole numbers only, and everything in a fixed order: the same mix and supply give the same plan.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import GPU_UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.domain.model.requests import Shape

ASKED = 110
"""Percent of the GPUs that the plan places."""
SLICES = 512
"""Number of slices into which the supply would be cut; a kind has at most `SLICES_OF_A_KIND` of them."""
SLICES_OF_A_KIND = 64
ROUNDS = 6
STEEPNESS = 6
"""The power of the load in the price of a resource."""
_LOAD = 1_024
_RARITY = 1 << 30
_GPU_WEIGHT, _CPU_WEIGHT = 16, 126  # 1 GPU for 16 cores, as in the node's free amount
_STEPS = (4_000, 8_000, 10_000, 12_000, 16_000, 24_000, 32_000, 48_000)


class Site(NamedTuple):
    """Nodes that are alike to steering: their GPU model, and in steps the millicores they have for each GPU; -1 without GPU."""

    model: str
    cores: int


class RequestFamily(NamedTuple):
    """Requests that are steered alike: the models they may take (none named: all), and in steps the millicores for each GPU."""

    models: tuple[str, ...]
    cores: int

    def may_take(self, site: Site) -> bool:
        """Whether a request of this kind may go there."""
        return (not self.models or site.model in self.models) and (site.cores >= 0 or self.cores < 0)


class Amount(NamedTuple):
    """GPU units and millicores."""

    gpu: int
    cpu: int


Plan = dict[RequestFamily, dict[Site, int]]
"""How much of each kind each site should hold, measured in GPU units, or in millicores where no GPU is asked for."""


def cores_step(gpu: int, cpu: int) -> int:
    """In which step the millicores for each GPU are; -1 without GPU."""
    return sum(cpu * GPU_UNITS > step * gpu for step in _STEPS) if gpu else -1


def kind_of(shape: Shape) -> RequestFamily:
    """The kind of a request."""
    gpu = shape.whole * GPU_UNITS + shape.fraction
    return RequestFamily(shape.models if gpu else (), cores_step(gpu, shape.cpu))


def planned(plan: Plan, kind: RequestFamily) -> dict[Site, int]:
    """Plan for a kind; if it has none, that of the kind for the same models that is nearest in cores; else nothing."""
    if kind in plan:
        return plan[kind]
    near = [other for other in plan if other.models == kind.models and (other.cores < 0) == (kind.cores < 0)]
    return plan[min(near, key=lambda other: (abs(other.cores - kind.cores), other.cores))] if near else {}


def make_plan(mix: Iterable[tuple[Shape, int]], supply: Mapping[Site, Amount]) -> Plan:
    """The plan for a mix of requests with their weights, and what each site has."""
    market = _Market(supply)
    demand = _demand(mix, market.whole)
    stalls = [
        _Stall(kind, demand[kind], market, sites)
        for kind in sorted(demand, key=lambda kind: (len(kind.models) or len(supply), kind))
        if (sites := [site for site in sorted(supply) if kind.may_take(site)])
    ]
    for stall in stalls:
        for _ in range(stall.slices):
            stall.put()
    moving = [stall for stall in stalls if len(stall.held) > 1]
    for _ in range(ROUNDS):
        if not sum(stall.move() for stall in moving for _ in range(stall.slices)):
            break
    return {stall.kind: stall.result() for stall in stalls}


def _demand(mix: Iterable[tuple[Shape, int]], supply: Amount) -> dict[RequestFamily, Amount]:
    """What of each kind would be asked for, if `ASKED` percent of all GPUs were."""
    asked: dict[RequestFamily, Amount] = {}
    for shape, weight in mix:
        kind = kind_of(shape)
        gpu, cpu = asked.get(kind, (0, 0))
        asked[kind] = Amount(gpu + (shape.whole * GPU_UNITS + shape.fraction) * weight, cpu + shape.cpu * weight)
    gpus = 100 * sum(amount.gpu for amount in asked.values())
    times = ASKED * supply.gpu
    return {kind: Amount(gpu * times // gpus, cpu * times // gpus) for kind, (gpu, cpu) in asked.items()} if gpus else {}


class _Market:
    """What is loaded on each site."""

    __slots__ = ("_has", "_load", "_rarity", "whole")

    def __init__(self, supply: Mapping[Site, Amount]) -> None:
        self._has = supply
        self._load = dict.fromkeys(supply, Amount(0, 0))
        self.whole = Amount(sum(has.gpu for has in supply.values()), sum(has.cpu for has in supply.values()))
        self._rarity = {site: Amount(_rarity(has.gpu), _rarity(has.cpu)) for site, has in supply.items()}

    def load(self, site: Site, slice_: Amount, sign: int) -> None:
        """A slice comes, or goes."""
        gpu, cpu = self._load[site]
        self._load[site] = Amount(gpu + sign * slice_.gpu, cpu + sign * slice_.cpu)

    def price(self, site: Site, slice_: Amount, more: int) -> int:
        """What a slice pays there after this number of further slices like it."""
        has, load, rarity = self._has[site], self._load[site], self._rarity[site]
        price = 0
        if slice_.gpu:
            price = slice_.gpu * _GPU_WEIGHT * rarity.gpu * ((load.gpu + slice_.gpu * more) * _LOAD // has.gpu) ** STEEPNESS
        if slice_.cpu:
            price += (
                slice_.cpu * _CPU_WEIGHT * rarity.cpu * ((load.cpu + slice_.cpu * more) * _LOAD // max(1, has.cpu)) ** STEEPNESS
            )
        return price


def _rarity(has: int) -> int:
    """The less there is of something, the dearer it is at the same load: by the fourth root, which was tried and is a compromise."""
    return _RARITY // max(1, isqrt(isqrt(has)))


class _Stall:
    """One kind's demand, in slices, and how many of them each site holds."""

    __slots__ = ("_market", "_size", "_slice", "held", "kind", "slices")

    def __init__(self, kind: RequestFamily, demand: Amount, market: _Market, sites: list[Site]) -> None:
        gpu, cpu = market.whole
        self.kind = kind
        self.slices = 1 + max(demand.gpu * SLICES // max(1, gpu), demand.cpu * SLICES // max(1, cpu))
        self.slices = min(self.slices, SLICES_OF_A_KIND)
        self.held = dict.fromkeys(sites, 0)
        self._market = market
        self._size = demand.gpu or demand.cpu
        self._slice = Amount(demand.gpu // self.slices, demand.cpu // self.slices)

    def put(self) -> Site:
        """One more slice goes where it is cheapest."""
        cheapest = min(self.held, key=lambda site: self._market.price(site, self._slice, 1))
        self.held[cheapest] += 1
        self._market.load(cheapest, self._slice, 1)
        return cheapest

    def move(self) -> bool:
        """The slice that pays most goes where it is cheapest; whether that is another site."""
        holding = [site for site, held in self.held.items() if held]
        dearest = max(holding, key=lambda site: self._market.price(site, self._slice, 0))
        self.held[dearest] -= 1
        self._market.load(dearest, self._slice, -1)
        return self.put() != dearest

    def result(self) -> dict[Site, int]:
        """What each site should hold of the kind."""
        return {site: self._size * held // self.slices for site, held in self.held.items() if held}
