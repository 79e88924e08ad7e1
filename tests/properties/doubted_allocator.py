"""An allocator whose decisions are decided again from the records alone."""

from __future__ import annotations

from headrace.allocator.decide import Allocator
from headrace.contracts.facts.writers import ALLOCATOR
from headrace.domain.fold.ledger import FoldedLedger
from headrace.simulate.world import World


class DoubtedAllocator:
    """An allocator whose every decision is decided again by one that remembers nothing, on a state folded from the records."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.trusted = world.deciders[ALLOCATOR]
        self.ledger = FoldedLedger()
        self.asked = 0
        world.deciders[ALLOCATOR] = self

    def decide(self, now: int):
        self.asked += 1
        for message in self.world.log.messages_after(self.ledger.sequence):
            self.ledger.read(message)
        decided = self.trusted.decide(now)
        self.ledger.state.pass_time(now)
        assert Allocator(self.ledger.state).decide(now) == decided
        return decided

    def next_wakeup(self) -> int | None:
        return self.trusted.next_wakeup()
