"""Questions end: with an answer, with a refusal, or with the news that no answer comes."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack

import pytest
from nats import errors

from headrace.client import link as module
from headrace.client.endpoint import ConnectionTarget, Login
from headrace.client.errors import Refused, Unreachable
from headrace.client.link import Link
from headrace.nats_client.raw_message import RawMessage
from tests.unit.nats_client.wired import Wired, answered

DOOR = ConnectionTarget("nats://127.0.0.1:1", Login(name="alice", password="secret", tenant="acme", user="alice"))


@pytest.fixture
def troubles() -> list[Exception]:
    """What the next tries to connect fail with."""
    return []


@pytest.fixture
def dialled(monkeypatch, troubles) -> list[Wired]:
    """Every connection that links make, in their order."""
    made: list[Wired] = []

    def dial(observer, *, keeps_requests):
        made.append(Wired(observer, keeps_requests=keeps_requests))
        made[-1].troubles = troubles
        return made[-1]

    monkeypatch.setattr(module, "Connection", dial)
    return made


@pytest.fixture
async def link(dialled) -> Link:
    one = Link(DOOR)
    await one.open()
    return one


@pytest.fixture
def nats(link, dialled) -> Wired:
    """What the link asks over."""
    return dialled[0]


async def test_of_several_servers_each_is_tried_until_one_lets_us_in(dialled, troubles):
    named = ["nats://a:1", "nats://b:2", "nats://c:3"]
    troubles[:] = [TimeoutError(), TimeoutError()]
    await Link(DOOR._replace(url=",".join(named))).open()
    assert sorted(connection.options["servers"][0] for connection in dialled) == named
    troubles[:] = [TimeoutError() for _ in named]
    with pytest.raises(Unreachable, match="does not answer"):
        await Link(DOOR._replace(url=",".join(named))).open()


async def test_a_link_opens_with_its_login_and_its_own_inbox_and_then_repairs_itself(link, nats):
    login = {
        key: nats.options[key]
        for key in ("servers", "user", "password", "inbox_prefix", "allow_reconnect", "max_reconnect_attempts")
    }
    assert login == {
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
async def test_a_link_that_does_not_open_says_why(dialled, troubles, trouble, kind, message):
    troubles.append(trouble)
    with pytest.raises(kind, match=message):
        await Link(DOOR).open()
    assert dialled[0].is_closed


async def test_a_question_is_answered_and_carries_its_headers(link, nats):
    subject = "hr.query.feed.jobs.acme.alice"
    nats.answers[subject] = answered(b"yes")
    assert await link.ask(subject, b"{}", {"Nats-Msg-Id": "1"}) == b"yes"
    ((asked, payload, _, headers),) = nats.sent
    assert (asked, payload, headers) == (subject, b"{}", {"Nats-Msg-Id": "1"})


@pytest.mark.parametrize(
    ("trouble", "kind", "message"),
    [
        (errors.ConnectionClosedError(), Unreachable, "^NATS is away: nats: connection closed; `headrace status` shows what"),
        (errors.MaxPayloadError(), Refused, "^a message of 3 bytes is too large; NATS accepts 100$"),
    ],
)
async def test_a_question_that_cannot_be_asked_says_why(link, nats, trouble, kind, message):
    nats.error = trouble
    with pytest.raises(kind, match=message):
        await link.ask("hr.x", b"abc", within=3)


async def test_a_question_without_an_answer_says_what_happened(link, nats):
    with pytest.raises(Unreachable, match="^no answer within 0.001 s; `headrace status` shows what is not running$"):
        await link.ask("hr.x", b"abc", within=0.001)
    nats.answers["hr.x"] = answered(b"", b"NATS/1.0 503\r\n\r\n")
    with pytest.raises(Unreachable, match="^no service takes this in now; `headrace status` shows what is not running$"):
        await link.ask("hr.x", b"abc")


async def test_a_question_outlives_a_server_that_is_away_and_back(link, nats):
    asking = asyncio.create_task(link.ask("hr.x", within=60))
    await nats.loses()
    while not nats.sent:
        await asyncio.sleep(0)
    await nats.comes_back()
    nats.answer(nats.sent[0][2], b"yes")
    assert await asking == b"yes"


async def test_a_link_that_is_let_in_no_more_gives_up_after_a_while_and_not_before(link, nats, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    refused = "nats: 'Authorization Violation'"
    for now[0] in (100.0, 120.0, 130.0):
        await nats.complains(refused)
    await nats.comes_back()
    for now[0] in (131.0, 160.0, 161.0):
        await nats.complains(refused)
    await asyncio.sleep(0)
    assert not nats.is_closed
    now[0] = 161.5
    await nats.complains(refused)
    await asyncio.sleep(0)
    assert nats.is_closed


async def test_a_complaint_about_a_subject_is_the_answer_to_the_one_who_asked_there_and_to_no_other(link, nats):
    mine = asyncio.create_task(link.ask("hr.submit.acme.Bob.a.b"))
    other = asyncio.create_task(link.ask("hr.submit.acme.alice.a.b"))
    await asyncio.sleep(0)
    await nats.complains('nats: permissions violation for publish to "hr.submit.acme.bob.a.b"')
    with pytest.raises(Refused, match=r"the login 'alice' may not do this for that tenant and user") as caught:
        await mine
    assert caught.value.code == "NOT_ALLOWED"
    assert not other.done()
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)


async def test_what_is_said_on_a_subject_is_heard_over_a_connection_of_its_own_until_one_stops_listening(link, nats, dialled):
    async with link.listening("hr.feed.acme.>") as messages:
        feed = dialled[1]
        assert (feed.options["user"], feed.options["password"], list(feed.listening)) == (
            "alice_feed",
            "secret",
            ["hr.feed.acme.>"],
        )
        feed.listening["hr.feed.acme.>"](RawMessage("hr.feed.acme.job.ended.x", "", b"{}"))
        assert await messages.get() == ("hr.feed.acme.job.ended.x", b"{}")
        assert all(subject.startswith("_INBOX_") for subject in nats.listening)
    assert feed.listening == {}
    await link.close()
    assert (nats.is_closed, feed.is_closed) == (True, True)


async def test_more_than_a_connection_may_subscribe_to_is_heard_over_another(link, nats, dialled, monkeypatch):
    monkeypatch.setattr(module, "FEED_SUBSCRIPTIONS", 2)
    async with AsyncExitStack() as stack:
        for name in "abc":
            await stack.enter_async_context(link.listening(name))
        assert [list(one.listening) for one in dialled[1:]] == [["a", "b"], ["c"]]
    async with link.listening("d"):
        assert [list(one.listening) for one in dialled[1:]] == [["d"], []]


async def test_a_slow_listener_hears_the_newest(link, nats, dialled, monkeypatch):
    monkeypatch.setattr(module, "PENDING_MAX", 2)
    async with link.listening("hr.feed.acme.>") as messages:
        for data in (b"1", b"2", b"3"):
            dialled[1].publishes("hr.feed.acme.>", data)
        assert [messages.get_nowait()[1], messages.get_nowait()[1], messages.empty()] == [b"2", b"3", True]


async def test_closing_twice_does_no_harm(link, nats):
    await link.close()
    await link.close()
    assert nats.is_closed
