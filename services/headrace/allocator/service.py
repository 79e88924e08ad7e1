"""The allocator on the bus: nothing but its decider in the one service loop."""

from __future__ import annotations

from headrace.allocator.decide import Allocator
from headrace.bus.process import Service
from headrace.contracts.facts.writers import ALLOCATOR
from headrace.service.deciding import Deciding


async def main(service: Service) -> None:
    """Run until cancelled."""
    await (await Deciding.begin(service, ALLOCATOR, Allocator)).run()
