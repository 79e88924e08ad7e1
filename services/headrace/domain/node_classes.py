"""Nodes that look alike: what they can hold and how good a place they are is asked once for all of them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import GPU_UNITS
from headrace.contracts.isolation import UNPROVED, Ranks
from headrace.contracts.mig import charge, open_starts, placements_lost
from headrace.domain.fragmentation import Room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.contracts.mig import Layout
    from headrace.domain.expected_use import Site
    from headrace.domain.fragmentation import Fragmentation
    from headrace.domain.requests import Shape

CPU_WEIGHT, GPU_WEIGHT = 126, 16
"""What a millicore and a unit of GPU count in a node's free amount (R20): cpu / 128 cores + gpu / 8 GPUs, times 16,128,000."""


class Tag(NamedTuple):
    """What keeps nodes in a section of their own: a job may be kept out of, or sent first to, a section as a whole."""

    site: Site
    """GPU model, and how many cpus there are for each GPU."""
    owner: str
    """The tenant or policy that a dedication gives the node to (R21); "" where it is anybody's."""
    levels: Ranks = UNPROVED
    """How well they isolate jobs."""


class ClassKey(NamedTuple):
    """What nodes of one class have in common, besides their section: cpu in millicores and memory in MiB that are open."""

    cpu: int
    memory: int
    opens: tuple[int, ...]
    """Open units of each device, ascending; a device in MIG mode stands in `mig` instead."""
    mig: tuple[tuple[str, Layout], ...]
    """Family of each device in MIG mode, and what lies on it (R4), in order."""


Rating = tuple[int, int, int]
"""How good a place a class is for a shape, smaller is better: R20's score and its ties, all but the last, the node's name. The third is
also what is open on the device that a fraction takes."""


class NodeClass:
    """Nodes of one section with the same key.

    `names` ascending. `mask` has the bit of every shape, of the first `known` ones, that fits here. `lined` has the bits of the shapes
    in whose line the class stands; `listed` says that every other line will hear of it (`node_section`). `ratings`, by number of the
    shape, are those already asked for, and hold for one mix.
    """

    __slots__ = ("_amount", "free", "key", "known", "lined", "listed", "mask", "names", "ratings", "tag", "whole")

    def __init__(self, tag: Tag, key: ClassKey) -> None:
        self.tag = tag
        self.key = key
        self.whole = key.opens.count(GPU_UNITS)
        self.free = key.cpu * CPU_WEIGHT + (sum(key.opens) + sum(_idle(*device) for device in key.mig)) * GPU_WEIGHT
        self.names: list[str] = []
        self.mask = 0
        self.known = 0
        self.lined = 0
        self.listed = False
        self.ratings: dict[int, Rating] = {}
        self._amount: int | None = None

    def leave(self, name: str) -> None:
        """The node looks like this no more."""
        del self.names[bisect_left(self.names, name)]

    def learn(self, shapes: Sequence[Shape]) -> None:
        """Look at the shapes that were registered since the last time."""
        for number in range(self.known, len(shapes)):
            if self.fits(shapes[number]):
                self.mask |= 1 << number
        self.known = len(shapes)

    def fits(self, shape: Shape) -> bool:
        """Whether one replica of `shape` can go to a node of this class (R3)."""
        key = self.key
        if key.cpu < shape.cpu or key.memory < shape.memory or self.whole < shape.whole:
            return False
        if shape.mig and not any(open_starts(family, layout, shape.mig) for family, layout in key.mig):
            return False
        if shape.fraction and (not key.opens or key.opens[-1] < shape.fraction):
            return False
        if shape.isolation and not shape.is_isolated_by(self.tag.levels):
            return False
        return not shape.models or self.tag.site.model in shape.models or not shape.needs_device

    def rating(self, number: int, shape: Shape, mix: Fragmentation) -> Rating:
        """How good a place this is for a shape that fits; the number is the shape's. For a slice: where it costs the fewest placements."""
        rating = self.ratings.get(number)
        if rating is None and shape.mig:
            lost, left = min(cost for device in self.key.mig if (cost := placements_lost(*device, shape.mig)) is not None)
            rating = self.ratings[number] = (lost, self.free, left)
        elif rating is None:
            key = self.key
            room = Room(self.tag.site.model, key.cpu, key.memory, key.opens)
            if self._amount is None:
                self._amount = mix.amount(room)
            score, device = mix.score(room, self._amount, shape)
            rating = self.ratings[number] = (-score, self.free, device)
        return rating

    def forget(self) -> None:
        """Another mix is in force."""
        self.ratings.clear()
        self._amount = None


def _idle(family: str, layout: Layout) -> int:
    return max(0, GPU_UNITS - sum(charge(name, (family,)) for _, name in layout))
