"""The allocator on the bus: its decider in the service loop."""

from __future__ import annotations

from headrace.allocator.decide import Allocator
from headrace.bus.process import Service
from headrace.contracts.facts.writers import ALLOCATOR
from headrace.service.deciding import Deciding


async def main(service: Service) -> None:
    await (await Deciding.begin(service, ALLOCATOR, Allocator)).run()
