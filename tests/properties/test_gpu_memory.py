"""Jobs that ask for GPU memory (R42): each gets what it asks for, everything comes to rest, and no share is passed over."""

from __future__ import annotations

from hypothesis import given

from headrace.contracts.facts import CheckpointRegisteredV1
from headrace.contracts.facts.writers import ALLOCATOR, PREEMPTION
from headrace.contracts.values.durations import HOUR
from headrace.domain.explain.wait_reasons import pools_of, wait_in
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.state.trial import Trial
from headrace.simulate.world import World
from tests.properties.auditor import Auditor
from tests.properties.campaign import histories
from tests.properties.checked_histories import Checked, play
from tests.properties.doubted_allocator import DoubtedAllocator
from tests.properties.histories import QUIET_AT
from tests.properties.memory import of_memory
from tests.properties.oracle_watch import compiled, watch
from tests.properties.rest import GROWTH, rested, unrest, waiting
from tests.properties.unchanged import hold_unchanged
from tests.unit.domain.snapshot import differences, snapshot


@histories()
@given(of_memory())
def test_every_history_with_gpu_memory_keeps_the_promises_and_comes_to_rest(scenario) -> None:
    world = play(Checked(scenario, judged=False))

    assert Auditor().read_all(world.log.messages_after(0)) == []
    assert unrest(world.history, QUIET_AT - 6 * HOUR, also=(CheckpointRegisteredV1, *GROWTH)) == []
    assert [
        decider.decide(world.now) for decider in (world.admission, world.deciders[ALLOCATOR], world.deciders[PREEMPTION])
    ] == [(), (), ()]


@compiled
@histories(one_in=2)
@given(of_memory())
def test_every_round_with_gpu_memory_grants_what_a_look_at_everything_would(scenario) -> None:
    watch(scenario)


@histories(one_in=2)
@given(of_memory())
def test_decisions_with_gpu_memory_depend_on_nothing_but_the_records(scenario) -> None:
    world, ledger = World(scenario, judged=False), FoldedLedger()
    unchanged, doubted = hold_unchanged(world), DoubtedAllocator(world)

    play(world)
    for message in world.log.messages_after(0):
        ledger.read(message)

    assert doubted.asked
    assert all(decider.asked for decider in unchanged)
    assert differences(snapshot(ledger.state), snapshot(world.state)) == []


@histories()
@given(of_memory())
def test_at_rest_something_is_in_the_way_of_every_share_of_every_job(scenario) -> None:
    world = rested(scenario)
    for job in waiting(world):
        for request in job.request.each:
            for pool in pools_of(world.state, job):
                with Trial(world.state) as trial:
                    trial.choose(job, request)
                    assert wait_in(world.state, job, pool, world.now) is not None, (job.key, request.shape, pool.document.name)
