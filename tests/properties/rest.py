"""What a history may still state without new input (R31): nothing that grants or preempts."""

from __future__ import annotations

from typing import Any

from headrace.contracts.facts import (
    GrowthEndedV1,
    GrowthRequestedV1,
    HoldLiftedV1,
    HoldPlacedV1,
    PolicyGatedV1,
    PreemptionNoneV1,
    ReclaimOpenedV1,
)
from headrace.domain.model.job_states import JobState
from headrace.domain.state.search_backoff import BACKOFF_MAX
from headrace.simulate.world import World

TURNS = (HoldPlacedV1, HoldLiftedV1)
"""Units are kept, and after a rest kept again, for as long as a job waits (R16)."""
SEARCHES = (ReclaimOpenedV1, PreemptionNoneV1)
"""When units begin or cease to be kept, it may have become possible to reclaim, so each that may is looked at once more (R19)."""
SETTLED_AFTER = 10 * BACKOFF_MAX
"""One job searches after the other, each when the pool has rested."""
GROWTH = (GrowthRequestedV1, GrowthEndedV1)
"""Growth that failed is asked for again, after pauses that double (R38)."""


def unrest(history: list[Any], since: int, also: tuple[type, ...] = ()) -> list[Any]:
    """Facts stated after `since` that do not occur in a system at rest; a search without victims is one, if kept units have changed.

    What runs on uses up a budget some time, once (R33).
    """
    late = [stated for stated in history if stated.at > since]
    spent = [fact for stated in late for fact in stated.facts if isinstance(fact, PolicyGatedV1) and fact.spent]
    firsts = {(fact.tenant, fact.policy): id(fact) for fact in reversed(spent)}.values()
    turns = [stated.at for stated in history for fact in stated.facts if isinstance(fact, TURNS)]
    return [
        fact
        for stated in late
        for fact in stated.facts
        if not isinstance(fact, (*TURNS, *also))
        and id(fact) not in firsts
        and not (isinstance(fact, SEARCHES) and any(0 <= stated.at - turn <= SETTLED_AFTER for turn in turns))
    ]


def rested(scenario) -> World:
    """The world when nothing more happens in it."""
    world = World(scenario, judged=False)
    for _ in world.run():
        pass
    return world


def waiting(world):
    return [job for job in world.state.jobs.values() if job.state is JobState.PENDING]
