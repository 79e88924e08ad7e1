"""The wire against a client that the test plays; with a real server it is in the integration tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from nats import errors
from structlog.testing import capture_logs

from headrace.contracts.messages.orders import LogsRequest, NodeAnswer, Orders
from headrace.contracts.messages.queries import LogsAnswer
from headrace.contracts.transport.codec import encode
from headrace.nats_client.connection import Address, Observer
from headrace.nats_client.errors import LogUnavailable, WrongLast
from headrace.node_executor.reporting.journal import Journal
from headrace.node_executor.reporting.ledger import FactWriter
from headrace.node_executor.reporting.link import BusListener, Link, LinkTimings
from tests.patience import PATIENCE
from tests.unit.nats_client.wired import Wired, answered


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


def speaking(observer: Observer) -> Wired:
    """A connection to a feed that answers."""
    connection = Wired(observer)
    connection.answers["hr.query.orders.node.gpu01"] = answered(encode(NodeAnswer(node="gpu01", through=7, last_record=3)))
    return connection


@pytest.fixture
async def wire(tmp_path):
    ears, dialled = Ears(), []

    def dial(observer: Observer) -> Wired:
        dialled.append(speaking(observer))
        return dialled[-1]

    link = Link("gpu01", Address("nats://x:1", "me", "pw"), LinkTimings(0.005, 0.005, 3600), lambda: 42, dial)
    journal = Journal(str(tmp_path / "journal"))
    ledger = FactWriter(link, "node.gpu01", "test/1", lambda: 42, journal)
    task = asyncio.create_task(link.run(ears.listener(), ledger, lambda: 5))
    await until(lambda: ears.answered)
    yield SimpleNamespace(client=dialled[0], dialled=dialled, ears=ears, link=link, ledger=ledger)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal.close()


def sent(client: Wired, subject: str) -> list[bytes]:
    return [payload for where, payload, _, _ in client.sent if where == subject]


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def test_it_asks_at_once_and_again_and_beats(wire) -> None:
    await until(lambda: len(wire.ears.answered) >= 3)
    assert wire.ears.answered[0] == NodeAnswer(node="gpu01", through=7, last_record=3)
    assert wire.ledger.as_of == 7
    await until(lambda: len(sent(wire.client, "hr.telemetry.gpu01.heartbeat")) >= 2)
    beat = json.loads(sent(wire.client, "hr.telemetry.gpu01.heartbeat")[0])
    assert beat == {"node": "gpu01", "at": 42, "running": 5, "last_record": 0}


async def test_it_logs_in_as_the_node_and_listens_where_it_may(wire) -> None:
    assert {name: wire.client.options[name] for name in ("name", "user", "password", "inbox_prefix")} == {
        "name": "node gpu01",
        "user": "me",
        "password": "pw",
        "inbox_prefix": "_INBOX_me",
    }
    assert {subject for subject in wire.client.listening if not subject.startswith("_INBOX_me.")} == {
        "hr.orders.gpu01",
        "hr.logs.gpu01",
    }


async def test_a_record_is_appended_behind_the_expected_one(wire) -> None:
    wire.client.answers["hr.ledger.node.gpu01"] = answered(b'{"stream":"LEDGER","seq":9}')
    assert await wire.link.append(b"{}", 3) == 9
    ((_, payload, _, headers),) = [message for message in wire.client.sent if message[0] == "hr.ledger.node.gpu01"]
    assert (payload, headers) == (b"{}", {"Nats-Expected-Last-Subject-Sequence": "3"})


async def test_another_last_record_is_told_with_its_sequence_and_is_a_refusal_without(wire) -> None:
    for text, error in (("wrong last sequence: 12", WrongLast), ("something new", LogUnavailable)):
        answer = {"error": {"err_code": 10071, "description": text}}
        wire.client.answers["hr.ledger.node.gpu01"] = answered(json.dumps(answer).encode())
        with pytest.raises(error) as raised:
            await wire.link.append(b"{}", 3)
        assert error is LogUnavailable or raised.value.last == 12


async def test_no_answer_nonsense_and_another_node_are_not_answers(wire) -> None:
    subject = "hr.query.orders.node.gpu01"
    for answer in (b"nonsense", encode(NodeAnswer(node="gpu02", through=1, last_record=1))):
        wire.client.answers[subject] = answered(answer)
        with pytest.raises(LogUnavailable):
            await wire.link.ask()
    wire.client.answers[subject] = answered(b"", b"NATS/1.0 503\r\n\r\n")
    with pytest.raises(LogUnavailable, match="no listener on hr.query.orders.node.gpu01"):
        await wire.link.ask()


async def test_when_the_bus_goes_away_waiting_callers_learn_it_at_once_and_ask_again_when_it_is_back(wire) -> None:
    waiting = asyncio.create_task(wire.link.append(b"{}", 3))
    await until(lambda: sent(wire.client, "hr.ledger.node.gpu01"))
    await wire.client.loses()
    with pytest.raises(LogUnavailable, match="went away"):
        await waiting
    with pytest.raises(LogUnavailable, match="NATS is away"):
        await wire.link.append(b"{}", 3)
    asked = len(wire.ears.answered)
    await wire.client.comes_back()
    await until(lambda: len(wire.ears.answered) > asked)


async def test_only_orders_that_can_be_read_and_name_this_node_are_heard(wire) -> None:
    good = Orders(node="gpu01", number=1, through=20)
    for payload in (b"{", encode(Orders(node="gpu02", number=1, through=90)), encode(good)):
        wire.client.publishes("hr.orders.gpu01", payload)
    assert wire.ears.pushed == [good]
    assert wire.ledger.as_of == 20


async def test_requests_for_output_are_answered_also_those_that_make_no_sense(wire) -> None:
    replies: list[bytes] = []

    async def respond(payload: bytes) -> None:
        if len(payload) > 70:
            raise errors.MaxPayloadError
        replies.append(payload)

    callback = wire.client.listening["hr.logs.gpu01"]
    await callback(SimpleNamespace(data=encode(LogsRequest(job="a.b.c", attempt=1)), respond=respond))
    await callback(SimpleNamespace(data=b"{", respond=respond))
    assert json.loads(replies[0]) == {"data": "a.b.c"}
    assert json.loads(replies[1])["ended"] is True


async def test_a_node_that_was_silent_for_long_says_that_it_is_back(wire, monkeypatch) -> None:
    monkeypatch.setattr(wire.link, "_last_beat_at", -10_000.0)
    await until(lambda: wire.ears.returned == 1)


async def test_a_connection_that_was_closed_for_good_is_made_anew(wire) -> None:
    await wire.client.close()
    await until(lambda: len(wire.dialled) == 2)
    await until(lambda: sent(wire.dialled[1], "hr.telemetry.gpu01.heartbeat"))


async def waited_for(troubles: list[Exception], journal: Journal) -> tuple[list[str], list[dict[str, Any]]]:
    """The servers that were tried, and what was logged, until the feed has answered; each try before fails with one of these."""
    ears, tries = Ears(), []

    def dial(observer: Observer) -> Wired:
        connection = speaking(observer)
        connection.troubles = troubles[len(tries) : len(tries) + 1]
        tries.append(connection)
        return connection

    link = Link("gpu01", Address("nats://x:1,nats://y:1"), LinkTimings(), lambda: 42, dial)
    with capture_logs() as logs:
        task = asyncio.create_task(
            link.run(ears.listener(), FactWriter(link, "node.gpu01", "t", lambda: 1, journal), lambda: 0)
        )
        await until(lambda: ears.answered)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return [connection.options["servers"] for connection in tries], logs


@pytest.fixture
def journal(tmp_path) -> Iterator[Journal]:
    one = Journal(str(tmp_path / "journal"))
    yield one
    one.close()


async def test_a_bus_that_is_not_up_yet_is_waited_for(monkeypatch, journal) -> None:
    monkeypatch.setattr("headrace.node_executor.reporting.link.CONNECT_AGAIN", 0.001)
    tried, _ = await waited_for([OSError("connection refused")] * 2, journal)
    assert tried == [["nats://x:1", "nats://y:1"]] * 3


async def test_a_node_that_is_not_let_in_says_what_may_be_the_cause_and_the_way_out_once(monkeypatch, journal) -> None:
    monkeypatch.setattr("headrace.node_executor.reporting.link.CONNECT_AGAIN", 0.001)
    _, logs = await waited_for([errors.Error("nats: 'Authorization Violation'")] * 3, journal)
    (waited,) = [line["help"] for line in logs if line["event"] == "bus_awaited"]
    assert waited == (
        "its token has ended or is revoked (`headrace token list`), or the node is excluded for what it wrote (`headrace nodes` "
        "says why, `headrace node uncordon gpu01` lets it in); it tries again by itself"
    )


async def test_a_node_that_is_not_let_in_tries_again_after_pauses_that_double(monkeypatch, journal) -> None:
    monkeypatch.setattr("headrace.node_executor.reporting.link.CONNECT_AGAIN", 0.0011)
    monkeypatch.setattr("headrace.node_executor.reporting.link.REFUSED_AGAIN_MAX", 0.006)
    pauses = []
    usual = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await usual(0)

    monkeypatch.setattr("headrace.node_executor.reporting.link.asyncio.sleep", sleep)
    refused = errors.Error("nats: 'Authorization Violation'")
    await waited_for([refused, refused, refused, refused, OSError("connection refused")], journal)
    assert [pause for pause in pauses if pause in (0.0011, 0.0022, 0.0044, 0.006)] == [0.0022, 0.0044, 0.006, 0.006, 0.0011]


async def test_an_answer_that_does_not_know_yet_what_ended_in_an_earlier_life_is_not_heard(wire, tmp_path, monkeypatch) -> None:
    """R36."""
    journal = Journal(str(tmp_path / "earlier"))
    ledger = FactWriter(wire.link, "node.gpu01", "test/1", lambda: 42, journal)

    async def former_facts_stored() -> int:
        return 4

    monkeypatch.setattr(ledger, "former_facts_stored", former_facts_stored)
    ears, before = Ears(), len(wire.client.sent)
    task = asyncio.create_task(wire.link.keep_asking(ears.listener(), ledger))
    await until(lambda: len(wire.client.sent) > before + 3)
    assert ears.answered == []
    wire.client.answers["hr.query.orders.node.gpu01"] = answered(encode(NodeAnswer(node="gpu01", through=8, last_record=4)))
    await until(lambda: ears.answered)
    assert ears.answered[0] == NodeAnswer(node="gpu01", through=8, last_record=4)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal.close()
