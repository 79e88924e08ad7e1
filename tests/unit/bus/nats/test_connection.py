"""Asking over one inbox; the answers, refusals and losses of a server that is not there. Real servers: the integration tests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats import errors

from headrace.bus.log import LogRefused, LogUnavailable
from headrace.bus.nats.connection import Connection
from headrace.bus.nats.raw_message import RawMessage


class Wired(Connection):
    """A connection whose wire is a list."""

    def __init__(self) -> None:
        super().__init__()
        self._status = Connection.CONNECTED
        self._inbox = "_INBOX_x.a."
        self.sent: list[tuple[str, bytes, str, dict[str, str] | None]] = []
        self.error: Exception | None = None

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append((subject, payload, reply, headers))

    def answer(self, reply: str, data: bytes = b"", raw: bytes = b"") -> None:
        self._answered(RawMessage(reply, "", data, raw))


async def _asked(wired: Wired, count: int = 1) -> None:
    while len(wired.sent) < count:
        await asyncio.sleep(0)


async def test_answers_find_their_questions_whatever_their_order() -> None:
    wired = Wired()
    asking = [asyncio.ensure_future(wired.ask("hr.a", b"%d" % n)) for n in range(3)]
    await _asked(wired, 3)
    for subject, payload, reply, headers in reversed(wired.sent):
        assert (subject, headers) == ("hr.a", None)
        wired.answer(reply, b"to " + payload)
    assert [(await question).data for question in asking] == [b"to 0", b"to 1", b"to 2"]
    assert wired._unanswered == {}


async def test_an_answer_that_comes_too_late_or_to_nobody_is_dropped() -> None:
    wired = Wired()
    with pytest.raises(LogUnavailable, match=r"no answer on hr.a within 0.001 s"):
        await wired.ask("hr.a", within=0.001)
    wired.answer(wired.sent[0][2])
    wired.answer("_INBOX_x.a.999")
    assert wired._unanswered == {}


async def test_a_question_nobody_hears_is_told_so() -> None:
    wired = Wired()
    asking = asyncio.ensure_future(wired.ask("hr.a"))
    for asked in (1, 2):
        await _asked(wired, asked)
        wired.answer(wired.sent[-1][2], raw=b"NATS/1.0 503\r\n\r\n")
    with pytest.raises(LogUnavailable, match="no listener on hr.a"):
        await asking
    assert len(wired.sent) == 2


async def test_a_question_that_nobody_heard_is_asked_once_more() -> None:
    wired = Wired()
    asking = asyncio.ensure_future(wired.ask("hr.a", b"what"))
    await _asked(wired)
    wired.answer(wired.sent[0][2], raw=b"NATS/1.0 503\r\n\r\n")
    await _asked(wired, 2)
    wired.answer(wired.sent[1][2], b"that")
    assert (await asking).data == b"that"
    assert [sent[:2] for sent in wired.sent] == [("hr.a", b"what"), ("hr.a", b"what")]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (errors.MaxPayloadError(), LogRefused, "5 bytes on hr.a: the server takes at most"),
        (errors.ConnectionClosedError(), LogUnavailable, "NATS is away"),
        (errors.OutboundBufferLimitError(), LogUnavailable, "NATS is away"),
    ],
)
async def test_what_cannot_be_sent_says_why(error: Exception, kind: type[Exception], text: str) -> None:
    wired = Wired()
    wired.error = error
    with pytest.raises(kind, match=text):
        await wired.ask("hr.a", b"12345")


async def test_nothing_is_asked_of_a_server_that_is_away() -> None:
    wired = Wired()
    wired._status = Connection.RECONNECTING
    with pytest.raises(LogUnavailable, match="NATS is away"):
        await wired.ask("hr.a")
    assert wired.sent == []


async def test_a_forbidden_subject_refuses_its_questions_and_no_others() -> None:
    wired = Wired()
    forbidden, allowed = asyncio.ensure_future(wired.ask("$JS.API.INFO")), asyncio.ensure_future(wired.ask("hr.a"))
    await _asked(wired, 2)
    await wired._complained(errors.Error('nats: permissions violation for publish to "$js.api.info"'))
    with pytest.raises(LogRefused, match="may not publish"):
        await forbidden
    wired.answer(wired.sent[1][2], b"well")
    assert (await allowed).data == b"well"


async def test_losing_the_server_fails_all_questions_and_its_return_is_told_to_the_watchers() -> None:
    wired = Wired()
    returns: list[int] = []
    unwatch = wired.watch(lambda: returns.append(1))
    asking = [asyncio.ensure_future(wired.ask("hr.a")) for _ in range(2)]
    await _asked(wired, 2)
    await wired._lost()
    for question in asking:
        with pytest.raises(LogUnavailable, match="went away"):
            await question
    await wired._back()
    unwatch()
    unwatch()
    await wired._back()
    assert returns == [1]


async def test_being_thrown_out_for_good_is_told() -> None:
    wired = Wired()
    asking = asyncio.ensure_future(wired.ask("hr.a"))
    await _asked(wired)
    await wired._closed()
    assert wired.closed_for_good.is_set()
    with pytest.raises(LogUnavailable, match="closed"):
        await asking
