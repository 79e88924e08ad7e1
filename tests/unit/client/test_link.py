"""Questions end: with an answer, with a refusal, or with the news that nobody answers."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest
from nats import errors

from headrace.client import link as module
from headrace.client.endpoint import ConnectionTarget, Login
from headrace.client.errors import Refused, Unreachable
from headrace.client.link import Link

DOOR = ConnectionTarget("nats://127.0.0.1:1", Login(name="alice", password="secret", tenant="acme", user="alice"))


class FakeNats:
    """nats-py's client as far as a link uses it; `answer` gives or raises what a request comes to."""

    def __init__(self, answer=None, refuse_to_open=None):
        self.answer = answer
        self.refuse_to_open = refuse_to_open
        self.options = {}
        self.max_payload = 100
        self.is_closed = False
        self.asked = []
        self.subscribed = []

    async def connect(self, servers, **options):
        self.options = {"servers": servers, **options}
        if self.refuse_to_open:
            raise self.refuse_to_open

    async def close(self):
        self.is_closed = True

    async def request(self, subject, payload, timeout, headers=None):  # noqa: ASYNC109 - nats-py's own signature
        self.asked.append((subject, payload, headers))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        return SimpleNamespace(data=self.answer)

    async def subscribe(self, subject, cb):
        self.subscribed.append(subject)
        self.hear = cb
        return SimpleNamespace(unsubscribe=self._unsubscribe)

    async def flush(self):
        await asyncio.sleep(0)

    async def _unsubscribe(self):
        self.subscribed.pop()


async def test_of_several_servers_each_is_tried_until_one_lets_us_in(monkeypatch):
    tried = []

    class Dead(FakeNats):
        async def connect(self, servers, **options):
            tried.append(servers[0])
            if len(tried) < 3:
                raise TimeoutError
            await super().connect(servers, **options)

    monkeypatch.setattr("headrace.client.link.ReconnectingClient", Dead)
    named = ["nats://a:1", "nats://b:2", "nats://c:3"]
    link = Link(DOOR._replace(url=",".join(named)))
    await link.open()
    assert sorted(tried) == named
    tried[:] = []
    monkeypatch.setattr("headrace.client.link.ReconnectingClient", lambda: FakeNats(refuse_to_open=TimeoutError()))
    with pytest.raises(Unreachable, match="does not answer"):
        await Link(DOOR._replace(url=",".join(named))).open()


def linked(nats):
    link = Link(DOOR)
    link._nats = nats
    return link


async def test_a_link_opens_with_its_login_and_its_own_inbox_and_then_repairs_itself():
    nats = FakeNats()
    await linked(nats).open()
    said = {
        key: nats.options[key]
        for key in ("servers", "user", "password", "inbox_prefix", "allow_reconnect", "max_reconnect_attempts")
    }
    assert said == {
        "servers": ["nats://127.0.0.1:1"],
        "user": "alice",
        "password": "secret",
        "inbox_prefix": "_INBOX_alice",
        "allow_reconnect": True,
        "max_reconnect_attempts": -1,
    }


@pytest.mark.parametrize(
    ("trouble", "kind", "message"),
    [
        (errors.NoServersError(), Unreachable, "NATS at nats://127.0.0.1:1 does not answer. Is Headrace up"),
        (ConnectionRefusedError(), Unreachable, "does not answer"),
        (ssl.SSLCertVerificationError(1, "no"), Unreachable, "shows a certificate that is not trusted here: set HEADRACE_CA"),
        (errors.Error("nats: 'Authorization Violation'"), Refused, "does not let 'alice' in"),
    ],
)
async def test_a_link_that_does_not_open_says_why(trouble, kind, message):
    nats = FakeNats(refuse_to_open=trouble)
    with pytest.raises(kind, match=message):
        await linked(nats).open()
    assert nats.is_closed


async def test_a_question_is_answered_and_carries_its_headers():
    nats = FakeNats(b"yes")
    assert await linked(nats).ask("hr.query.feed.jobs.acme.alice", b"{}", {"Nats-Msg-Id": "1"}) == b"yes"
    assert nats.asked == [("hr.query.feed.jobs.acme.alice", b"{}", {"Nats-Msg-Id": "1"})]


@pytest.mark.parametrize(
    ("trouble", "kind", "message"),
    [
        (errors.NoRespondersError(), Unreachable, "no service listens on hr.x; `headrace status` tells"),
        (errors.TimeoutError(), Unreachable, "no answer on hr.x: nothing within 3 s"),
        (errors.ConnectionClosedError(), Unreachable, "no answer on hr.x: connection closed"),
        (errors.MaxPayloadError(), Refused, "a message of 3 bytes is too large; NATS accepts 100"),
    ],
)
async def test_a_question_without_an_answer_says_what_happened(trouble, kind, message):
    with pytest.raises(kind, match=message):
        await linked(FakeNats(trouble)).ask("hr.x", b"abc", within=3)


async def test_a_link_that_is_let_in_no_more_gives_up_after_a_while_and_not_before(monkeypatch):
    nats, now = FakeNats(), [100.0]
    link = linked(nats)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    complaint = errors.Error("nats: 'Authorization Violation'")
    for now[0] in (100.0, 120.0, 130.0):
        await link._on_error(complaint)
    await link._on_reconnected()
    for now[0] in (131.0, 160.0, 161.0):
        await link._on_error(complaint)
    assert link._closing is None
    now[0] = 161.5
    await link._on_error(complaint)
    await link._closing
    assert nats.is_closed


async def test_a_complaint_about_a_subject_is_the_answer_to_whoever_asked_there_and_to_nobody_else():
    link = linked(FakeNats())
    mine = asyncio.create_task(link.ask("hr.submit.acme.Bob.a.b"))
    other = asyncio.create_task(link.ask("hr.submit.acme.alice.a.b"))
    await asyncio.sleep(0)
    await link._on_error(errors.Error('nats: permissions violation for publish to "hr.submit.acme.bob.a.b"'))
    with pytest.raises(Refused, match=r"the login 'alice' may not publish on hr\.submit\.acme\.Bob\.a\.b") as caught:
        await mine
    assert caught.value.code == "NOT_ALLOWED"
    assert not other.done()
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)


async def test_what_is_said_on_a_subject_is_heard_over_a_connection_of_its_own_until_one_stops_listening(monkeypatch):
    nats, asking = FakeNats(), FakeNats()
    link = linked(asking)
    monkeypatch.setattr(module, "ReconnectingClient", lambda: nats)
    async with link.listening("hr.feed.acme.>") as heard:
        assert (nats.options["user"], nats.options["password"], asking.subscribed) == ("alice_feed", "secret", [])
        await nats.hear(SimpleNamespace(subject="hr.feed.acme.job.ended.x", data=b"{}"))
        assert nats.subscribed == ["hr.feed.acme.>"]
        assert await heard.get() == ("hr.feed.acme.job.ended.x", b"{}")
    assert nats.subscribed == []
    await link.close()
    assert (nats.is_closed, asking.is_closed) == (True, True)


async def test_more_than_a_connection_may_subscribe_to_is_heard_over_another(monkeypatch):
    monkeypatch.setattr(module, "FEED_SUBSCRIPTIONS", 2)
    link, opened = linked(FakeNats()), []

    def wire():
        opened.append(FakeNats())
        return opened[-1]

    monkeypatch.setattr(module, "ReconnectingClient", wire)
    async with AsyncExitStack() as stack:
        for name in "abc":
            await stack.enter_async_context(link.listening(name))
        assert [one.subscribed for one in opened] == [["a", "b"], ["c"]]
    async with link.listening("d"):
        assert [one.subscribed for one in opened] == [["d"], []]


async def test_a_slow_listener_hears_the_newest(monkeypatch):
    monkeypatch.setattr(module, "PENDING_MAX", 2)
    nats = FakeNats()
    link = linked(FakeNats())
    monkeypatch.setattr(module, "ReconnectingClient", lambda: nats)
    async with link.listening("hr.feed.acme.>") as heard:
        for data in (b"1", b"2", b"3"):
            await nats.hear(SimpleNamespace(subject="s", data=data))
        assert [heard.get_nowait(), heard.get_nowait(), heard.empty()] == [("s", b"2"), ("s", b"3"), True]


async def test_closing_twice_does_no_harm():
    nats = FakeNats()
    link = linked(nats)
    await link.close()
    await link.close()
    assert nats.is_closed
