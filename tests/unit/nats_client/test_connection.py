"""Asking over one inbox; the answers, refusals and losses of a server that is not there. Real servers: the integration tests."""

from __future__ import annotations

import asyncio

import pytest
from nats import errors

from headrace.nats_client.connection import Observer, is_refused
from headrace.nats_client.errors import LogRefused, LogUnavailable, NoListener, TooLarge
from tests.unit.nats_client.wired import ADDRESS, Wired, wired

UNHEARD = b"NATS/1.0 503\r\n\r\n"


class RecordingObserver(Observer):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def lost(self, server: str) -> None:
        self.all.append(f"lost {server}")

    def back(self, server: str) -> None:
        self.all.append(f"back {server}")

    def closed(self) -> None:
        self.all.append("closed")

    def refused(self) -> None:
        self.all.append("refused")

    def complained(self, complaint: str) -> None:
        self.all.append(complaint)


async def _asked(connection: Wired, count: int = 1) -> None:
    while len(connection.sent) < count:
        await asyncio.sleep(0)


async def test_it_opens_with_its_login_and_its_own_inbox_and_reconnects_from_then_on() -> None:
    connection = await wired()
    login = {
        key: connection.options[key]
        for key in ("servers", "name", "user", "password", "inbox_prefix", "allow_reconnect", "max_reconnect_attempts")
    }
    assert login == {
        "servers": ["nats://127.0.0.1:1"],
        "name": "alice",
        "user": "alice",
        "password": "secret",
        "inbox_prefix": "_INBOX_alice",
        "allow_reconnect": True,
        "max_reconnect_attempts": -1,
    }
    assert (len(connection.listening), connection.several) == (1, False)


async def test_one_that_asks_nothing_has_no_inbox_and_several_servers_are_told() -> None:
    connection = Wired()
    await connection.open(ADDRESS._replace(url="nats://a:1, nats://b:2"), "me", asks=False, in_order=True)
    assert {key: connection.options[key] for key in ("servers", "name", "dont_randomize")} == {
        "servers": ["nats://a:1", "nats://b:2"],
        "name": "me",
        "dont_randomize": True,
    }
    assert (connection.listening, connection.several) == ({}, True)


async def test_one_that_does_not_open_is_closed_and_says_nothing_to_its_observer() -> None:
    observer = RecordingObserver()
    connection = Wired(observer)
    connection.troubles = [ConnectionRefusedError("no")]
    with pytest.raises(ConnectionRefusedError):
        await connection.open(ADDRESS)
    assert (connection.is_closed, observer.all) == (True, [])


async def test_answers_find_their_questions_whatever_their_order() -> None:
    connection = await wired()
    asking = [asyncio.ensure_future(connection.ask("hr.a", b"%d" % n, {"N": "1"} if n else None)) for n in range(3)]
    await _asked(connection, 3)
    assert [(subject, headers) for subject, _, _, headers in connection.sent] == [
        ("hr.a", None),
        ("hr.a", {"N": "1"}),
        ("hr.a", {"N": "1"}),
    ]
    for _, payload, reply, _ in reversed(connection.sent):
        connection.answer(reply, b"to " + payload)
    assert [(await question).data for question in asking] == [b"to 0", b"to 1", b"to 2"]


async def test_an_answer_that_comes_too_late_or_without_a_waiter_is_dropped() -> None:
    connection = await wired()
    with pytest.raises(LogUnavailable, match=r"^no answer on hr.a within 0.001 s$"):
        await connection.ask("hr.a", within=0.001)
    reply = connection.sent[0][2]
    connection.answer(reply)
    connection.answer(f"{reply}99")


async def test_a_question_without_a_listener_is_told_so() -> None:
    connection = await wired()
    asking = asyncio.ensure_future(connection.ask("hr.a"))
    for asked in (1, 2):
        await _asked(connection, asked)
        connection.answer(connection.sent[-1][2], raw=UNHEARD)
    with pytest.raises(NoListener, match="^no listener on hr.a: is that stream or service up"):
        await asking
    assert len(connection.sent) == 2


async def test_a_question_without_a_listener_is_asked_once_more() -> None:
    connection = await wired()
    asking = asyncio.ensure_future(connection.ask("hr.a", b"what"))
    await _asked(connection)
    connection.answer(connection.sent[0][2], raw=UNHEARD)
    await _asked(connection, 2)
    connection.answer(connection.sent[1][2], b"that")
    assert (await asking).data == b"that"
    assert [sent[:2] for sent in connection.sent] == [("hr.a", b"what"), ("hr.a", b"what")]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (errors.MaxPayloadError(), TooLarge, "5 bytes on hr.a: the server takes at most 100"),
        (errors.ConnectionClosedError(), LogUnavailable, "NATS is away"),
        (errors.OutboundBufferLimitError(), LogUnavailable, "NATS is away"),
    ],
)
async def test_what_cannot_be_sent_says_why(error: Exception, kind: type[Exception], text: str) -> None:
    connection = await wired()
    connection.error = error
    with pytest.raises(kind, match=text):
        await connection.ask("hr.a", b"12345")


async def test_nothing_is_asked_of_a_server_that_is_away() -> None:
    connection = await wired()
    await connection.loses()
    with pytest.raises(LogUnavailable, match="^NATS is away$"):
        await connection.ask("hr.a")
    assert connection.sent == []


async def test_requests_that_are_kept_are_sent_while_the_server_is_away_and_answered_when_it_is_back() -> None:
    connection = await wired(keeps_requests=True)
    asking = [asyncio.ensure_future(connection.ask("hr.a", within=60))]
    await _asked(connection)
    await connection.loses()
    asking.append(asyncio.ensure_future(connection.ask("hr.b", within=60)))
    await _asked(connection, 2)
    await connection.comes_back()
    for subject, _, reply, _ in connection.sent:
        connection.answer(reply, subject.encode())
    assert [(await question).data for question in asking] == [b"hr.a", b"hr.b"]


async def test_a_forbidden_subject_refuses_its_questions_and_no_others() -> None:
    connection = await wired()
    forbidden, allowed = asyncio.ensure_future(connection.ask("$JS.API.INFO")), asyncio.ensure_future(connection.ask("hr.a"))
    await _asked(connection, 2)
    await connection.complains('nats: permissions violation for publish to "$js.api.info"')
    with pytest.raises(LogRefused, match="may not publish"):
        await forbidden
    connection.answer(connection.sent[1][2], b"well")
    assert (await allowed).data == b"well"


async def test_losing_the_server_fails_all_questions_and_its_return_is_told_to_the_watchers() -> None:
    observer = RecordingObserver()
    connection = await wired(observer)
    returns: list[int] = []
    unwatch = connection.watch(lambda: returns.append(1))
    asking = [asyncio.ensure_future(connection.ask("hr.a")) for _ in range(2)]
    await _asked(connection, 2)
    await connection.loses()
    for question in asking:
        with pytest.raises(LogUnavailable, match="went away"):
            await question
    await connection.comes_back()
    unwatch()
    unwatch()
    await connection.comes_back()
    assert (returns, observer.all) == ([1], ["lost ", "back ", "back "])


async def test_being_thrown_out_for_good_is_told() -> None:
    observer = RecordingObserver()
    connection = await wired(observer, keeps_requests=True)
    asking = asyncio.ensure_future(connection.ask("hr.a"))
    await _asked(connection)
    await connection.close()
    assert (connection.closed_for_good.is_set(), observer.all) == (True, ["closed"])
    with pytest.raises(LogUnavailable, match="closed"):
        await asking


async def test_a_complaint_that_is_repeated_is_told_once_and_a_refusal_each_time() -> None:
    observer = RecordingObserver()
    connection = await wired(observer)
    for text in ("away", "away", "nats: 'Authorization Violation'", "nats: 'Authorization Violation'", "away"):
        await connection.complains(text)
    assert observer.all == ["away", "refused", "nats: 'Authorization Violation'", "refused", "away"]


def test_a_login_that_is_not_accepted_is_told_from_a_server_that_is_away() -> None:
    assert is_refused(errors.AuthorizationError())
    assert is_refused("nats: 'Authorization Violation'")
    assert not is_refused(ConnectionRefusedError("no"))
