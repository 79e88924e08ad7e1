"""Random histories through all rules at once: nothing is ever broken, and everything comes to rest (R31)."""

from __future__ import annotations

from hypothesis import given

from headrace.contracts.facts import CheckpointRegisteredV1
from headrace.contracts.facts.writers import ALLOCATOR, PREEMPTION
from headrace.contracts.values.durations import HOUR
from headrace.domain.fold.ledger import FoldedLedger
from headrace.simulate.world import World
from tests.properties.auditor import Auditor
from tests.properties.campaign import histories
from tests.properties.checked_histories import Checked, play
from tests.properties.doubted_allocator import DoubtedAllocator
from tests.properties.histories import QUIET_AT, scenarios
from tests.properties.rest import GROWTH, unrest
from tests.properties.unchanged import hold_unchanged
from tests.unit.domain.snapshot import differences, snapshot


@histories()
@given(scenarios())
def test_every_history_keeps_the_promises_and_comes_to_rest(scenario) -> None:
    world = play(Checked(scenario, judged=False))

    assert Auditor().read_all(world.log.messages_after(0)) == []
    assert unrest(world.history, QUIET_AT - 6 * HOUR, also=(CheckpointRegisteredV1, *GROWTH)) == []
    assert [
        decider.decide(world.now) for decider in (world.admission, world.deciders[ALLOCATOR], world.deciders[PREEMPTION])
    ] == [(), (), ()]


@histories()
@given(scenarios())
def test_the_same_history_gives_the_same_bytes_and_its_records_the_same_state(scenario) -> None:
    first, second, ledger = play(World(scenario, judged=False)), play(World(scenario, judged=False)), FoldedLedger()

    for message in first.log.messages_after(0):
        ledger.read(message)

    assert first.log.messages_after(0) == second.log.messages_after(0)
    assert differences(snapshot(ledger.state), snapshot(first.state)) == []


@histories(one_in=5)
@given(scenarios())
def test_a_decision_changes_nothing_and_depends_on_nothing_but_the_records(scenario) -> None:
    world = World(scenario, judged=False)
    unchanged, doubted = hold_unchanged(world), DoubtedAllocator(world)

    play(world)

    assert doubted.asked
    assert all(decider.asked for decider in unchanged)
