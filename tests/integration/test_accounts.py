"""The accounts of the NATS server keep outsiders out of the ledger, proven on a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from headrace.bus.log import LogRefused, LogUnavailable
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.permissions import CALLOUT_USER, SERVICES
from headrace.bus.nats.streams import ensure_streams
from headrace.contracts.transport.subjects import LEDGER_STREAM, SUBMIT_STREAM
from headrace.service.intake import Intake
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from headrace.nats_client.connection import Connection

    from .conftest import Logins

SUBMIT = "hr.submit.acme.alice.dev.half"


@pytest.fixture
async def core(login: Logins) -> AsyncIterator[Connection]:
    """The operator's connection to a server with its streams, and an intake."""
    operator: Connection = await login("operator")
    await ensure_streams(operator)
    passing_on = await login("governance")
    taking_in = asyncio.create_task(Intake(passing_on).run())
    await passing_on.flush()
    yield operator
    taking_in.cancel()
    await asyncio.gather(taking_in, return_exceptions=True)


async def subjects(core: Connection, stream: str) -> dict[str, int]:
    """How many messages each subject of a stream has."""
    answer = await core.ask(f"$JS.API.STREAM.INFO.{stream}", b'{"subjects_filter":">"}')
    counts: dict[str, int] = json.loads(answer.data)["state"].get("subjects") or {}
    return counts


async def acknowledged(connection: Connection, subject: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    ack: dict[str, Any] = json.loads((await connection.ask(subject, b"{}", headers)).data)
    return ack


async def test_a_user_gets_the_acknowledgement_of_a_submit_and_a_repeated_one_is_stored_as_well(
    core: Connection, login: Logins
) -> None:
    alice = await login("acme-alice")
    answers = [await acknowledged(alice, SUBMIT) for _ in range(2)]
    assert answers == [{"stream": "SUBMIT", "seq": 1}] * 2
    assert await subjects(core, SUBMIT_STREAM) == {SUBMIT: 2}


async def test_a_node_appends_its_records_conditional_on_its_last(core: Connection, login: Logins) -> None:
    ledger = JetStreamLog(core, LEDGER_STREAM)
    node = await login("node-gpu01")
    subject = "hr.ledger.node.gpu01"
    expected = "Nats-Expected-Last-Subject-Sequence"
    assert await acknowledged(node, subject, {expected: "0"}) == {"stream": "LEDGER", "seq": 1}
    assert await acknowledged(node, subject, {expected: "1"}) == {"stream": "LEDGER", "seq": 2}
    assert (await acknowledged(node, subject, {expected: "1"}))["error"]["err_code"] == 10071
    assert await ledger.tip() == 2


@pytest.mark.parametrize(
    "subject", ["hr.ledger.allocator", "hr.ledger.node.gpu01", "hr.feed.acme.job.ended.x", "hr.orders.gpu01"]
)
async def test_a_user_cannot_write_what_is_not_a_users_to_write(core: Connection, login: Logins, subject: str) -> None:
    alice = await login("acme-alice")
    with pytest.raises(LogRefused, match="may not publish"):
        await alice.ask(subject, b"{}")
    assert await subjects(core, LEDGER_STREAM) == {}


@pytest.mark.parametrize(
    "subject", ["hr.submit.acme.bob.dev.half", "hr.cancel.acme.bob.x", "hr.requeue.acme.bob.x", "hr.query.feed.jobs.acme.bob"]
)
async def test_a_user_cannot_speak_as_another_user(core: Connection, login: Logins, subject: str) -> None:
    alice = await login("acme-alice")
    with pytest.raises(LogRefused, match="may not publish"):
        await alice.ask(subject, b"{}")
    assert await subjects(core, SUBMIT_STREAM) == {}


@pytest.mark.parametrize("outsider", ["acme-alice", "owner", "node-gpu01"])
async def test_no_account_outside_core_has_the_jetstream_api(core: Connection, login: Logins, outsider: str) -> None:
    stranger = await login(outsider)
    for what in ("INFO", "STREAM.INFO.LEDGER", "STREAM.PURGE.LEDGER", "CONSUMER.CREATE.LEDGER.x", "STREAM.MSG.GET.LEDGER"):
        with pytest.raises(LogRefused, match="may not publish"):
            await stranger.ask(f"$JS.API.{what}", b"{}")
    assert core.is_connected


async def test_the_owner_of_a_laptop_may_submit_as_any_user_but_not_write_the_ledger(core: Connection, login: Logins) -> None:
    owner = await login("owner")
    assert await acknowledged(owner, "hr.submit.acme.bob.dev.half") == {"stream": "SUBMIT", "seq": 1}
    with pytest.raises(LogRefused):
        await owner.ask("hr.ledger.governance", b"{}")
    assert await subjects(core, LEDGER_STREAM) == {}


REPLIES = ("hr.ledger.allocator", "hr.ledger.node.gpu02", "hr.submit.acme.bob.dev.half")


async def test_an_acknowledgement_sent_elsewhere_writes_nothing(core: Connection, login: Logins) -> None:
    alice, node = await login("acme-alice"), await login("node-gpu01")
    for reply in REPLIES:
        await alice.publish(SUBMIT, b"{}", reply=reply)
        await node.publish("hr.ledger.node.gpu01", b"{}", reply=reply)
    assert await acknowledged(alice, SUBMIT) == {"stream": "SUBMIT", "seq": 1}
    assert await acknowledged(node, "hr.ledger.node.gpu01") == {"stream": "LEDGER", "seq": len(REPLIES) + 1}
    await _settled(alice, node, core)
    assert await subjects(core, SUBMIT_STREAM) == {SUBMIT: len(REPLIES) + 1}
    assert await subjects(core, LEDGER_STREAM) == {"hr.ledger.node.gpu01": len(REPLIES) + 1}


async def test_an_answer_sent_elsewhere_writes_nothing(core: Connection, login: Logins) -> None:
    node, feed = await login("node-gpu01"), await login("feed")
    asked: list[str] = []

    async def answer(question: Msg) -> None:
        asked.append(question.subject)
        await question.respond(b"a record, as it were")

    await feed.subscribe("hr.query.orders.node.*", cb=answer)
    await feed.flush()
    for reply in REPLIES:
        await node.publish("hr.query.orders.node.gpu01", b"{}", reply=reply)
    await _settled(node, feed, core)
    assert len(asked) == len(REPLIES)
    assert (await subjects(core, SUBMIT_STREAM), await subjects(core, LEDGER_STREAM)) == ({}, {})


async def test_a_consumer_cannot_be_made_to_deliver_into_the_ledger(core: Connection, login: Logins) -> None:
    alice = await login("acme-alice")
    request = {"stream_name": "SUBMIT", "config": {"deliver_subject": "hr.ledger.allocator", "ack_policy": "none", "name": "x"}}
    with pytest.raises(LogRefused):
        await alice.ask("$JS.API.CONSUMER.CREATE.SUBMIT.x", json.dumps(request).encode())
    await acknowledged(alice, SUBMIT)
    await _settled(alice, core)
    assert await subjects(core, LEDGER_STREAM) == {}


async def test_one_node_cannot_write_or_speak_for_another(core: Connection, login: Logins) -> None:
    node = await login("node-gpu01")
    for subject in (
        "hr.ledger.node.gpu02",
        "hr.ledger.allocator",
        "hr.telemetry.gpu02.heartbeat",
        "hr.query.orders.node.gpu02",
    ):
        with pytest.raises(LogRefused, match="may not publish"):
            await node.ask(subject, b"{}")
    assert await subjects(core, LEDGER_STREAM) == {}


@pytest.mark.parametrize(
    "header",
    [
        {"Nats-Rollup": "all"},
        {"Nats-TTL": "1s"},
        {"Nats-Batch-Id": "x", "Nats-Batch-Sequence": "1"},
        {"Nats-Expected-Last-Subject-Sequence": "9", "Nats-Expected-Last-Subject-Sequence-Subject": "hr.submit.other.>"},
    ],
)
async def test_headers_of_a_user_do_not_reach_the_stream(core: Connection, login: Logins, header: dict[str, str]) -> None:
    alice = await login("acme-alice")
    answers = [await acknowledged(alice, SUBMIT), await acknowledged(alice, SUBMIT, header)]
    assert answers == [{"stream": "SUBMIT", "seq": 1}] * 2
    assert await subjects(core, SUBMIT_STREAM) == {SUBMIT: 2}


@pytest.mark.parametrize(
    "header", [{"Nats-Rollup": "all"}, {"Nats-TTL": "1s"}, {"Nats-Batch-Id": "x", "Nats-Batch-Sequence": "1"}]
)
async def test_headers_of_a_node_that_would_change_the_ledger_are_refused(
    core: Connection, login: Logins, header: dict[str, str]
) -> None:
    node, subject = await login("node-gpu01"), "hr.ledger.node.gpu01"
    await acknowledged(node, subject)
    assert "error" in await acknowledged(node, subject, header)
    assert await subjects(core, LEDGER_STREAM) == {subject: 1}


@pytest.mark.parametrize(
    "service", ["admission", "allocator", "preemption", "governance", "feed", "accounting", "audit", "provisioner"]
)
async def test_a_service_writes_the_ledger_in_its_own_name_only_and_reads_it(
    core: Connection, login: Logins, service: str
) -> None:
    connection = await login(service)
    for writer in ("admission", "allocator", "preemption", "governance", "audit", "provisioner"):
        if writer == service:
            assert await acknowledged(connection, f"hr.ledger.{writer}") == {"stream": "LEDGER", "seq": 1}
        else:
            with pytest.raises(LogRefused):
                await connection.ask(f"hr.ledger.{writer}", b"{}")
    await core.ask("hr.ledger.node.gpu01", b"{}")
    log = JetStreamLog(connection, LEDGER_STREAM)
    tip = await log.tip()
    reader = await log.read(0)
    read = 0
    while read < tip:
        read = (await reader.batch(wait=10))[-1].sequence
    assert read == tip
    await reader.close()
    with pytest.raises(LogRefused):
        await log.purge_through(1)


@pytest.mark.parametrize("service", [*SERVICES, CALLOUT_USER])
async def test_the_operator_asks_a_service_how_it_is_and_users_and_nodes_do_not(
    core: Connection, login: Logins, service: str
) -> None:
    await (connection := await login(service)).subscribe(f"hr.query.{service}.>", cb=_echo)
    await connection.flush()
    asked = f"hr.query.{service}.status.default.operator"
    assert (await core.ask(asked)).data == f"{asked}: ".encode()
    for outsider, who in (("acme-alice", "acme.alice"), ("owner", "default.owner"), ("node-gpu01", "acme.gpu01")):
        stranger = await login(outsider)
        for what in ("status", "jobs", "apply"):
            with pytest.raises(LogRefused, match="may not publish"):
                await stranger.ask(f"hr.query.{service}.{what}.{who}")
    assert core.is_connected


async def test_a_node_answers_for_its_logs_and_hears_its_orders_only(core: Connection, login: Logins) -> None:
    node, feed = await login("node-gpu01"), await login("feed")
    orders: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(order: Msg) -> None:
        orders.put_nowait(order.data)

    await node.subscribe("hr.logs.gpu01", cb=_echo)
    await node.subscribe("hr.orders.gpu01", cb=receive)
    await node.subscribe("hr.orders.gpu02", cb=receive)  # not allowed: the server says so and nothing comes
    await node.flush()
    assert (await feed.ask("hr.logs.gpu01", b"from 0")).data == b"hr.logs.gpu01: from 0"
    await feed.publish("hr.orders.gpu02", b"for the other")
    await feed.publish("hr.orders.gpu01", b"for this one")
    assert await asyncio.wait_for(orders.get(), PATIENCE) == b"for this one"
    assert core.is_connected


async def test_the_feed_reaches_users_of_its_tenant(core: Connection, login: Logins) -> None:
    alice, feed = await login("acme-alice_feed"), await login("feed")
    facts: asyncio.Queue[str] = asyncio.Queue()

    async def receive(fact: Msg) -> None:
        facts.put_nowait(fact.subject)

    await alice.subscribe("hr.feed.>", cb=receive)  # not allowed
    await alice.subscribe("hr.feed.acme.>", cb=receive)
    await alice.flush()
    await acknowledged(feed, "hr.feed.other.job.ended.a")
    await acknowledged(feed, "hr.feed.acme.job.ended.b")
    assert await asyncio.wait_for(facts.get(), PATIENCE) == "hr.feed.acme.job.ended.b"
    assert core.is_connected


async def test_a_login_with_a_wrong_password_is_told_so(login: Logins, nats_server: Any) -> None:
    from headrace.bus.nats.connection import connect

    with pytest.raises(LogRefused, match="look at the user and the password"):
        await connect(nats_server.url, "allocator", "wrong")
    with pytest.raises(LogUnavailable, match="no listener on"):
        await (await login("acme-alice")).ask("hr.requeue.acme.alice.x")


async def _echo(question: Msg) -> None:
    await question.respond(f"{question.subject}: ".encode() + question.data)


async def _settled(*connections: Connection) -> None:
    """Everything these have published, and every answer to it, has been through the server."""
    for _ in range(3):
        for connection in connections:
            await connection.flush()
