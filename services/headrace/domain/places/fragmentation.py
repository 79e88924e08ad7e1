"""How much of a node the pool's usual requests cannot use, and how much worse a placement makes it (R20).

A node's *fragmentation* is the GPU units open there that a request drawn from the mix could not use, in expectation: all of them, if the
request does not fit on the node at all; else those on devices that are too full for it. It is kept as a whole number, the sum over the
mix of weight x units. A placement is scored by how much it lowers that sum: Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023).
The score is their truncated sigmoid; it is coarse on purpose, so that among about equally good places the fuller one wins.

Strategy: requests that need the same of the devices are one *part*. What a part can use depends on the open units alone, what it weighs on
model, cpu and memory alone, and there between few thresholds; both are remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import GPU_UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.domain.requests import Shape

_UPPER = (
    # By how many units the expected fragmentation has to fall for a score of 51 .. 99: 126,000 ln(score / (100 - score)).
    5_041, 10_085, 15_138, 20_203, 25_285, 30_386, 35_513, 40_669, 45_860, 51_089,
    56_361, 61_683, 67_059, 72_496, 77_999, 83_575, 89_231, 94_975, 100_815, 106_760,
    112_818, 119_002, 125_322, 131_792, 138_425, 145_238, 152_247, 159_474, 166_941, 174_673,
    182_701, 191_060, 199_789, 208_937, 218_560, 228_727, 239_521, 251_046, 263_433, 276_850,
    291_518, 307_736, 325_923, 346_693, 370_999, 400_435, 437_988, 490_369, 578_985,
)  # fmt: skip
_STEPS = (*(-units for units in reversed(_UPPER)), 0, *_UPPER)
"""The same for scores of 1 .. 99."""

_REMEMBERED = 50_000
"""Entries in a memo before it is emptied."""

Opens = tuple[int, ...]
"""Open units of each device, ascending."""


class Room(NamedTuple):
    """What is open on a node: cpu in millicores, memory in MiB."""

    model: str
    cpu: int
    memory: int
    opens: Opens


class Fragmentation:
    """Fragmentation for one mix: requests and their weights. With an empty mix nothing is fragmented, and all places are alike."""

    __slots__ = ("_cpus", "_memories", "_mix", "_parts", "_steps", "_usable", "_weights", "_whole")

    def __init__(self, mix: Sequence[tuple[Shape, int]] = ()) -> None:
        self._mix = tuple(mix)
        self._parts = sorted({(shape.whole, shape.fraction) for shape, _ in mix if shape.whole or shape.fraction})
        self._cpus = sorted({shape.cpu for shape, _ in mix})
        self._memories = sorted({shape.memory for shape, _ in mix})
        self._whole = sum(weight for _, weight in mix)
        self._steps = [units * self._whole for units in _STEPS]
        self._usable: dict[Opens, tuple[int, ...]] = {}
        self._weights: dict[tuple[str, int, int], tuple[int, ...]] = {}

    def amount(self, room: Room) -> int:
        """Units that a request of the mix cannot use there, in expectation, times the mix's whole weight."""
        model, cpu, memory, opens = room
        usable = self._usable.get(opens)
        if usable is None:
            usable = self._remember_usable(opens)
        key = (model, bisect_right(self._cpus, cpu), bisect_right(self._memories, memory))
        weights = self._weights.get(key)
        if weights is None:
            weights = self._remember_weights(key)
        used: int = sum(map(mul, usable, weights))
        return usable[-1] * self._whole - used

    def score(self, room: Room, before: int, shape: Shape) -> tuple[int, int]:
        """0 (worst) to 99, and the open units of the device to take for a fraction: among equal drops the fullest; 0 for whole ones.

        `before` is the room's own amount; the shape fits there.
        """
        model, cpu, memory, opens = room
        if not self._whole:
            return 0, next(units for units in opens if units >= shape.fraction) if shape.fraction else 0
        cpu, memory = cpu - shape.cpu, memory - shape.memory
        if not shape.fraction:
            least, device = self.amount(Room(model, cpu, memory, _without(opens, shape.whole))), 0
        else:
            least, device = min(
                (self.amount(Room(model, cpu, memory, _less(opens, units, shape.fraction))), units)
                for units in set(opens)
                if units >= shape.fraction
            )
        return bisect_right(self._steps, before - least), device

    def _remember_usable(self, opens: Opens) -> tuple[int, ...]:
        """What each part can use of these devices, and last what is open in all."""
        whole = opens.count(GPU_UNITS)
        usable = [
            sum(units for units in opens if units >= fraction) if fraction else whole * GPU_UNITS * (whole >= devices)
            for devices, fraction in self._parts
        ]
        if len(self._usable) >= _REMEMBERED:
            self._usable.clear()
        remembered = self._usable[opens] = (*usable, sum(opens))
        return remembered

    def _remember_weights(self, key: tuple[str, int, int]) -> tuple[int, ...]:
        """What the requests of each part weigh together that this model, cpu and memory allow; `key` as in `amount`."""
        model, cpus, memories = key
        weights = dict.fromkeys(self._parts, 0)
        for shape, weight in self._mix:
            part = (shape.whole, shape.fraction)
            enough = shape.cpu in self._cpus[:cpus] and shape.memory in self._memories[:memories]
            if part in weights and enough and (not shape.models or model in shape.models):
                weights[part] += weight
        remembered = self._weights[key] = tuple(weights.values())
        return remembered


def _without(opens: Opens, whole: int) -> Opens:
    """After so many free devices, which come last, have been taken."""
    return (0,) * whole + opens[: len(opens) - whole] if whole else opens


def _less(opens: Opens, units: int, fraction: int) -> Opens:
    """After a fraction of a device that has so many units open has been taken."""
    at = opens.index(units)
    return tuple(sorted((*opens[:at], units - fraction, *opens[at + 1 :])))
