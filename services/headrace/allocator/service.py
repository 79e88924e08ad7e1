"""The allocator on the bus: its decider in the service loop."""

from __future__ import annotations

from headrace.allocator.decide import Allocator
from headrace.bus.process import Service
from headrace.contracts.facts.writers import ALLOCATOR
from headrace.service.deciding import Deciding
from headrace.service.hosting import LedgerFollower, Part, Work


async def prepare(service: Service, follower: LedgerFollower) -> Work:
    return Deciding(service, follower, ALLOCATOR, Allocator).run


PART = Part(prepare)
