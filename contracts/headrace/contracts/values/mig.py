"""The geometry of MIG: the slices a GPU can be cut into, where each may lie, and what a slice is charged (R4).

A GPU in MIG mode has memory slices in a row and a number of compute slices. A slice takes a run of memory slices that begins at one of
its starts. A layout is legal if runs do not overlap, the compute slices suffice, and each kind of slice occurs at most as often as its
maximum. Everything follows from the tables below; another GPU model is another row of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import GPU_UNITS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Layout = tuple[tuple[int, str], ...]
"""The slices on one GPU: (start, name of the slice), ascending."""

EMPTY: Layout = ()


class Slice(NamedTuple):
    """A kind of slice: `compute` and `memory` slices, the `starts` of its run, and the maximum per GPU, `most`."""

    compute: int
    memory: int
    starts: tuple[int, ...]
    most: int


class Family(NamedTuple):
    """GPUs with the same geometry, and their slices. `gigabytes` is the memory in the product name."""

    gigabytes: int
    compute: int
    memory: int
    slices: dict[str, Slice]


def _of_eight(one: int, two: int, half: int, whole: int) -> Family:
    """A family with eight memory slices and seven compute slices; the arguments are the gigabytes in the names."""
    slices = {
        f"1g.{one}gb": Slice(1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
        f"1g.{one}gb+me": Slice(1, 1, (0, 1, 2, 3, 4, 5, 6), 1),
        f"1g.{two}gb": Slice(1, 2, (0, 2, 4, 6), 4),
        f"2g.{two}gb": Slice(2, 2, (0, 2, 4), 3),
        f"3g.{half}gb": Slice(3, 4, (0, 4), 2),
        f"4g.{half}gb": Slice(4, 4, (0,), 1),
        f"7g.{whole}gb": Slice(7, 8, (0,), 1),
    }
    return Family(whole, 7, 8, slices)


_A30_SLICES = {
    "1g.6gb": Slice(1, 1, (0, 1, 2, 3), 4),
    "1g.6gb+me": Slice(1, 1, (0, 1, 2, 3), 1),
    "2g.12gb": Slice(2, 2, (0, 2), 2),
    "2g.12gb+me": Slice(2, 2, (0, 2), 1),
    "4g.24gb": Slice(4, 4, (0,), 1),
}

FAMILIES: dict[str, Family] = {
    "A30-24GB": Family(24, 4, 4, _A30_SLICES),
    "A100-40GB": _of_eight(5, 10, 20, 40),
    "A100-80GB": _of_eight(10, 20, 40, 80),
    "H100-80GB": _of_eight(10, 20, 40, 80),
    "H100-94GB": _of_eight(12, 24, 47, 94),
    "H100-96GB": _of_eight(12, 24, 48, 96),
    "H200-141GB": _of_eight(18, 35, 71, 141),
    "B200-180GB": _of_eight(23, 45, 90, 180),
}
"""Every family, by a name such as those of GPU models."""

_CHIPS: dict[str, tuple[str, ...]] = {
    "A30": ("A30-24GB",),
    "A100": ("A100-40GB", "A100-80GB"),
    "A800": ("A100-40GB", "A100-80GB"),
    "H100": ("H100-80GB", "H100-94GB", "H100-96GB"),
    "H800": ("H100-80GB", "H100-94GB"),
    "GH200": ("H100-96GB",),
    "H200": ("H200-141GB",),
    "B200": ("B200-180GB",),
}
_WORD = re.compile(r"[A-Za-z0-9]+")
_SIZE = re.compile(r"(\d{2,3}) ?GB\b", re.IGNORECASE)


@lru_cache(maxsize=1_024)
def family_of(model: str, memory: int = 0) -> str:
    """The family of a GPU model such as `H100-80GB`; empty for GPUs without MIG. `memory` in MiB decides if the name is ambiguous."""
    chip = next((word.upper() for word in _WORD.findall(model) if word.upper() in _CHIPS), "")
    size = _SIZE.search(model)
    gigabytes = int(size[1]) if size else memory // 1024
    return min(_CHIPS.get(chip, ("",)), key=lambda name: abs(FAMILIES[name].gigabytes - gigabytes) if name else 0)


def slices_of(families: Iterable[str]) -> list[str]:
    """The names of all slices of these families, each once, in the order of the tables."""
    return list(dict.fromkeys(name for family in families if family for name in FAMILIES[family].slices))


def charge(name: str, families: Collection[str] = ()) -> int:
    """GPU units that a slice is charged: the greater of its shares of compute and of memory; 0 for an unknown slice.

    Exact: a GPU's units are divisible by 7 and by 8 (R1). `1g.10gb` is a seventh of an 80 GB GPU and a quarter of a 40 GB one: the charge
    is the highest among the `families` that offer the slice, or among all families if none of these does.
    """
    offering = {key: family for key, family in FAMILIES.items() if name in family.slices}
    wanted = [key for key in offering if key in families] or list(offering)
    return max((_charge(offering[key], offering[key].slices[name]) for key in wanted), default=0)


def _charge(family: Family, kind: Slice) -> int:
    return max(kind.compute * GPU_UNITS // family.compute, kind.memory * GPU_UNITS // family.memory)


def run(family: str, start: int, name: str) -> int:
    """The memory slices that a slice takes, as a bit mask; 0 if the family does not offer it."""
    kind = FAMILIES[family].slices.get(name) if family else None
    return ((1 << kind.memory) - 1) << start if kind is not None else 0


def most_of(family: str, name: str) -> int:
    """Maximum number of slices of a kind on an empty GPU of the family."""
    kind = FAMILIES[family].slices.get(name) if family else None
    return min(kind.most, len(kind.starts)) if kind is not None else 0


@lru_cache(maxsize=65_536)
def open_starts(family: str, layout: Layout, name: str) -> tuple[int, ...]:
    """The starts where a slice fits beside the layout (R4); empty if it does not fit or the family does not offer it."""
    kind = FAMILIES[family].slices.get(name) if family else None
    if kind is None:
        return ()
    if _computing(FAMILIES[family], layout) + kind.compute > FAMILIES[family].compute:
        return ()
    if sum(other == name for _, other in layout) >= kind.most:
        return ()
    taken = 0
    for start, other in layout:
        taken |= run(family, start, other)
    return tuple(start for start in kind.starts if not taken & run(family, start, name))


def _computing(family: Family, layout: Layout) -> int:
    """Compute slices in use. For runs that overlap because one replaces the other, the maximum at any one time."""
    most = [0] * (family.memory + 1)  # compute slices in use at each memory slice
    for end in range(1, family.memory + 1):
        most[end] = most[end - 1]
        for start, name in layout:
            kind = family.slices.get(name)
            if kind is not None and start + kind.memory == end:
                most[end] = max(most[end], most[start] + kind.compute)
    return most[-1]


@lru_cache(maxsize=65_536)
def more_of(family: str, layout: Layout, name: str) -> int:
    """How many more slices of one kind fit beside the layout, each put at its best start."""
    start = best_start(family, layout, name)
    return 0 if start is None else 1 + more_of(family, put(layout, start, name), name)


@lru_cache(maxsize=65_536)
def open_placements(family: str, layout: Layout) -> int:
    """Number of open placements over all slices and starts; a higher number leaves more for later slices."""
    return sum(len(open_starts(family, layout, name)) for name in (FAMILIES[family].slices if family else ()))


@lru_cache(maxsize=65_536)
def best_start(family: str, layout: Layout, name: str) -> int | None:
    """The start that leaves the most placements open, the last of equal ones: a GPU fills from the right. None if it does not fit."""
    starts = open_starts(family, layout, name)
    return max(starts, key=lambda start: (open_placements(family, put(layout, start, name)), start)) if starts else None


@lru_cache(maxsize=65_536)
def idle_of(family: str, layout: Layout) -> int:
    """GPU units that the layout is not charged for."""
    return max(0, GPU_UNITS - sum(charge(name, (family,)) for _, name in layout))


def placements_lost(family: str, layout: Layout, name: str) -> tuple[int, int] | None:
    """(placements closed, placements left open) by a slice at its best start; None if it does not fit."""
    start = best_start(family, layout, name)
    if start is None:
        return None
    left = open_placements(family, put(layout, start, name))
    return open_placements(family, layout) - left, left


def put(layout: Layout, start: int, name: str) -> Layout:
    """The layout with one more slice."""
    return tuple(sorted((*layout, (start, name))))


def remove(layout: Layout, start: int, name: str) -> Layout:
    """The layout without the slice; unchanged if it is not there."""
    if (start, name) not in layout:
        return layout
    place = layout.index((start, name))
    return (*layout[:place], *layout[place + 1 :])
