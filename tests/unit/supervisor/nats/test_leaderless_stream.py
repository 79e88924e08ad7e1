"""When FEED is made anew, and when it is not."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from headrace.bus.log import LogRefused, LogUnavailable
from headrace.bus.nats.streams import STREAMS
from headrace.supervisor.nats import leaderless_stream
from headrace.supervisor.nats.leaderless_stream import MADE_ANEW, WAITS_FOR, Leaderless

FEED = STREAMS["FEED"] | {"name": "FEED", "num_replicas": 3}
MISSING = {"error": {"err_code": 10059, "description": "stream not found"}}
TOO_FEW = {"error": {"err_code": 10005, "description": "no suitable peers for placement"}}


class Servers:
    """Three of them: whether LEDGER and FEED are led, what FEED is, what they answer to who would write it; and the time."""

    def __init__(self):
        self.ledger_led = self.feed_led = self.reached = self.feed_answers = True
        self.feed = dict(FEED)
        self.refusals = {}
        self.deletes_late = False
        self.written, self.messages = [], []
        self.now = 100.0
        self.leaderless = Leaderless(self, 3, self.messages.append, lambda: self.now)

    async def ask(self, subject, payload=b""):
        *_, what, stream = subject.split(".")
        if not self.reached or (what == "INFO" and stream == "FEED" and not self.feed_answers):
            raise LogUnavailable("no answer")
        if what == "INFO":
            return self.answer(self.described(stream))
        config = json.loads(payload or b"{}")
        self.written.append((what, config.get("num_replicas")))
        if (what, config.get("num_replicas")) in self.refusals:
            return self.answer(self.refusals[what, config["num_replicas"]])
        if what == "DELETE":
            self.feed = self.feed if self.deletes_late else None
            raise LogUnavailable("nobody leads it who would answer")
        self.feed = config
        return self.answer({"config": config})

    def described(self, stream):
        led = self.ledger_led if stream == "LEDGER" else self.feed_led
        config = {"num_replicas": 3} if stream == "LEDGER" else self.feed
        return MISSING if config is None else {"config": config, "cluster": {"leader": "headrace-1"} if led else {}}

    @staticmethod
    def answer(fields):
        return SimpleNamespace(data=json.dumps(fields).encode())

    async def for_seconds(self, seconds):
        """Look now, and then each second."""
        await self.leaderless.ensure_led()
        for _ in range(int(seconds)):
            self.now += 1
            await self.leaderless.ensure_led()


@pytest.fixture
def servers():
    return Servers()


ANEW = [("DELETE", None), ("CREATE", 3)]


async def test_feed_that_is_led_is_left_alone(servers):
    await servers.for_seconds(10 * WAITS_FOR)
    assert (servers.written, servers.messages) == ([], [])


async def test_a_feed_without_a_leader_while_the_ledger_is_led_is_made_anew_and_that_is_said_once_it_is_led(servers):
    servers.feed_led = False
    await servers.for_seconds(WAITS_FOR - 1)
    assert servers.written == []
    await servers.for_seconds(1)
    assert (servers.written, servers.feed, servers.messages) == (ANEW, FEED, [])
    servers.feed_led = True
    await servers.for_seconds(2)
    assert (servers.written, servers.messages) == (ANEW, [MADE_ANEW])


async def test_feed_that_is_led_again_in_time_has_all_the_time_again(servers):
    servers.feed_led = False
    await servers.for_seconds(WAITS_FOR - 1)
    servers.feed_led = True
    await servers.for_seconds(1)
    servers.feed_led = False
    await servers.for_seconds(WAITS_FOR - 1)
    assert servers.written == []


@pytest.mark.parametrize("what", ["ledger_led", "reached"])
async def test_servers_that_have_not_agreed_or_are_not_reached_are_waited_for_and_then_feed_has_all_the_time_again(
    servers, what
):
    servers.feed_led = False
    setattr(servers, what, False)
    await servers.for_seconds(10 * WAITS_FOR)
    setattr(servers, what, True)
    await servers.for_seconds(WAITS_FOR - 1)
    assert servers.written == []
    await servers.for_seconds(1)
    assert servers.written == ANEW


async def test_a_feed_without_any_report_is_not_deleted(servers):
    servers.feed_led = servers.feed_answers = False
    await servers.for_seconds(10 * WAITS_FOR)
    assert servers.written == []


async def test_feed_is_made_when_it_is_gone_and_not_before(servers):
    servers.feed_led, servers.deletes_late = False, True
    await servers.for_seconds(WAITS_FOR)
    assert servers.written == [("DELETE", None)]
    await servers.for_seconds(3)
    assert servers.written == [("DELETE", None)]
    servers.feed = None
    await servers.for_seconds(0)
    assert servers.written == ANEW


async def test_feed_that_is_missing_is_made_by_the_one_that_starts_and_after_a_while_here(servers):
    servers.feed = None
    await servers.for_seconds(WAITS_FOR - 1)
    assert servers.written == []
    await servers.for_seconds(1)
    assert servers.written == ANEW


async def test_what_has_been_made_anew_has_all_the_time_for_a_leader_before_it_is_made_anew_once_more(servers):
    servers.feed_led = False
    await servers.for_seconds(2 * WAITS_FOR - 1)
    assert servers.written == ANEW
    await servers.for_seconds(1)
    assert servers.written == [*ANEW, *ANEW]


async def test_two_copies_do_while_there_are_no_servers_for_three_and_the_third_is_made_when_there_is(servers):
    servers.feed_led = False
    servers.refusals = {("CREATE", 3): TOO_FEW, ("UPDATE", 3): TOO_FEW}
    await servers.for_seconds(WAITS_FOR)
    assert (servers.written, servers.feed["num_replicas"]) == ([*ANEW, ("CREATE", 2)], 2)
    servers.feed_led = True
    await servers.for_seconds(1)
    assert servers.feed["num_replicas"] == 2
    servers.refusals = {}
    await servers.for_seconds(1)
    assert (servers.feed["num_replicas"], servers.written[-1]) == (3, ("UPDATE", 3))


async def test_it_is_looked_again_after_whatever_the_servers_refuse(servers, monkeypatch):
    looked = asyncio.Event()

    async def ensure_led(_self):
        if waited:
            looked.set()
        waited.append(1)
        raise LogRefused("no")

    waited = []
    monkeypatch.setattr(leaderless_stream, "LOOK_EVERY", 0)
    monkeypatch.setattr(Leaderless, "ensure_led", ensure_led)
    watching = asyncio.create_task(servers.leaderless.watch())
    await looked.wait()
    watching.cancel()


async def test_who_waits_for_a_leader_goes_on_when_there_is_one_and_is_told_if_none_comes(servers, monkeypatch):
    monkeypatch.setattr(leaderless_stream, "LOOK_EVERY", 0)
    await servers.leaderless.until_led()
    servers.feed_led = False
    monkeypatch.setattr(leaderless_stream, "WAITS_FOR", 0)
    with pytest.raises(LogUnavailable, match="FEED has no leader: are most of the NATS servers there"):
        await servers.leaderless.until_led(patience=-1)
