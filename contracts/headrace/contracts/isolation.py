"""How well a job is kept to its own part of a machine: the levels, in order, and what of a GPU they are said of.

A level is what was proved on the node, never what was hoped for (interfaces page, `isolation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS = ("none", "simulated", "watchdog", "cooperative", "driver", "kernel", "hardware")
"""From the weakest to the strongest.

- `watchdog`: who takes too much is seen and ended. `cooperative`: honest programs are held to their part, others could leave it.
- `driver`, `kernel`: the GPU's driver, or the kernel, refuses what is beyond the part. `hardware`: the GPU itself keeps parts asunder.
"""

ANY = "any"
"""What a profile says that is content with all of them."""

WHOLE, FRACTION, SLICE = "whole", "fraction", "slice"
KINDS = (WHOLE, FRACTION, SLICE)
"""What a level is said of: whole GPUs, parts of one that others share, and slices in MIG mode."""

_RANKS = {level: rank for rank, level in enumerate(LEVELS)}


class Ranks(NamedTuple):
    """The ranks in `LEVELS` that a node reaches, by kind."""

    whole: int = 0
    fraction: int = 0
    slice: int = 0


UNPROVED = Ranks()
"""Of a node that has proved nothing."""


def rank(level: str) -> int:
    """The place of a level in the order; 0, the weakest, for what is no level."""
    return _RANKS.get(level, 0)


def weakest(*levels: str) -> str:
    """The weakest of some levels: a chain is as strong as that."""
    return LEVELS[min(map(rank, levels))]


def ranks(overall: str, levels: Mapping[str, str]) -> Ranks:
    """What a node that says `overall`, and of some kinds something else, reaches."""
    return Ranks(*(rank(levels.get(kind, overall)) for kind in KINDS))
