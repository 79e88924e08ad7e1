"""Where a slice of a GPU lies best: what else could still be placed on the device afterwards, by geometry (R4, R20).

What a device is worth to a kind of slice are the units in which further slices of that kind could be placed on it. A placement costs what
all kinds together lose, each weighted by how often the mix asks for it and by its size: so a whole device is cut only where no cut one
serves as well, and a slice lies at the end that leaves the largest runs. It is the gradient by which fractions are placed, with geometry
in place of open units, and with the size in the weight: by frequency alone, many small slices outvote the few whole devices that they
would cut, and devices stand half empty (measured by `make bench-slices`). For a mix without slices all kinds count as equally frequent,
and in any mix a whole device counts as requested now and then, because any unexpected request fits on one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.mig import charge, idle_of, more_of, open_placements, open_starts, put, slices_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.contracts.values.mig import Layout
    from headrace.domain.model.requests import Shape

_WHOLE = 32
"""One in this number of requests for slices is taken to be for a whole device, besides those in the mix."""
_REMEMBERED = 50_000
"""Entries in a memo before it is emptied."""


class Cut(NamedTuple):
    """A place for a slice on one device: where it starts, what that costs the others, and the units idle on the device before it."""

    loss: int
    idle: int
    start: int


class SliceMix:
    """How slices are compared for one mix: requests and their weights."""

    __slots__ = ("_asked", "_cuts", "_factors")

    def __init__(self, mix: Sequence[tuple[Shape, int]] = ()) -> None:
        self._asked = [(shape, weight) for shape, weight in mix if shape.mig]
        self._factors: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._cuts: dict[tuple[str, str, Layout, str], Cut | None] = {}

    def cut(self, model: str, family: str, layout: Layout, name: str) -> Cut | None:
        """The best place for a slice on a device of this model and family where this lies; None if it does not fit.

        Of equal losses the start that leaves the most placements open, then the last: a GPU fills from the right.
        """
        key = (model, family, layout, name)
        if key in self._cuts:
            return self._cuts[key]
        best: tuple[int, int, int] | None = None
        before = self._worth(model, family, layout)
        for start in open_starts(family, layout, name):
            after = put(layout, start, name)
            merit = (before - self._worth(model, family, after), -open_placements(family, after), -start)
            if best is None or merit < best:
                best = merit
        if len(self._cuts) >= _REMEMBERED:
            self._cuts.clear()
        found = self._cuts[key] = None if best is None else Cut(best[0], idle_of(family, layout), -best[2])
        return found

    def _worth(self, model: str, family: str, layout: Layout) -> int:
        return sum([factor * more_of(family, layout, name) for name, factor in self._factors_of(model, family)])

    def _factors_of(self, model: str, family: str) -> list[tuple[str, int]]:
        """What one more slice of each kind counts: how often it is asked for on such devices x its size squared, once as its weight."""
        known = self._factors.get((model, family))
        if known is None:
            offered = slices_of((family,))
            often = dict[str, int]()
            for shape, weight in self._asked:
                if shape.mig in offered and (not shape.models or model in shape.models):
                    often[shape.mig] = often.get(shape.mig, 0) + weight
            now_and_then = 1 + sum(often.values()) // _WHOLE
            extra = [name for name in offered if not often or charge(name, (family,)) == GPU_UNITS]
            for name in extra:
                often[name] = often.get(name, 0) + now_and_then
            known = [(name, times * charge(name, (family,)) ** 2) for name, times in often.items()]
            self._factors[model, family] = known
        return known
