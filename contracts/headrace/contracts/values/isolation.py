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

CONTAINER = "container"
CONTAINED = (CONTAINER, *(f"{CONTAINER}-{kind}" for kind in KINDS))
"""The same of jobs with an image, which run in containers; the first is said of those that take no GPU."""

UNABLE = "unable"
"""What is said of a kind that a node cannot run at all."""

_RANKS = {UNABLE: -1, **{level: rank for rank, level in enumerate(LEVELS)}}


class Ranks(NamedTuple):
    """The ranks in `LEVELS` that a node reaches, by kind; -1 where it is unable."""

    whole: int = 0
    fraction: int = 0
    slice: int = 0
    container: int = 0
    container_whole: int = 0
    container_fraction: int = 0
    container_slice: int = 0


UNPROVED = Ranks()
"""Of a node that has proved nothing."""


def rank(level: str) -> int:
    """The place of a level in the order; 0, the weakest, for what is no level, and -1 for what cannot be had."""
    return _RANKS.get(level, 0)


def weakest(*levels: str) -> str:
    """The weakest of some levels: a chain is as strong as that."""
    return LEVELS[max(0, min(map(rank, levels)))]


def ranks(overall: str, levels: Mapping[str, str]) -> Ranks:
    """What a node that says `overall`, and of some kinds something else, reaches.

    A node that says nothing of containers is taken to run them as well as processes.
    """
    plain = {kind: levels.get(kind, overall) for kind in KINDS}
    contained = [levels.get(CONTAINER, LEVELS[0]), *(levels.get(f"{CONTAINER}-{kind}", level) for kind, level in plain.items())]
    return Ranks(*map(rank, [*plain.values(), *contained]))


def told(reached: Ranks) -> dict[str, str]:
    """The levels by kind; of containers only what differs from processes."""
    names = [UNABLE if number < 0 else LEVELS[number] for number in reached]
    found = dict(zip((*KINDS, *CONTAINED), names, strict=True))
    plain = {CONTAINER: LEVELS[0], **{f"{CONTAINER}-{kind}": found[kind] for kind in KINDS}}
    return {kind: level for kind, level in found.items() if plain.get(kind) != level}
