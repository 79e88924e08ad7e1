"""A snapshot is as good as the records before it: a service that begins with one sees and decides the same, to the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.allocator.decide import Allocator
from headrace.contracts.facts.writers import ALLOCATOR, PREEMPTION
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.snapshots.snapshot import copy_of, dump, load
from headrace.preemption.decide import PreemptionWatch
from headrace.simulate.world import World
from tests.properties.campaign import histories
from tests.properties.histories import scenarios
from tests.unit.domain.snapshot import differences, kept, naive, snapshot


def play(world: World) -> World:
    for _ in world.run():
        pass
    return world


@histories(one_in=3)
@given(scenarios(), st.randoms(use_true_random=False))
def test_the_fold_of_a_snapshot_and_the_tail_is_the_fold_of_everything(scenario, random) -> None:
    world = play(World(scenario, judged=False))
    messages = world.log.messages_after(0)
    cut = random.randint(0, len(messages))
    ledger = FoldedLedger()
    for message in messages[:cut]:
        ledger.read(message)

    copied, loaded = FoldedLedger(copy_of(ledger.state)), FoldedLedger(load(dump(ledger.state)))
    for message in messages[cut:]:
        copied.read(message)
        loaded.read(message)

    for resumed in (copied.state, loaded.state):
        assert differences(snapshot(resumed), snapshot(world.state)) == []
        assert differences(kept(resumed), naive(resumed)) == []
    assert dump(copied.state) == dump(loaded.state) == dump(world.state)


class Restarted:
    """A decider that is held, at every decision, against one that begins with a snapshot, and one that begins with a copy."""

    def __init__(self, world: World, by: str, kind) -> None:
        self.world, self.trusted, self.kind, self.asked = world, world.deciders[by], kind, 0
        world.deciders[by] = self

    def decide(self, now: int):
        self.asked += 1
        before = dump(self.world.state)
        decided = self.trusted.decide(now)
        for state in (load(before), copy_of(self.world.state)):
            state.pass_time(now)
            assert self.kind(state).decide(now) == decided
        return decided

    def next_wakeup(self) -> int | None:
        return self.trusted.next_wakeup()


@histories(one_in=10)
@given(scenarios())
def test_who_begins_with_a_snapshot_or_a_copy_decides_the_same(scenario) -> None:
    world = World(scenario, judged=False)
    restarted = Restarted(world, ALLOCATOR, Allocator), Restarted(world, PREEMPTION, PreemptionWatch)

    play(world)

    assert all(decider.asked for decider in restarted)
