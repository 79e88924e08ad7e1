from __future__ import annotations

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from headrace.bus.log import LogUnavailable
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.messages.queries import Answer, Change, NodeRequest, ServiceView
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.values.ids import IdError
from headrace.service import answering
from headrace.service.answering import Refused, serve
from headrace.service.engine_version import ENGINE
from headrace.service.fold import LedgerFold
from tests.unit.service.bus import START, Bus, until

ALL = "hr.query.feed.>"
CHANGE = Change(kind="node", name="n1", action="keep")


def refuse(*_):
    raise Refused("STALE", "it has been overtaken; get it again", CHANGE)


def fail(*_):
    raise ZeroDivisionError


async def later(tenant, user, payload):
    await asyncio.sleep(0)
    return Change(kind=tenant, name=user, action=payload.decode())


async def fail_later(*_):
    await asyncio.sleep(0)
    raise Refused("UNAVAILABLE", "node n1 does not answer")


def misnamed(*_):
    raise IdError("'x' is no job id")


HANDLERS = {
    "echo": lambda tenant, user, payload: Change(kind=tenant, name=user, action=payload.decode()),
    "whole": lambda *_: Answer(sequence=1, code="NOT_FOUND", error="as it was said elsewhere"),
    "typed": lambda _tenant, _user, payload: decode(payload, NodeRequest),
    "misnamed": misnamed,
    "refuse": refuse,
    "fail": fail,
    "later": later,
    "fail-later": fail_later,
}


@pytest.fixture
async def bus():
    """A service called `feed` answers, two records into the ledger."""
    bus = Bus()
    bus.hall("n1")
    fold = LedgerFold()
    for message in bus.ledger.messages_after(0):
        fold.read(message)
    await serve(bus, "feed", fold, HANDLERS)
    return bus


async def ask(bus, what, payload=b""):
    answer = await bus.ask(ALL, f"hr.query.feed.{what}.acme.ann", payload)
    return answer.sequence, answer.code, answer.error, msgspec.json.decode(answer.body)


@pytest.mark.parametrize("what", ["echo", "later"])
async def test_the_handler_hears_who_asks_what_and_its_value_is_the_body(bus, what):
    assert await ask(bus, what, b"hello") == (2, "", "", {"kind": "acme", "name": "ann", "action": "hello"})


async def test_an_answer_of_another_service_is_handed_on_as_it_is(bus):
    assert await ask(bus, "whole") == (1, "NOT_FOUND", "as it was said elsewhere", None)


@pytest.mark.parametrize(
    ("what", "code", "error", "body"),
    [
        (
            "refuse",
            "STALE",
            "it has been overtaken; get it again",
            {"kind": "node", "name": "n1", "action": "keep"},
        ),
        ("fail-later", "UNAVAILABLE", "node n1 does not answer", None),
        ("misnamed", "INVALID", "'x' is no job id", None),
        (
            "ehco",
            "NOT_FOUND",
            "unknown query 'ehco'; use one of echo, fail, fail-later, later, misnamed, refuse, status, typed, whole",
            None,
        ),
    ],
)
async def test_a_refusal_has_its_code_its_line_and_what_there_is_to_say_besides(bus, what, code, error, body):
    assert await ask(bus, what) == (2, code, error, body)


async def test_bytes_that_are_not_a_question_are_invalid(bus):
    with pytest.raises(Malformed) as malformed:
        decode(b'{"node": 3}', NodeRequest)
    assert await ask(bus, "typed", b'{"node": 3}') == (2, "INVALID", str(malformed.value), None)


async def test_a_subject_that_names_no_one_is_invalid(bus):
    answer = await bus.ask(ALL, "hr.query.feed.echo")
    assert (answer.code, answer.error) == (
        "INVALID",
        "invalid query subject 'hr.query.feed.echo': use hr.query.<service>.<what>.<tenant>.<user>",
    )


async def test_an_accident_is_in_the_log_and_the_next_question_is_answered(bus):
    with capture_logs() as logs:
        assert await ask(bus, "fail") == (2, "INTERNAL", "ZeroDivisionError: see the service's log", None)
        assert (await ask(bus, "echo"))[1] == ""
    assert [(line["event"], line["subject"], type(line["exc_info"])) for line in logs] == [
        ("question_failed", "hr.query.feed.fail.acme.ann", ZeroDivisionError)
    ]


async def test_a_log_that_is_away_is_not_an_accident_and_says_to_try_again():
    async def away(*_):
        await asyncio.sleep(0)
        raise LogUnavailable("NATS is away")

    bus = Bus()
    await serve(bus, "feed", LedgerFold(), {"tip": away})
    with capture_logs() as logs:
        assert await ask(bus, "tip") == (0, "UNAVAILABLE", "the log cannot be read now, try again: NATS is away", None)
    assert logs == []


async def test_a_slow_answer_does_not_keep_the_next_question_waiting():
    bus, gate = Bus(), asyncio.Event()

    async def slow(*_):
        await gate.wait()
        return CHANGE

    await serve(bus, "feed", LedgerFold(), {"slow": slow, "fast": lambda *_: CHANGE})
    await bus.send(ALL, "hr.query.feed.slow.acme.ann", reply="_INBOX.first")
    await bus.send(ALL, "hr.query.feed.fast.acme.ann", reply="_INBOX.second")
    gate.set()
    await until(lambda: len(bus.published) == 2)
    assert [reply for reply, _ in bus.published] == ["_INBOX.second", "_INBOX.first"]
    assert bus.published[0][1] == bus.published[1][1]


async def test_of_too_many_slow_questions_the_last_are_refused_with_word_when_to_try_again(monkeypatch):
    monkeypatch.setattr(answering, "SLOW_MAX", 1)
    bus, gate = Bus(), asyncio.Event()

    async def slow(*_):
        await gate.wait()
        return CHANGE

    await serve(bus, "feed", LedgerFold(), {"slow": slow})
    await bus.send(ALL, "hr.query.feed.slow.acme.ann", reply="_INBOX.first")
    await bus.send(ALL, "hr.query.feed.slow.acme.ann", reply="_INBOX.second")
    ((reply, payload),) = bus.published
    answer = decode(payload, Answer)
    assert (reply, answer.code) == ("_INBOX.second", "UNAVAILABLE")
    assert answer.error == "feed already answers 1 requests, its maximum; try again in 1 s"
    gate.set()
    await until(lambda: len(bus.published) == 2)


async def test_one_tenant_does_not_take_all_the_room_for_slow_questions(monkeypatch):
    monkeypatch.setattr(answering, "SLOW_EACH", 1)
    bus, gate = Bus(), asyncio.Event()

    async def slow(*_):
        await gate.wait()
        return CHANGE

    await serve(bus, "feed", LedgerFold(), {"slow": slow})
    for tenant, reply in (("acme", "_INBOX.1"), ("acme", "_INBOX.2"), ("other", "_INBOX.3")):
        await bus.send(ALL, f"hr.query.feed.slow.{tenant}.ann", reply=reply)
    ((reply, payload),) = bus.published
    assert (reply, decode(payload, Answer).error) == (
        "_INBOX.2",
        "feed already answers 1 requests of tenant acme, its maximum; try again in 1 s",
    )
    gate.set()
    await until(lambda: len(bus.published) == 3)
    await bus.send(ALL, "hr.query.feed.slow.acme.ann", reply="_INBOX.4")
    await until(lambda: len(bus.published) == 4)
    assert [decode(payload, Answer).code for _, payload in bus.published] == ["UNAVAILABLE", "", "", ""]


@pytest.mark.parametrize("reply", ["", "hr.feed.acme.job.ended.x", "hr.ledger.feed", "$JS.API.STREAM.PURGE.LEDGER"])
async def test_a_question_whose_answer_would_go_where_no_client_waits_is_not_answered(bus, reply):
    await bus.send(ALL, "hr.query.feed.echo.acme.ann", b"1", reply=reply)
    assert bus.published == []


async def test_the_status_counts_what_there_is_of_all_tenants(bus):
    answer = await bus.ask(ALL, "hr.query.feed.status.acme.ann")
    detail = {"jobs": 0, "pending": 0, "running": 0, "nodes": 1, "void_records": 0}
    assert msgspec.json.decode(answer.body, type=ServiceView) == ServiceView(
        service="feed", folded=2, now=START, engine=ENGINE, detail=detail, reads=LEVEL
    )
