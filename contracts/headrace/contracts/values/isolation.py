"""Isolation levels: how well a job is confined to its part of a machine, in order, and the kinds of parts they apply to.

A level is what was proved on the node, not what was configured (docs/interfaces.md, `isolation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS = ("none", "simulated", "watchdog", "cooperative", "driver", "kernel", "hardware")
"""From the weakest to the strongest.

- `watchdog`: jobs that take too much are detected and ended. `cooperative`: honest programs are confined, others could escape.
- `driver`, `kernel`: the GPU's driver, or the kernel, refuses what is beyond the part. `hardware`: the GPU itself separates the parts.
"""

ANY = "any"
"""Value of a profile that accepts every level."""

WHOLE, FRACTION, SLICE = "whole", "fraction", "slice"
KINDS = (WHOLE, FRACTION, SLICE)
"""Kinds of parts that a level applies to: whole GPUs, shared parts of a GPU, slices in MIG mode."""

CONTAINER = "container"
CONTAINED = (CONTAINER, *(f"{CONTAINER}-{kind}" for kind in KINDS))
"""The same kinds for jobs with an image, which run in containers; the first is for jobs without a GPU."""

UNABLE = "unable"
"""Level of a kind that a node cannot run at all."""

_RANKS = {UNABLE: -1, **{level: rank for rank, level in enumerate(LEVELS)}}


class Ranks(NamedTuple):
    """Ranks in `LEVELS` that a node reaches, by kind; -1 for a kind that it cannot run.

    `spot`: 1 if the node is a spot instance, which its provider may take back at any time (R38).
    """

    whole: int = 0
    fraction: int = 0
    slice: int = 0
    container: int = 0
    container_whole: int = 0
    container_fraction: int = 0
    container_slice: int = 0
    spot: int = 0


UNPROVED = Ranks()
"""Ranks of a node that has proved nothing."""


def rank(level: str) -> int:
    """The index of a level in the order; 0, the weakest, for an unknown level, -1 for a kind that the node cannot run."""
    return _RANKS.get(level, 0)


def weakest(*levels: str) -> str:
    """The weakest of some levels: the level of a chain of mechanisms."""
    return LEVELS[max(0, min(map(rank, levels)))]


def ranks(overall: str, levels: Mapping[str, str]) -> Ranks:
    """Ranks of a node with level `overall` and other `levels` for some kinds.

    A node that states nothing about containers is taken to run them as well as processes.
    """
    plain = {kind: levels.get(kind, overall) for kind in KINDS}
    contained = [levels.get(CONTAINER, LEVELS[0]), *(levels.get(f"{CONTAINER}-{kind}", level) for kind, level in plain.items())]
    return Ranks(*map(rank, [*plain.values(), *contained]))


def levels_by_kind(reached: Ranks) -> dict[str, str]:
    """The levels by kind; of containers only those that differ from processes."""
    names = [UNABLE if number < 0 else LEVELS[number] for number in reached[: len(KINDS) + len(CONTAINED)]]
    found = dict(zip((*KINDS, *CONTAINED), names, strict=True))
    plain = {CONTAINER: LEVELS[0], **{f"{CONTAINER}-{kind}": found[kind] for kind in KINDS}}
    return {kind: level for kind, level in found.items() if plain.get(kind) != level}
