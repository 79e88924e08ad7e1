"""How much of a node the pool's usual requests cannot use, and how much worse a placement makes it (R20).

A node's *fragmentation* is the GPU units open there that a request drawn from the mix could not use, in expectation: all of them, if the
request does not fit on the node at all; those on devices that are too full for it; and those beyond twice what the node's cpu and memory
suffice for, if all that came were like it. (Twice, because others that come with it need less: once and three times were tried and place
less, and so does to look no further than to the next request.) It is kept as a whole number, the sum over the mix of weight x units. A
placement is scored by how much it lowers that sum: Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023), in which cpu and memory
count only as far as the next request goes. The score is their truncated sigmoid; it is coarse on purpose, so that among about equally good
places the fuller one wins.

Strategy: what a request can use is the least of what the open units, the cpu and the memory allow, and each of the three is remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import repeat
from operator import floordiv, mul
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.domain.indexes.slice_packing import SliceMix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.domain.model.requests import Shape

_UPPER = (
    # By how many units the expected fragmentation has to fall for a score of 51 .. 99: 126,000 ln(score / (100 - score)).
    5_041, 10_085, 15_138, 20_203, 25_285, 30_386, 35_513, 40_669, 45_860, 51_089,
    56_361, 61_683, 67_059, 72_496, 77_999, 83_575, 89_231, 94_975, 100_815, 106_760,
    112_818, 119_002, 125_322, 131_792, 138_425, 145_238, 152_247, 159_474, 166_941, 174_673,
    182_701, 191_060, 199_789, 208_937, 218_560, 228_727, 239_521, 251_046, 263_433, 276_850,
    291_518, 307_736, 325_923, 346_693, 370_999, 400_435, 437_988, 490_369, 578_985,
)  # fmt: skip
STEPS = (*(-units for units in reversed(_UPPER)), 0, *_UPPER)
"""The same for scores of 1 .. 99."""

_AS_OFTEN = 2
"""Of what cpu and memory suffice for so much counts as usable."""
_MANY = 1 << 20
_REMEMBERED = 50_000
"""Entries in a memo before it is emptied."""

Opens = tuple[int, ...]
"""Open units of each device, ascending."""


class OpenCapacity(NamedTuple):
    """What is open on a node: cpu in millicores, memory in MiB."""

    model: str
    cpu: int
    memory: int
    opens: Opens


class _Usable(NamedTuple):
    """What the mix can use of some devices of one model.

    `by_request`: each request, if cpu and memory suffice; `whole`: what is open in all. With this much `cpu` and `memory` they suffice for
    all requests, and `idle` is what cannot be used, times the mix's whole weight.
    """

    by_request: tuple[int, ...]
    whole: int
    cpu: int
    memory: int
    idle: int


class _Model:
    """What is remembered of devices of one model, and the weights of the requests that may go to them; of the others nothing."""

    __slots__ = ("amounts", "usable", "weights")

    def __init__(self, weights: tuple[int, ...]) -> None:
        self.weights = weights
        self.usable: dict[Opens, _Usable] = {}
        self.amounts: dict[tuple[int, int, Opens], int] = {}


class Fragmentation:
    """Fragmentation for one mix: requests and their weights. With an empty mix nothing is fragmented, and all places are alike.

    It speaks of whole devices and fractions; `slices` does of slices, and has no value if slices are compared by lost placements only.
    """

    __slots__ = (
        "_by_cpu",
        "_by_memory",
        "_cpus",
        "_memories",
        "_models",
        "_most",
        "_shapes",
        "_steps",
        "_ways",
        "_weights",
        "_whole",
        "slices",
    )

    def __init__(self, mix: Sequence[tuple[Shape, int]] = (), *, amended: bool = False) -> None:
        self.slices = SliceMix(mix) if amended else None
        weights: dict[Shape, int] = {}  # jobs of one shape are counted apart where some of them may not run on spot instances
        for shape, weight in mix:
            if not shape.mig:
                weights[shape] = weights.get(shape, 0) + weight
        self._shapes = tuple(shape for shape in weights if shape.whole or shape.fraction)
        self._weights = tuple(weights[shape] for shape in self._shapes)
        self._cpus = tuple(2 * _MANY * shape.cpu or 1 for shape in self._shapes)
        self._memories = tuple(2 * _MANY * shape.memory or 1 for shape in self._shapes)
        self._most = tuple(_AS_OFTEN * (shape.whole * GPU_UNITS + shape.fraction) for shape in self._shapes)
        self._whole = sum(weights.values())
        self._steps = [units * self._whole for units in STEPS]
        self._by_cpu: dict[int, tuple[int, ...]] = {}
        self._by_memory: dict[int, tuple[int, ...]] = {}
        self._models: dict[str, _Model] = {}
        self._ways: dict[tuple[Opens, int], list[tuple[int, Opens]]] = {}

    def amount(self, open_capacity: OpenCapacity) -> int:
        """Units that a request of the mix cannot use there, in expectation, times the mix's whole weight."""
        return self._amount(self._on(open_capacity.model), open_capacity.cpu, open_capacity.memory, open_capacity.opens)

    def score(self, open_capacity: OpenCapacity, before: int, shape: Shape) -> tuple[int, int]:
        """0 (worst) to 99, and the open units of the device to take for a fraction: among equal drops the fullest; 0 for whole ones.

        `before` is the amount of `open_capacity` itself; the shape fits there.
        """
        name, cpu, memory, opens = open_capacity
        if not self._whole:
            return 0, next(units for units in opens if units >= shape.fraction) if shape.fraction else 0
        model, cpu, memory = self._on(name), cpu - shape.cpu, memory - shape.memory
        if not shape.fraction:
            least, device = self._amount(model, cpu, memory, _without(opens, shape.whole)), 0
        else:
            ways = self._ways.get((opens, shape.fraction)) or self._remember_ways(opens, shape.fraction)
            least, device = min([(self._amount(model, cpu, memory, after), units) for units, after in ways])
        return bisect_right(self._steps, before - least), device

    def _on(self, name: str) -> _Model:
        model = self._models.get(name)
        if model is None:
            pairs = zip(self._shapes, self._weights, strict=True)
            weights = tuple(weight if not shape.models or name in shape.models else 0 for shape, weight in pairs)
            model = self._models[name] = _Model(weights)
        return model

    def _amount(self, model: _Model, cpu: int, memory: int, opens: Opens) -> int:
        """Remembered, because what a placement would make of one node is what another is, or becomes."""
        usable = model.usable.get(opens) or self._remember_usable(model, opens)
        if cpu >= usable.cpu and memory >= usable.memory:
            return usable.idle
        key = cpu, memory, opens
        amount = model.amounts.get(key)
        if amount is None:
            by_cpu = self._by_cpu.get(cpu) or self.bounds(cpu, self._cpus, self._by_cpu)
            by_memory = self._by_memory.get(memory) or self.bounds(memory, self._memories, self._by_memory)
            used: int = sum(map(mul, model.weights, map(min, usable.by_request, by_cpu, by_memory)))
            if len(model.amounts) >= _REMEMBERED:
                model.amounts.clear()
            amount = model.amounts[key] = usable.whole * self._whole - used
        return amount

    def bounds(self, left: int, needs: tuple[int, ...], known: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
        """What each request could use with so much cpu, or memory, whatever else there is: `_AS_OFTEN` times what that suffices for.

        Half a unit more is divided, which comes to the same, but suffices for very many of those who need nothing.
        """
        if len(known) >= _REMEMBERED:
            known.clear()
        bounds = known[left] = tuple(map(mul, self._most, map(floordiv, repeat(_MANY * (2 * left + 1)), needs)))
        return bounds

    def _remember_usable(self, model: _Model, opens: Opens) -> _Usable:
        whole, total, parts = opens.count(GPU_UNITS), sum(opens), dict[tuple[int, int], int]()
        for devices, fraction in {(shape.whole, shape.fraction) for shape in self._shapes}:
            fitting = [units for units in opens if units >= fraction] if fraction else [GPU_UNITS] * whole * (whole >= devices)
            parts[devices, fraction] = sum(fitting)
        by_request = tuple(parts[shape.whole, shape.fraction] for shape in self._shapes)
        times = [-(-units // most) for units, most in zip(by_request, self._most, strict=True)]
        cpu = max((often * shape.cpu for often, shape in zip(times, self._shapes, strict=True)), default=0)
        memory = max((often * shape.memory for often, shape in zip(times, self._shapes, strict=True)), default=0)
        if len(model.usable) >= _REMEMBERED:
            model.usable.clear()
        idle = total * self._whole - sum(map(mul, model.weights, by_request))
        usable = model.usable[opens] = _Usable(by_request, total, cpu, memory, idle)
        return usable

    def _remember_ways(self, opens: Opens, fraction: int) -> list[tuple[int, Opens]]:
        """The devices that a fraction can take, by what is open on them, and what is open everywhere when it has."""
        if len(self._ways) >= _REMEMBERED:
            self._ways.clear()
        fitting = sorted({units for units in opens if units >= fraction})
        ways = self._ways[opens, fraction] = [(units, _less(opens, units, fraction)) for units in fitting]
        return ways


def _without(opens: Opens, whole: int) -> Opens:
    """After this number of free devices, which come last, have been taken."""
    return (0,) * whole + opens[: len(opens) - whole] if whole else opens


def _less(opens: Opens, units: int, fraction: int) -> Opens:
    """After a fraction of a device with this number of open units has been taken."""
    at = opens.index(units)
    return tuple(sorted((*opens[:at], units - fraction, *opens[at + 1 :])))
