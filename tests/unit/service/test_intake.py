"""How the intake handles submissions, a stream's answers and their absence; the connection is a list. Real ones: integration tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.bus.follower import Follower
from headrace.bus.log import LogRefused, LogUnavailable
from headrace.health.metrics import MetricSources
from headrace.health.prometheus_text import prometheus_text
from headrace.nats_client.raw_message import Listener, RawMessage
from headrace.service import intake as intake_module
from headrace.service.fold import LedgerFold
from headrace.service.hosting import Part, Work
from headrace.service.intake import Intake, with_intake
from tests.unit.service.bus import Bus, running, until

INTAKE, MEANT = "hr.intake.submit.acme.alice.dev.half", "hr.submit.acme.alice.dev.half"
STORED = {"stream": "SUBMIT", "seq": 1}


class Wire:
    """A connection: what is asked waits until the test answers it."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.listening: tuple[str, str] | None = None
        self.asked: list[tuple[str, bytes, asyncio.Future[RawMessage]]] = []
        self.published: list[tuple[str, bytes, dict[str, str] | None]] = []
        self.closed_for_good = asyncio.Event()
        self.drained = self.closed = False

    async def listen(self, subject: str, listener: Listener, queue: str) -> Wire:
        self.listening, self.listener = (subject, queue), listener
        return self

    async def drain(self) -> None:
        self.drained = True

    async def close(self) -> None:
        self.closed = True

    async def ask(self, subject: str, payload: bytes) -> RawMessage:
        answer: asyncio.Future[RawMessage] = asyncio.get_running_loop().create_future()
        self.asked.append((subject, payload, answer))
        return await answer

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        self.published.append((subject, payload, headers))

    def receive(self, payload: bytes = b"{}", reply: str = "_R_.a.b", subject: str = INTAKE, raw: bytes = b"") -> None:
        assert self.listener is not None
        self.listener(RawMessage(subject, reply, payload, raw))

    def answer(self, number: int, answer: bytes | Exception) -> None:
        future = self.asked[number][2]
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(RawMessage("_INBOX", "", answer))


@asynccontextmanager
async def taking_in() -> AsyncIterator[Wire]:
    wire = Wire()
    async with running(Intake(wire).run()):  # type: ignore[arg-type]
        await until(lambda: wire.listener)
        yield wire
        for *_, future in wire.asked:
            if not future.done():
                future.set_result(RawMessage("_INBOX", "", b'{"stream":"SUBMIT","seq":9}'))


async def test_a_submission_is_published_on_its_own_subject_without_headers_and_acknowledged_when_it_is_stored() -> None:
    async with taking_in() as wire:
        assert wire.listening == ("hr.intake.>", "intake")
        wire.receive(b"a job", raw=b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n")
        await until(lambda: wire.asked)
        assert (wire.asked[0][:2], wire.published) == ((MEANT, b"a job"), [])
        wire.answer(0, b'{"stream":"SUBMIT","seq":42}')
        await until(lambda: wire.published)
        assert [(reply, json.loads(answer), headers) for reply, answer, headers in wire.published] == [
            ("_R_.a.b", STORED, None)
        ]


@pytest.mark.parametrize(
    ("answer", "payload", "headers"),
    [
        (
            b'{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"},"seq":0}',
            b'{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"},"seq":0}',
            None,
        ),
        (LogUnavailable("nobody listens"), b"", {"Status": "503"}),
        (b"no acknowledgement", b"", {"Status": "503"}),
        (b"{}", b"", {"Status": "503"}),
        (
            LogRefused("too big"),
            b'{"error":{"code":400,"err_code":10003,"description":"too big"},"stream":"SUBMIT","seq":0}',
            None,
        ),
    ],
)
async def test_what_the_stream_does_not_store_is_not_acknowledged(answer: Any, payload: bytes, headers: Any) -> None:
    async with taking_in() as wire:
        wire.receive()
        await until(lambda: wire.asked)
        wire.answer(0, answer)
        await until(lambda: wire.published)
        assert wire.published == [("_R_.a.b", payload, headers)]


async def test_a_submission_without_a_reply_subject_is_stored_and_one_whose_answer_would_go_elsewhere_is_dropped() -> None:
    async with taking_in() as wire:
        for reply in ("hr.ledger.governance", "$JS.API.STREAM.PURGE.LEDGER", ""):
            wire.receive(reply.encode(), reply=reply)
        await until(lambda: wire.asked)
        wire.answer(0, b'{"stream":"SUBMIT","seq":1}')
        wire.receive(b"next")
        await until(lambda: len(wire.asked) == 2)
        wire.answer(1, b'{"stream":"SUBMIT","seq":2}')
        await until(lambda: wire.published)
        assert ([payload for _, payload, _ in wire.asked], len(wire.published)) == ([b"", b"next"], 1)


async def test_a_tenant_that_floods_does_not_delay_another_and_hears_when_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake_module, "UNDER_WAY_MAX", 2)
    monkeypatch.setattr(intake_module, "WAITING_MAX", 8)
    async with taking_in() as wire:
        for number in range(7):
            wire.receive(b"%d" % number)
        wire.receive(b"other", subject=INTAKE.replace("acme", "other"))
        await until(lambda: len(wire.asked) == 2 and wire.published)
        ((_, answer, _),) = wire.published
        assert json.loads(answer)["error"] == {"code": 429, "err_code": 10167, "description": "too many requests"}
        for number in range(3):
            wire.answer(number, b'{"stream":"SUBMIT","seq":1}')
            await until(lambda number=number: len(wire.asked) == number + 3)
        assert [payload for _, payload, _ in wire.asked] == [b"0", b"1", b"2", b"other", b"3"]


async def test_one_that_stops_answers_what_it_has_received() -> None:
    wire = Wire()
    task = asyncio.ensure_future(Intake(wire).run())  # type: ignore[arg-type]
    await until(lambda: wire.listener)
    wire.receive()
    await until(lambda: wire.asked)
    task.cancel()
    await until(lambda: wire.drained)
    wire.answer(0, b'{"stream":"SUBMIT","seq":1}')
    await asyncio.wait({task})
    assert [json.loads(answer) for _, answer, _ in wire.published] == [STORED]


async def test_one_that_nats_throws_out_ends() -> None:
    wire = Wire()
    wire.closed_for_good.set()
    with pytest.raises(LogUnavailable, match="closed the connection of the intake"):
        await Intake(wire).run()  # type: ignore[arg-type]


async def test_how_many_wait_and_found_no_room_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "UNDER_WAY_MAX", 1)
    monkeypatch.setattr(intake_module, "WAITING_MAX", 4)
    wire, metrics = Wire(), MetricSources()
    intake = Intake(wire)  # type: ignore[arg-type]
    intake.show(metrics)
    async with running(intake.run()):
        await until(lambda: wire.listener)
        for _ in range(5):
            wire.receive()
        await until(lambda: wire.published and wire.asked)
        text = prometheus_text(metrics).decode()
        for number in range(3):
            wire.answer(number, b'{"stream":"SUBMIT","seq":1}')
            await until(lambda number=number: len(wire.asked) == min(3, number + 2))
    assert "headrace_intake_waiting_wishes 2.0\n" in text
    assert "headrace_intake_refused_total 2.0\n" in text


async def test_a_service_takes_submissions_in_beside_its_own_work_on_a_connection_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire, opened, bus = Wire(), list[tuple[str, str]](), Bus()
    working = asyncio.Event()

    async def second_connection(service: Any, what: str) -> Wire:
        opened.append((service.name, what))
        return wire

    async def prepare(service: Any, _follower: Any) -> Work:
        async def work() -> None:
            assert service.connection is bus
            working.set()
            await asyncio.Event().wait()

        return work

    monkeypatch.setattr(intake_module, "second_connection", second_connection)
    work = await with_intake(Part(prepare)).prepare(bus.service("admission"), Follower(bus.ledger, LedgerFold(), bus.clock))
    async with running(work()):
        await until(lambda: wire.listener and working.is_set())
    assert (opened, wire.drained, wire.closed) == ([("admission", "intake")], True, True)
