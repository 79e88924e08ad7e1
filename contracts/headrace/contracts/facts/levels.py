"""Levels: what may be stated while some processes do not read the newest facts yet. New versions are enabled in one step.

A release that adds a fact, or a new version of one, adds the next level: its name in `RELEASES`, the fact in `SINCE`, and, for a new
version, the conversion to the version before (`DOWNCASTERS`). Its code decides in the newest version; until `installation.level` has been
raised (by *governance*, when every process reads that level), its facts are converted to the installation's level. A fact without an
earlier version has to be withheld by its decider: the level is in the fold.

Level 2 (release 0.2.0) is also the one from which the amended rules hold: deciders and the fold apply them only at that level
(`AMENDED`), so that a ledger of release 0.1.0 keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from headrace.contracts.facts import (
    AccountNumberedV1,
    InstanceCreatedV1,
    InstanceEndedV1,
    InstanceInterruptedV1,
    InstanceOrderedV1,
    InstanceOrphanEndedV1,
    InstanceRefusedV1,
    InstanceReleasedV1,
    JobMatchedV1,
    LeaseIdledV1,
    LeaseUsedV1,
    MaintenanceStatedV1,
    MoveOrderedV1,
    NodeApprovedV1,
    NodeCheckedV1,
    NodeCheckOrderedV1,
    NodeDrainBeganV1,
    NodeDrainScheduledV1,
    NodeExcludedV1,
    NodeRemovedV1,
    PriceObservedV1,
    StorageStatedV1,
    TextsLockedV1,
    TextsUnlockedV1,
    fact_type,
)
from headrace.contracts.facts.upcasters import current

if TYPE_CHECKING:
    from headrace.contracts.facts import AnyFact

RELEASES: tuple[str, ...] = ("0.1.0", "0.2.0", "0.3.0")
"""The first release that reads each level, from level 1 on."""

LEVEL = len(RELEASES)
"""The highest level that this release reads, and writes once the installation has it."""

FIRST = 1
"""The level of an installation whose ledger states none."""

PRESENCE_UNKNOWN = "it is not known yet who is there"
"""The reason in `ServiceView.held_back` that passes by itself, within seconds of the start of *governance*."""

AMENDED: Final = 2
"""The level from which the rules of release 0.2.0 hold."""

PROVISIONING = 3
"""The level from which pools order instances and let them go (R38)."""

ARRAYS = 3
"""The level from which a job may be an array."""

MAINTENANCE = 3
"""The level from which a drain may be scheduled, and pools have maintenance windows (R41)."""

IDLE = 3
"""The level from which idle leases are marked (R39)."""

NETWORKS = 3
"""The level from which containers have the network that their profile names (R44)."""

GPU_SHARES = 3
"""The level from which a job may ask for GPU memory (R42), and GPU models may be governed (R43)."""

_SECOND: tuple[type[AnyFact], ...] = (
    *(AccountNumberedV1, MoveOrderedV1, NodeApprovedV1, NodeCheckOrderedV1, NodeCheckedV1, NodeExcludedV1),
    *(StorageStatedV1, TextsLockedV1, TextsUnlockedV1),
)
_THIRD: tuple[type[AnyFact], ...] = (
    *(InstanceOrderedV1, InstanceCreatedV1, InstanceRefusedV1, InstanceInterruptedV1, InstanceReleasedV1, InstanceEndedV1),
    *(InstanceOrphanEndedV1, PriceObservedV1, NodeRemovedV1),
    *(LeaseIdledV1, LeaseUsedV1, NodeDrainScheduledV1, NodeDrainBeganV1, MaintenanceStatedV1),
    JobMatchedV1,
)

SINCE: dict[type[AnyFact], int] = {**dict.fromkeys(_SECOND, 2), **dict.fromkeys(_THIRD, PROVISIONING)}
"""The level from which each fact may be stated; facts that are not listed, from the first."""

DOWNCASTERS: dict[type[AnyFact], Callable[[AnyFact], AnyFact]] = {}
"""Conversions of a fact to the version before its own."""


def release_of(level: int) -> str:
    """The release that reads a level, for people; for a level above our own only that it is newer."""
    return f"headrace {RELEASES[level - 1]}" if FIRST <= level <= LEVEL else f"a newer release of headrace than {RELEASES[-1]}"


def at_level(facts: tuple[AnyFact, ...], level: int) -> tuple[AnyFact, ...]:
    """The facts as they may be stated at a level; the same object if they need no conversion.

    Raises KeyError for a fact without an earlier version: its decider has to check the level.
    """
    if level >= LEVEL or all(SINCE.get(type(fact), FIRST) <= level for fact in facts):
        return facts
    return tuple(_older(fact, level) for fact in facts)


def read_back(facts: tuple[AnyFact, ...], level: int) -> tuple[AnyFact, ...]:
    """The facts as a fold reads them after they were stated at a level."""
    stated = at_level(facts, level)
    return facts if stated is facts else tuple(map(current, stated))


def too_early(facts: Iterable[AnyFact], level: int) -> str:
    """Why one of the facts may not be in a ledger of that level; empty if all may."""
    if level < LEVEL:
        for fact in facts:
            since = SINCE.get(type(fact), FIRST)
            if since > level:
                return f"{fact_type(type(fact))} may be stated from level {since} on, and the installation is at {level}"
    return ""


def _older(fact: AnyFact, level: int) -> AnyFact:
    while SINCE.get(type(fact), FIRST) > level:
        fact = DOWNCASTERS[type(fact)](fact)
    return fact
