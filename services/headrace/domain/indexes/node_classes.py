"""Nodes that look alike: what they can hold and how good a place they are is asked once for all of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.isolation import UNPROVED, Ranks
from headrace.contracts.values.mig import idle_of, more_of, open_starts, placements_lost
from headrace.domain.indexes.expected_use import Site
from headrace.domain.indexes.fragmentation import OpenCapacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.contracts.values.mig import Layout
    from headrace.domain.indexes.fragmentation import Fragmentation
    from headrace.domain.indexes.slice_packing import SliceMix
    from headrace.domain.model.requests import Shape

MANY = 1_000_000
"""Replicas where nothing bounds them."""

CPU_WEIGHT, GPU_WEIGHT = 126, 16
"""What a millicore and a unit of GPU count in a node's free amount (R20): cpu / 128 cores + gpu / 8 GPUs, times 16,128,000."""


class SectionTag(NamedTuple):
    """What keeps nodes in a section of their own: a job may be kept out of, or sent first to, a section as a whole."""

    site: Site
    """GPU model, and how many cpus there are for each GPU."""
    owner: str
    """The tenant or policy that a dedication gives the node to (R21); "" if it is open to all."""
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


Rating = tuple[Any, ...]
"""How good a place a class is for a shape, smaller is better: R20's score and its ties, all but the last, the node's name. The third is
also what is open on the device that a fraction takes. (Three integers, without their types for the reason that `pending.Place` names.)"""


class Shapes:
    """The shapes that were asked about, by number; sets of them are whole numbers with a bit for each.

    Strategy: of each amount the distinct needs stand sorted, and beside them the set of shapes that need no more; what models and
    isolation leave is the same for all nodes of a tag. So what fits on a node is a few look-ups, whatever the number of shapes.
    """

    __slots__ = ("_counted", "_of_tag", "_slices", "_steps", "all")

    def __init__(self, shapes: Iterable[Shape] = ()) -> None:
        self.all = list(shapes)
        self._counted = -1
        self._slices = 0
        self._steps: tuple[Steps, ...] = ()
        self._of_tag: dict[SectionTag, int] = {}

    def fitting(self, group: NodeClass) -> int:
        """Requests with a replica that can go to a node of the class (R3): `NodeClass.fits` of all of them."""
        if not self.all:
            return 0
        if self._counted != len(self.all):
            self._count()
        allowed = self._of_tag.get(group.tag)
        if allowed is None:
            allowed = self._of_tag[group.tag] = self._set_of([group.suits(shape) for shape in self.all])
        key, (cpus, memories, wholes, fractions) = group.key, self._steps
        fitting = allowed & cpus.upto(key.cpu) & memories.upto(key.memory) & wholes.upto(group.whole)
        fitting &= fractions.upto(key.opens[-1] if key.opens else 0)
        if fitting & self._slices:  # their geometry is looked at one by one (R4)
            fitting &= ~self._slices | self._set_of([bool(shape.mig) and group.fits(shape) for shape in self.all])
        return fitting

    def _count(self) -> None:
        self._counted = len(self.all)
        self._of_tag.clear()
        self._slices = self._set_of([bool(shape.mig) for shape in self.all])
        needs = zip(*[(shape.cpu, shape.memory, shape.whole, shape.fraction) for shape in self.all], strict=True)
        self._steps = tuple(map(Steps, needs))

    @staticmethod
    def _set_of(chosen: Iterable[bool]) -> int:
        return sum(1 << number for number, is_in in enumerate(chosen) if is_in)


class Steps:
    """Who needs how much of one thing: the distinct needs, ascending, and for each the set of those who need no more."""

    __slots__ = ("_needs", "_sets")

    def __init__(self, needs: Sequence[int]) -> None:
        self._needs = sorted(set(needs))
        sets = [sum(1 << number for number, need in enumerate(needs) if need <= step) for step in self._needs]
        self._sets = [0, *sets]

    def upto(self, amount: int) -> int:
        """Those for whom so much is enough."""
        return self._sets[bisect_right(self._needs, amount)]


class NodeClass:
    """Nodes of one section with the same key.

    `names` ascending. `mask` has the bit of every shape, of the first `known` ones, that fits here. `lined` has the bits of the shapes
    in whose line the class stands; `listed`: every other line will take it in from the log (`shape_buckets`). `ratings`, by number of the
    shape, are those already asked for, and hold for one mix.
    """

    __slots__ = ("_amount", "free", "key", "known", "lined", "listed", "mask", "names", "ratings", "tag", "whole")

    def __init__(self, tag: SectionTag, key: ClassKey) -> None:
        self.tag = tag
        self.key = key
        self.whole = key.opens.count(GPU_UNITS)
        self.free = key.cpu * CPU_WEIGHT + (sum(key.opens) + sum(idle_of(*device) for device in key.mig)) * GPU_WEIGHT
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

    def learn(self, shapes: Shapes) -> None:
        """Look at the shapes that are registered by now."""
        self.mask = shapes.fitting(self)
        self.known = len(shapes.all)

    def fits(self, shape: Shape) -> bool:
        """Whether one replica of `shape` can go to a node of this class (R3)."""
        key = self.key
        if key.cpu < shape.cpu or key.memory < shape.memory or self.whole < shape.whole:
            return False
        if shape.mig and not any(open_starts(family, layout, shape.mig) for family, layout in key.mig):
            return False
        if shape.fraction and (not key.opens or key.opens[-1] < shape.fraction):
            return False
        return self.suits(shape)

    def replicas(self, shape: Shape) -> int:
        """How many replicas of a shape that fits go to one node of this class, where the shape asks for anything of a node."""
        key, counts = self.key, []
        if shape.whole:
            counts.append(self.whole // shape.whole)
        elif shape.fraction:
            counts.append(sum(units // shape.fraction for units in key.opens))
        elif shape.mig:
            counts.append(sum(more_of(family, layout, shape.mig) for family, layout in key.mig))
        counts += [key.cpu // shape.cpu] if shape.cpu else []
        counts += [key.memory // shape.memory] if shape.memory else []
        return min(counts, default=MANY)

    def suits(self, shape: Shape) -> bool:
        """Whether it might, by GPU model, isolation, and whether containers run there and its provider may take it back."""
        if (shape.isolation or shape.contained or shape.steady) and not shape.runs_on(self.tag.levels):
            return False
        return not shape.models or self.tag.site.model in shape.models or not shape.needs_device

    def rating(self, number: int, shape: Shape, mix: Fragmentation) -> Rating:
        """How good a place this is for a shape that fits; the number is the shape's."""
        rating = self.ratings.get(number)
        if rating is None and shape.mig:
            rating = self.ratings[number] = self._rating_of_slice(shape.mig, mix.slices)
        elif rating is None:
            key = self.key
            open_capacity = OpenCapacity(self.tag.site.model, key.cpu, key.memory, key.opens)
            if self._amount is None:
                self._amount = mix.amount(open_capacity)
            score, device = mix.score(open_capacity, self._amount, shape)
            rating = self.ratings[number] = (-score, self.free, device)
        return rating

    def _rating_of_slice(self, name: str, mix: SliceMix | None) -> Rating:
        """Where it costs the least of what else could be placed; before the rules were amended: the fewest placements."""
        if mix is None:
            lost, left = min(cost for device in self.key.mig if (cost := placements_lost(*device, name)) is not None)
            return lost, self.free, left
        model, devices = self.tag.site.model, self.key.mig
        cuts = [(cut.loss, cut.idle) for one in devices if (cut := mix.cut(model, *one, name)) is not None]
        loss, idle = min(cuts)
        return loss, self.free, idle

    def forget(self) -> None:
        """Another mix is in force."""
        self.ratings.clear()
        self._amount = None
