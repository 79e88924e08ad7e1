"""The way to FEED."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from nats import errors

from headrace.bus.log import LogUnavailable
from headrace.bus.loop import Fenced
from headrace.bus.memory import MemoryLog
from headrace.feed import publisher as module
from headrace.feed.outgoing_message import FeedMessage
from headrace.feed.publisher import WINDOW, Publisher
from tests.patience import PATIENCE

LARGEST = 10
LOST_ANSWER = b"lost"


class FakeFeed(MemoryLog):
    """FEED and the wire to it. `trouble` are raised or answered by the next asks, in order, in place of what FEED would say."""

    def __init__(self, *trouble):
        super().__init__(lambda: 0, begins_late=True)
        self.asked = 0
        self.ids = {}
        self.lost = set()
        """Subjects that do not arrive the first time."""
        self.trouble = list(trouble)

    @property
    def stored(self):
        return [message.subject for message in self.messages_after(0)]

    def _store(self, subject, payload, headers):
        if subject in self.lost:
            self.lost.discard(subject)
            return b'{"error":{"err_code":503,"description":"lost"}}'
        if (known := self.ids.get(headers["Nats-Msg-Id"])) is not None:
            return b'{"stream":"FEED","seq":%d,"duplicate":true}' % known
        if int(headers["Nats-Expected-Last-Sequence"]) != self.last_sequence:
            return b'{"error":{"err_code":10071,"description":"wrong last sequence"}}'
        if len(payload) > LARGEST:
            return b'{"error":{"err_code":10054,"description":"message size exceeds maximum allowed"}}'
        sequence = self.ids[headers["Nats-Msg-Id"]] = self.append_now(subject, payload, None)
        return b'{"stream":"FEED","seq":%d}' % sequence

    async def publish(self, subject, payload=b"", reply="", headers=None):
        self._store(subject, payload, headers)

    async def ask(self, subject, payload=b"", headers=None):
        self.asked += 1
        trouble = self.trouble.pop(0) if self.trouble else None
        if isinstance(trouble, Exception):
            raise trouble
        answer = self._store(subject, payload, headers)
        if trouble is LOST_ANSWER:
            raise LogUnavailable("no answer")
        return SimpleNamespace(data=trouble or answer)


def begun(feed, **more):
    publisher = Publisher(feed, feed, **more)
    publisher.begin(feed.last_sequence)
    return publisher


def messages(count, sequence=1):
    return [FeedMessage(sequence, number, f"{sequence}.{number}", b"{}") for number in range(1, count + 1)]


@contextlib.asynccontextmanager
async def running(publisher):
    task = asyncio.create_task(publisher.run())
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def emptied(publisher):
    async with asyncio.timeout(PATIENCE):
        while publisher.waiting:
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0)


async def test_messages_arrive_in_order_and_only_the_last_of_a_window_is_asked_about():
    feed = FakeFeed()
    publisher = begun(feed)
    publisher.put(messages(2 * WINDOW + 1))
    async with running(publisher):
        await emptied(publisher)
        publisher.put(messages(1, sequence=2))
        await emptied(publisher)
    assert feed.stored == [message.subject for message in [*messages(2 * WINDOW + 1), *messages(1, sequence=2)]]
    assert (feed.asked, publisher.published, publisher.dropped) == (4, 2 * WINDOW + 2, 0)


@pytest.mark.parametrize(
    "trouble",
    [
        LogUnavailable("away"),
        errors.OutboundBufferLimitError(),
        LOST_ANSWER,
        b"no JSON",
        b'{"error":{"code":503,"description":"no room"}}',
    ],
)
async def test_a_window_that_is_not_acknowledged_is_published_again(trouble):
    feed = FakeFeed(trouble, trouble)
    publisher = begun(feed)
    publisher.put(messages(5))
    async with running(publisher):
        await emptied(publisher)
    assert feed.stored == [message.subject for message in messages(5)]
    assert publisher.published == 5


async def test_when_too_much_waits_the_oldest_is_dropped_and_counted():
    feed = FakeFeed()
    publisher = begun(feed, waiting_max=3)
    publisher.put(messages(5))
    publisher.put([])
    assert (publisher.waiting, publisher.dropped) == (3, 2)
    async with running(publisher):
        await emptied(publisher)
    assert feed.stored == ["1.3", "1.4", "1.5"]


async def test_what_is_dropped_while_it_is_on_its_way_is_let_go_of_once():
    class Slow(FakeFeed):
        async def ask(self, subject, payload=b"", headers=None):
            if not self.asked:
                publisher.put(messages(2, sequence=2))
            return await super().ask(subject, payload, headers)

    feed = Slow()
    publisher = begun(feed, waiting_max=2)
    publisher.put(messages(2))
    async with running(publisher):
        await emptied(publisher)
    assert feed.stored == ["1.1", "1.2", "2.1", "2.2"]
    assert publisher.dropped == 2


async def test_nothing_is_told_before_it_is_known_where_feed_ends():
    feed = FakeFeed()
    feed.append_now("before", b"{}", None)
    publisher = Publisher(feed, feed)
    publisher.put(messages(2))
    async with running(publisher):
        for _ in range(5):
            await asyncio.sleep(0)
        assert (feed.stored, publisher.waiting) == (["before"], 2)
        publisher.begin(1)
        await emptied(publisher)
    assert feed.stored == ["before", "1.1", "1.2"]


async def test_none_is_missing_where_one_in_the_middle_did_not_arrive():
    feed = FakeFeed()
    feed.lost = {"1.3"}
    publisher = begun(feed)
    publisher.put(messages(5))
    async with running(publisher):
        await emptied(publisher)
    assert feed.stored == ["1.1", "1.2", "1.3", "1.4", "1.5"]


async def test_a_server_that_has_lost_its_memory_is_told_what_it_has_not_acknowledged():
    feed = FakeFeed()
    publisher = begun(feed)
    publisher.put(messages(3))
    async with running(publisher):
        await emptied(publisher)
        feed.__init__()
        publisher.put(messages(2, sequence=2))
        await emptied(publisher)
    assert feed.stored == ["2.1", "2.2"]


@pytest.mark.parametrize("theirs", [["1.1", "1.2", "1.3"], ["9.1", "9.2"]])
async def test_one_who_slept_while_another_took_over_tells_nothing_and_is_deposed(theirs):
    feed = FakeFeed()
    publisher = begun(feed)
    publisher.put(messages(2))
    for subject in theirs:
        feed.append_now(subject, b"{}", None)
    async with running(publisher) as task:
        with pytest.raises(Fenced, match="another instance publishes on FEED"):
            await asyncio.wait_for(task, PATIENCE)
    assert feed.stored == theirs


async def test_what_feed_has_already_is_passed_over_and_the_rest_is_told():
    feed = FakeFeed()
    for batch in ([*messages(3), FeedMessage(1, 4, "head", b"{}")], messages(3), [*messages(3), *messages(2, sequence=2)]):
        publisher = begun(feed)
        publisher.put(batch)
        async with running(publisher):
            await emptied(publisher)
    assert feed.stored == ["1.1", "1.2", "1.3", "head", "2.1", "2.2"]


async def test_one_of_several_servers_that_leads_no_more_is_not_believed():
    class Behind(FakeFeed):
        doubt = 60.0
        asked = 0

        async def tip(self):
            self.asked += 1
            return 1 if self.asked < 3 else self.last_sequence

    feed = Behind()
    publisher = begun(feed)
    publisher.put(messages(2))
    async with running(publisher):
        await emptied(publisher)
        feed.trouble = [LogUnavailable("no leader")]
        publisher.put(messages(2, sequence=2))
        await emptied(publisher)
    assert feed.stored == ["1.1", "1.2", "2.1", "2.2"]


async def test_a_message_that_feed_would_never_take_is_left_out_and_counted():
    feed = FakeFeed()
    publisher = begun(feed)
    large = FeedMessage(1, 2, "large", b"." * (LARGEST + 1))
    publisher.put([messages(1)[0], large, *messages(2, sequence=2)])
    publisher.put([large._replace(sequence=3)])
    async with running(publisher):
        await emptied(publisher)
    assert (feed.stored, publisher.dropped) == (["1.1", "2.1", "2.2"], 2)
