from __future__ import annotations

import asyncio

from nats import errors

from headrace.bus import heartbeat
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.messages.queries import Presence
from headrace.contracts.transport.codec import decode


class Wire:
    """A connection that is away at first, and fails once."""

    def __init__(self):
        self.looked, self.published, self.enough = 0, [], asyncio.Event()

    @property
    def is_connected(self):
        self.looked += 1
        return self.looked > 1

    async def publish(self, subject, payload):
        self.published.append((subject, decode(payload, Presence)))
        if len(self.published) == 1:
            raise errors.ConnectionClosedError
        self.enough.set()


async def test_an_instance_says_again_and_again_that_it_is_there_and_at_last_goodbye(monkeypatch):
    monkeypatch.setattr(heartbeat, "EVERY", 0.0)
    wire = Wire()
    work = asyncio.create_task(heartbeat.announce(wire, "allocator", "allocator-standby"))
    await asyncio.wait_for(wire.enough.wait(), 10)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert [presence.leaves for _, presence in wire.published] == [False] * (len(wire.published) - 1) + [True]
    (first_on, first), (_, second) = wire.published[:2]
    assert (first_on, first.called, first.reads) == ("hr.presence.allocator", "allocator-standby", LEVEL)
    assert first == second
    assert first.service == "allocator"
