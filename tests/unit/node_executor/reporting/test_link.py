"""The wire against a client that the test plays; with a real server it is in the integration tests."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from nats import errors
from structlog.testing import capture_logs

from headrace.contracts.messages.orders import LogsAnswer, LogsRequest, NodeAnswer, Orders
from headrace.contracts.transport.codec import encode
from headrace.node_executor.reporting.journal import Journal
from headrace.node_executor.reporting.ledger import FactWriter, Unavailable, WrongLast
from headrace.node_executor.reporting.link import Address, BusListener, Link, LinkTimings
from tests.patience import PATIENCE


class FakeClient:
    """Speaks to the link as the server would. `answers` maps a subject to the bytes that come back, or None for silence."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.is_connected, self.is_closed = True, False
        self.callbacks: dict[str, Any] = {}
        self.published: list[tuple[str, bytes, dict[str, str] | None]] = []
        self.answers: dict[str, bytes | None] = {
            "hr.query.orders.node.gpu01": encode(NodeAnswer(node="gpu01", through=7, last_record=3))
        }
        self.headers: dict[str, str] | None = None

    def new_inbox(self) -> str:
        return "_INBOX_me.1"

    async def subscribe(self, subject: str, cb: Any) -> None:
        self.callbacks[subject] = cb

    async def publish(self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None) -> None:
        if not self.is_connected:
            raise errors.ConnectionClosedError
        self.published.append((subject, payload, headers))
        answer = self.answers.get(subject)
        if answer is not None:
            await self.callbacks["_INBOX_me.1.*"](SimpleNamespace(subject=reply, data=answer, headers=self.headers))

    async def close(self) -> None:
        self.is_closed = True

    def sent(self, subject: str) -> list[bytes]:
        return [payload for where, payload, _ in self.published if where == subject]


class Ears:
    """What was heard."""

    def __init__(self) -> None:
        self.pushed: list[Orders] = []
        self.answered: list[NodeAnswer] = []
        self.returned = 0

    def listener(self) -> BusListener:
        def come_back() -> None:
            self.returned += 1

        return BusListener(self.pushed.append, self.answered.append, come_back, lambda request: LogsAnswer(data=request.job))


@pytest.fixture
async def wire(monkeypatch, tmp_path):
    client, ears = FakeClient(), Ears()

    async def connect(_url: list[str], **options: Any) -> None:
        client.options = options
        client.is_closed = False

    client.connect = connect
    monkeypatch.setattr("headrace.node_executor.reporting.link.ReconnectingClient", lambda: client)
    link = Link("gpu01", Address("nats://x:1", "me", "pw"), LinkTimings(0.005, 0.005, 3600), lambda: 42)
    journal = Journal(str(tmp_path / "journal"))
    ledger = FactWriter(link, "node.gpu01", "test/1", lambda: 42, journal)
    task = asyncio.create_task(link.run(ears.listener(), ledger, lambda: 5))
    async with asyncio.timeout(PATIENCE):
        while not ears.answered:
            await asyncio.sleep(0.001)
    yield SimpleNamespace(client=client, ears=ears, link=link, ledger=ledger)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def test_it_asks_at_once_and_again_and_beats(wire) -> None:
    await until(lambda: len(wire.ears.answered) >= 3)
    assert wire.ears.answered[0] == NodeAnswer(node="gpu01", through=7, last_record=3)
    assert wire.ledger.as_of == 7
    await until(lambda: len(wire.client.sent("hr.telemetry.gpu01.heartbeat")) >= 2)
    beat = json.loads(wire.client.sent("hr.telemetry.gpu01.heartbeat")[0])
    assert beat == {"node": "gpu01", "at": 42, "running": 5, "last_record": 0}


async def test_it_logs_in_as_the_node_and_listens_where_it_may(wire) -> None:
    assert {name: wire.client.options[name] for name in ("user", "password", "inbox_prefix", "max_reconnect_attempts")} == {
        "user": "me",
        "password": "pw",
        "inbox_prefix": "_INBOX_me",
        "max_reconnect_attempts": -1,
    }
    assert set(wire.client.callbacks) == {"_INBOX_me.1.*", "hr.orders.gpu01", "hr.logs.gpu01"}


async def test_a_record_is_appended_behind_the_expected_one(wire) -> None:
    wire.client.answers["hr.ledger.node.gpu01"] = b'{"stream":"LEDGER","seq":9}'
    assert await wire.link.append(b"{}", 3) == 9
    assert ("hr.ledger.node.gpu01", b"{}", {"Nats-Expected-Last-Subject-Sequence": "3"}) in wire.client.published


@pytest.mark.parametrize(
    ("ack", "error"),
    [
        ({"err_code": 10071, "description": "wrong last sequence: 12"}, WrongLast),
        ({"err_code": 10071, "description": "something new"}, Unavailable),
        ({"err_code": 10077, "description": "maximum bytes exceeded"}, Unavailable),
        (None, Unavailable),
    ],
)
async def test_what_the_stream_refuses_is_told_apart(wire, ack, error) -> None:
    wire.client.answers["hr.ledger.node.gpu01"] = json.dumps({"error": ack} if ack else {}).encode()
    with pytest.raises(error) as raised:
        await wire.link.append(b"{}", 3)
    if error is WrongLast:
        assert raised.value.last == 12


async def test_nobody_there_no_sense_and_another_node_are_no_answers(wire) -> None:
    subject = "hr.query.orders.node.gpu01"
    for answer in (b"nonsense", encode(NodeAnswer(node="gpu02", through=1, last_record=1))):
        wire.client.answers[subject] = answer
        with pytest.raises(Unavailable):
            await wire.link.ask()
    wire.client.answers[subject], wire.client.headers = b"", {"Status": "503"}
    with pytest.raises(Unavailable, match="has no subscriber"):
        await wire.link.ask()


async def test_when_the_bus_goes_away_whoever_waits_learns_it_at_once_and_asks_again_when_it_is_back(wire) -> None:
    wire.client.answers["hr.ledger.node.gpu01"] = None
    waiting = asyncio.create_task(wire.link.append(b"{}", 3))
    await until(lambda: wire.client.sent("hr.ledger.node.gpu01"))
    await wire.client.options["disconnected_cb"]()
    with pytest.raises(Unavailable, match="went away"):
        await waiting
    wire.client.is_connected = False
    with pytest.raises(Unavailable, match="the bus is away"):
        await wire.link.append(b"{}", 3)
    asked = len(wire.ears.answered)
    wire.client.is_connected = True
    await wire.client.options["reconnected_cb"]()
    await until(lambda: len(wire.ears.answered) > asked)


async def test_only_orders_that_can_be_read_and_name_this_node_are_heard(wire) -> None:
    hear = wire.client.callbacks["hr.orders.gpu01"]
    good = Orders(node="gpu01", number=1, through=20)
    for payload in (b"{", encode(Orders(node="gpu02", number=1, through=90)), encode(good)):
        await hear(SimpleNamespace(data=payload))
    assert wire.ears.pushed == [good]
    assert wire.ledger.as_of == 20


async def test_requests_for_output_are_answered_also_those_that_make_no_sense(wire) -> None:
    said: list[bytes] = []

    async def respond(payload: bytes) -> None:
        if len(payload) > 70:
            raise errors.MaxPayloadError
        said.append(payload)

    hear = wire.client.callbacks["hr.logs.gpu01"]
    await hear(SimpleNamespace(data=encode(LogsRequest(job="a.b.c", attempt=1)), respond=respond))
    await hear(SimpleNamespace(data=b"{", respond=respond))
    assert json.loads(said[0]) == {"data": "a.b.c"}
    assert json.loads(said[1])["ended"] is True


async def test_a_node_that_was_silent_for_long_says_that_it_is_back(wire, monkeypatch) -> None:
    monkeypatch.setattr(wire.link, "_heard_at", -10_000.0)
    await until(lambda: wire.ears.returned == 1)


async def test_a_connection_that_was_closed_for_good_is_made_anew(wire) -> None:
    wire.client.is_closed = True
    await until(lambda: not wire.client.is_closed)


async def test_a_bus_that_is_not_up_yet_is_waited_for(monkeypatch, tmp_path) -> None:
    client, ears, tries = FakeClient(), Ears(), []

    async def connect(url: list[str], **options: Any) -> None:
        tries.append(url)
        if len(tries) < 3:
            raise OSError("connection refused")

    client.connect = connect
    monkeypatch.setattr("headrace.node_executor.reporting.link.ReconnectingClient", lambda: client)
    monkeypatch.setattr("headrace.node_executor.reporting.link.RECONNECT_WAIT", 0.001)
    link = Link("gpu01", Address("nats://x:1,nats://y:1"), LinkTimings(), lambda: 42)
    journal = Journal(str(tmp_path / "journal"))
    task = asyncio.create_task(link.run(ears.listener(), FactWriter(link, "node.gpu01", "t", lambda: 1, journal), lambda: 0))
    await until(lambda: ears.answered)
    assert tries == [["nats://x:1", "nats://y:1"]] * 3
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal.close()


async def test_a_node_that_is_not_let_in_says_what_may_be_the_cause_and_the_way_out_once(monkeypatch, tmp_path) -> None:
    client, ears, tries = FakeClient(), Ears(), []

    async def connect(_url: list[str], **_options: Any) -> None:
        tries.append(1)
        if len(tries) < 4:
            raise errors.Error("nats: 'Authorization Violation'")

    client.connect = connect
    monkeypatch.setattr("headrace.node_executor.reporting.link.RECONNECT_WAIT", 0.001)
    link = Link("gpu01", Address("nats://x:1"), LinkTimings(), lambda: 42, dial=lambda: client)
    journal = Journal(str(tmp_path / "journal"))
    with capture_logs() as logs:
        task = asyncio.create_task(
            link.run(ears.listener(), FactWriter(link, "node.gpu01", "t", lambda: 1, journal), lambda: 0)
        )
        await until(lambda: ears.answered)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    journal.close()
    (waited,) = [line["help"] for line in logs if line["event"] == "bus_awaited"]
    assert waited == (
        "its token has ended or is revoked (`headrace token list`), or the node is excluded for what it wrote (`headrace nodes` "
        "says why, `headrace node uncordon gpu01` lets it in); it tries again by itself"
    )


async def test_an_answer_that_does_not_know_yet_what_ended_in_an_earlier_life_is_not_heard(wire, tmp_path, monkeypatch) -> None:
    """R36."""
    journal = Journal(str(tmp_path / "earlier"))
    ledger = FactWriter(wire.link, "node.gpu01", "test/1", lambda: 42, journal)

    async def former_facts_stored() -> int:
        return 4

    monkeypatch.setattr(ledger, "former_facts_stored", former_facts_stored)
    ears, before = Ears(), len(wire.client.published)
    task = asyncio.create_task(wire.link._keep_asking(ears.listener(), ledger))
    await until(lambda: len(wire.client.published) > before + 3)
    assert ears.answered == []
    wire.client.answers["hr.query.orders.node.gpu01"] = encode(NodeAnswer(node="gpu01", through=8, last_record=4))
    await until(lambda: ears.answered)
    assert ears.answered[0] == NodeAnswer(node="gpu01", through=8, last_record=4)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal.close()
