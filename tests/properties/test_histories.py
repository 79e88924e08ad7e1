"""Random histories through all rules at once: nothing is ever broken, and everything comes to rest (R31)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings

from headrace.contracts.durations import HOUR
from headrace.contracts.facts import CheckpointRegisteredV1
from headrace.domain.ledger import Ledger
from headrace.simulate.world import World
from tests.properties.auditor import Auditor
from tests.properties.histories import QUIET_AT, scenarios

HISTORIES = int(os.environ.get("HEADRACE_HISTORIES", "150"))


def play(scenario) -> World:
    world = World(scenario)
    for _ in world.run():
        pass
    return world


@settings(max_examples=HISTORIES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
def test_every_history_keeps_the_promises_and_comes_to_rest(scenario) -> None:
    world = play(scenario)
    records = world.log.messages_after(0)

    assert Auditor().read_all(records) == []
    late = [fact for stated in world.history for fact in stated.facts if stated.at > QUIET_AT - 6 * HOUR]
    assert [fact for fact in late if not isinstance(fact, CheckpointRegisteredV1)] == []
    assert [decider.decide(world.now) for decider in (world.admission, world.allocator, world.preemption)] == [(), (), ()]
