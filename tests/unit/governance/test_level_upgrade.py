from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

import pytest

from headrace.contracts.messages.queries import ApplyAnswer, Presence
from headrace.contracts.transport.codec import encode
from headrace.domain.state.state import State
from headrace.governance import level_upgrade
from headrace.governance.level_upgrade import HELD, HOLD, LevelUpgrade
from headrace.governance.levels import ServicePresence
from headrace.service.answering import Refused


class Bus:
    """Hears what is subscribed to; services say by it that they are there."""

    def __init__(self):
        self.callbacks = {}

    async def subscribe(self, subject, cb):
        self.callbacks[subject] = cb

    async def announce(self, service, reads, subject=""):
        presence = encode(Presence(service=service, called=service, instance=service, reads=reads))
        await self.callbacks["hr.presence.*"](SimpleNamespace(subject=subject or f"hr.presence.{service}", data=presence))


class Installation:
    """Its level is what the operations say that were decided."""

    def __init__(self, monkeypatch, expected=("feed",)):
        monkeypatch.setattr(level_upgrade, "POLL_EVERY", 0.001)
        self.bus, self.state, self.asked = Bus(), State(), 0
        self.raised, self.caught_up = asyncio.Event(), asyncio.Event()
        self.caught_up.set()
        deciding = SimpleNamespace(
            fold=SimpleNamespace(state=self.state),
            caught_up=self.caught_up,
            service=SimpleNamespace(connection=self.bus, environment=os.environ),
        )
        self.raising = LevelUpgrade(deciding, self.decided, expected, newest=2)

    async def decided(self, operation):
        self.asked += 1
        if self.asked == 1:
            raise Refused("UNAVAILABLE", "not now")
        for fact in operation(self.state, 0).facts:
            self.state.terms.level = fact.level
        self.raised.set()
        return ApplyAnswer(changes=(), applied=True)


async def test_the_level_is_raised_when_all_services_are_there_and_read_it_and_tried_again_where_that_failed(monkeypatch):
    one = Installation(monkeypatch)
    monkeypatch.setattr(level_upgrade, "ServicePresence", lambda expected, now: ServicePresence(expected, now - 60.0))
    assert one.raising.held_back() == ("it is not known yet who is there",)
    work = asyncio.create_task(one.raising.run())
    while not one.bus.callbacks:
        await asyncio.sleep(0)
    await one.bus.callbacks["hr.presence.*"](SimpleNamespace(subject="hr.presence.feed", data=b"nonsense"))
    await one.bus.announce("feed", 2, subject="hr.presence.audit")
    assert one.raising.held_back() == ("feed is not there",)
    await one.bus.announce("feed", 2)
    await asyncio.wait_for(one.raised.wait(), 10)
    assert (one.state.terms.level, one.asked, one.raising.held_back()) == (2, 2, ())
    work.cancel()


async def test_in_a_new_installation_it_is_raised_at_the_first_announcement_of_the_last_service(monkeypatch):
    one = Installation(monkeypatch, ("audit", "feed"))
    one.asked = 1  # the first one would be refused
    work = asyncio.create_task(one.raising.run())
    while not one.bus.callbacks:
        await asyncio.sleep(0)
    monkeypatch.setattr(level_upgrade, "POLL_EVERY", 60.0)
    await one.bus.announce("feed", 2)
    assert one.raising.held_back() == ("it is not known yet who is there",)
    await one.bus.announce("audit", 2)
    await asyncio.wait_for(one.raised.wait(), 10)
    assert (one.state.terms.level, one.raising.held_back()) == (2, ())
    work.cancel()


@pytest.mark.parametrize("held", ["1", "0"])
async def test_an_operator_may_keep_it_where_it_is(monkeypatch, held):
    monkeypatch.setenv(HOLD, held)
    obstacles = Installation(monkeypatch).raising.held_back()
    assert (HELD in obstacles) is (held == "1")
