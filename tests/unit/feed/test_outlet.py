"""The way to FEED."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from nats import errors

from headrace.bus.log import LogUnavailable
from headrace.feed import outlet as module
from headrace.feed.facts_out import Outgoing
from headrace.feed.outlet import WINDOW, Outlet
from tests.patience import PATIENCE


class FakeFeed:
    """FEED behind a wire: drops what it has by message id. `trouble` are raised or answered by the next asks, in order."""

    def __init__(self, *trouble):
        self.stored = []
        self.asked = 0
        self._trouble = list(trouble)
        self._known = set()

    def _store(self, subject, headers):
        if headers["Nats-Msg-Id"] not in self._known:
            self._known.add(headers["Nats-Msg-Id"])
            self.stored.append(subject)

    async def publish(self, subject, payload=b"", reply="", headers=None):
        self._store(subject, headers)

    async def ask(self, subject, payload=b"", headers=None):
        self.asked += 1
        trouble = self._trouble.pop(0) if self._trouble else b'{"stream":"FEED","seq":1}'
        if isinstance(trouble, Exception):
            raise trouble
        self._store(subject, headers)
        return SimpleNamespace(data=trouble)


def messages(count, sequence=1):
    return [Outgoing(sequence, number, f"{sequence}.{number}", b"{}") for number in range(1, count + 1)]


@contextlib.asynccontextmanager
async def running(outlet):
    task = asyncio.create_task(outlet.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def emptied(outlet):
    async with asyncio.timeout(PATIENCE):
        while outlet.waiting:
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0)


async def test_messages_arrive_in_order_and_only_the_last_of_a_window_is_asked_about():
    feed = FakeFeed()
    outlet = Outlet(feed)
    outlet.put(messages(2 * WINDOW + 1))
    async with running(outlet):
        await emptied(outlet)
        outlet.put(messages(1, sequence=2))
        await emptied(outlet)
    assert feed.stored == [message.subject for message in [*messages(2 * WINDOW + 1), *messages(1, sequence=2)]]
    assert (feed.asked, outlet.published, outlet.dropped) == (4, 2 * WINDOW + 2, 0)


@pytest.mark.parametrize(
    "trouble",
    [
        LogUnavailable("away"),
        errors.OutboundBufferLimitError(),
        b"no JSON",
        b'{"error":{"code":503,"description":"no room"}}',
    ],
)
async def test_a_window_that_is_not_acknowledged_is_published_again(trouble):
    feed = FakeFeed(trouble, trouble)
    outlet = Outlet(feed)
    outlet.put(messages(5))
    async with running(outlet):
        await emptied(outlet)
    assert sorted(feed.stored) == [message.subject for message in messages(5)]
    assert (feed.asked, outlet.published) == (3, 5)


async def test_when_too_much_waits_the_oldest_is_dropped_and_counted():
    feed = FakeFeed()
    outlet = Outlet(feed, waiting_max=3)
    outlet.put(messages(5))
    outlet.put([])
    assert (outlet.waiting, outlet.dropped) == (3, 2)
    async with running(outlet):
        await emptied(outlet)
    assert feed.stored == ["1.3", "1.4", "1.5"]


async def test_what_is_dropped_while_it_is_on_its_way_is_let_go_of_once():
    outlet = Outlet(None, waiting_max=2)

    class Slow(FakeFeed):
        async def ask(self, subject, payload=b"", headers=None):
            if not self.asked:
                outlet.put(messages(2, sequence=2))
            return await super().ask(subject, payload, headers)

    feed = outlet._wire = Slow()
    outlet.put(messages(2))
    async with running(outlet):
        await emptied(outlet)
    assert feed.stored == ["1.1", "1.2", "2.1", "2.2"]
    assert outlet.dropped == 2
