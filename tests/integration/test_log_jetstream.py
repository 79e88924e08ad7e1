"""What only the real log can suffer: servers that die, messages that get lost on the way, streams that lose messages, poison."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from headrace.bus.log import LogBroken, LogReader, LogRefused, LogUnavailable, Message
from headrace.bus.nats import jetstream_reader
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import STREAMS, StreamMismatch, ensure_streams
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import NodeCordonedV1
from headrace.contracts.facts.records import digest
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.transport.subjects import FEED_STREAM, LEDGER_STREAM, SUBMIT_STREAM, parse_submit
from headrace.contracts.values.ids import IdError
from headrace.service.intake import Intake
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from headrace.nats_client.connection import Connection
    from headrace.nats_client.raw_message import RawMessage

    from .conftest import Logins, NatsServer

LEDGER = "hr.ledger.governance"


@pytest.fixture
async def operator(login: Logins) -> Connection:
    connection: Connection = await login("operator")
    await ensure_streams(connection)
    return connection


async def _take(reader: LogReader, count: int, limit: int = 1_000) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        batch = await reader.batch(min(limit, count - len(messages)), wait=PATIENCE)
        assert batch, f"only {len(messages)} of {count} came"
        messages += batch
    return messages


async def _fill(connection: Connection, subject: str, payloads: Iterable[bytes]) -> None:
    """Publish all of these; the last is acknowledged when all are stored."""
    last = b""
    for payload in payloads:
        if last:
            await connection.publish(subject, last)
        last = payload
    await connection.ask(subject, last, within=PATIENCE)


def _sequences(messages: list[Message]) -> list[int]:
    return [message.sequence for message in messages]


async def _api(connection: Connection, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        (await connection.ask(f"$JS.API.{what}", json.dumps(body).encode() if body else b"")).data
    )
    return answer


async def test_a_reader_survives_the_death_of_the_server_in_the_middle(nats_server: NatsServer, operator: Connection) -> None:
    log = JetStreamLog(operator, LEDGER_STREAM)
    await _fill(operator, LEDGER, (b"%d" % n for n in range(200)))
    reader = await log.read(0)
    messages = await _take(reader, 50, limit=20)
    nats_server.kill()
    messages += await _take(reader, 10, limit=10)  # what had arrived before it died
    waiting = asyncio.ensure_future(_take(reader, 241))
    nats_server.start()
    chain = Chain(log, "allocator", "1.0")
    assert await chain.append(1, 0, ()) == 201
    await _fill(operator, LEDGER, (b"%d" % n for n in range(100)))
    messages += await waiting
    assert _sequences(messages) == list(range(1, 302))
    await reader.close()


async def test_a_chain_survives_servers_that_die_under_it_and_stores_each_record_once(
    nats_server: NatsServer, operator: Connection
) -> None:
    chain = Chain(JetStreamLog(operator, LEDGER_STREAM, timeout=1.0), "governance", "1.0")
    count = 300
    facts = [(NodeCordonedV1(node=f"n{n}", author="alice"),) for n in range(count)]

    async def state() -> None:
        for n in range(count):
            await chain.append(n, n, facts[n])

    stating = asyncio.ensure_future(state())
    for after in (60, 120, 180):
        while chain.last < after and not stating.done():
            await asyncio.sleep(0)
        nats_server.kill()
        nats_server.start()
    await stating
    reader = await JetStreamLog(operator, LEDGER_STREAM).read(0)
    messages = await _take(reader, count)
    records = [decode_record(message.payload) for message in messages]
    assert [record.facts for record in records] == facts
    assert [record.prev for record in records] == ["", *(digest(message.payload) for message in messages[:-1])]
    assert await JetStreamLog(operator, LEDGER_STREAM).tip() == count
    await reader.close()


@pytest.mark.parametrize(("count", "buffer"), [(20_000, jetstream_reader.BUFFER_MESSAGES), (4_000, 500)])
async def test_a_slow_reader_loses_nothing_and_keeps_its_buffer_small(operator: Connection, count: int, buffer: int) -> None:
    subject = "hr.feed.acme.job.ended.x"
    await _fill(operator, subject, (b"%d" % n for n in range(count)))
    log = JetStreamLog(operator, FEED_STREAM)
    decoder = jetstream_reader.as_message
    reader = jetstream_reader.JetStreamReader(
        operator, FEED_STREAM, 0, log.state, log.at, decoder, begins_late=False, buffer_messages=buffer
    )
    fullest, payloads = 0, []
    while len(payloads) < count:
        payloads += [message.payload for message in await reader.batch(97, wait=PATIENCE)]
        fullest = max(fullest, reader.buffered)
        await asyncio.sleep(0)  # the server goes on sending meanwhile
    assert payloads == [b"%d" % n for n in range(count)]
    assert fullest <= buffer
    await reader.close()


async def test_the_server_stops_sending_to_a_reader_that_takes_nothing(operator: Connection) -> None:
    payload = bytes(100_000)
    count = 200
    await _fill(operator, "hr.feed.acme.job.ended.x", (payload for _ in range(count)))
    reader = await JetStreamLog(operator, FEED_STREAM, begins_late=False).read(0)
    first = await reader.batch(1, wait=PATIENCE)
    previous = -1
    while reader.buffered != previous:
        previous = reader.buffered
        for _ in range(5):
            await operator.flush()
    assert reader.buffered < count / 2, "20 MB were sent to a reader that has taken one message"
    assert _sequences(first + await _take(reader, count - 1)) == list(range(1, count + 1))
    await reader.close()


async def test_a_message_lost_on_the_way_is_fetched_again(operator: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive = jetstream_reader.JetStreamReader.receive
    lost: list[str] = []

    def losing(reader: jetstream_reader.JetStreamReader, generation: int, message: RawMessage) -> None:
        if message.data == b"7" and not lost:
            lost.append(message.reply)
            return
        arrive(reader, generation, message)

    monkeypatch.setattr(jetstream_reader.JetStreamReader, "receive", losing)
    await _fill(operator, LEDGER, (b"%d" % n for n in range(20)))
    reader = await JetStreamLog(operator, LEDGER_STREAM).read(0)
    assert [message.payload for message in await _take(reader, 20)] == [b"%d" % n for n in range(20)]
    assert len(lost) == 1
    await reader.close()


async def test_the_last_message_lost_on_the_way_is_noticed_by_a_heartbeat(
    operator: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream_reader, "HEARTBEAT", 0.1)
    arrive = jetstream_reader.JetStreamReader.receive
    lost: list[str] = []

    def losing(reader: jetstream_reader.JetStreamReader, generation: int, message: RawMessage) -> None:
        if message.data == b"2" and not lost:
            lost.append(message.reply)
            return
        arrive(reader, generation, message)

    monkeypatch.setattr(jetstream_reader.JetStreamReader, "receive", losing)
    await _fill(operator, LEDGER, (b"0", b"1", b"2"))
    reader = await JetStreamLog(operator, LEDGER_STREAM).read(0)
    assert [message.payload for message in await _take(reader, 3)] == [b"0", b"1", b"2"]
    assert len(lost) == 1
    await reader.close()


async def test_a_consumer_the_server_forgot_is_made_again(operator: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream_reader, "HEARTBEAT", 0.1)
    monkeypatch.setattr(jetstream_reader, "SILENCE", 0.3)
    await _fill(operator, LEDGER, (b"0",))
    reader = await JetStreamLog(operator, LEDGER_STREAM).read(0)
    messages = await _take(reader, 1)
    (consumer,) = (await _api(operator, "CONSUMER.NAMES.LEDGER"))["consumers"]
    assert (await _api(operator, f"CONSUMER.DELETE.LEDGER.{consumer}"))["success"]
    await _fill(operator, LEDGER, (b"1", b"2"))
    assert _sequences(messages + await _take(reader, 2)) == [1, 2, 3]
    await reader.close()


async def test_a_message_missing_in_the_middle_of_the_stream_stops_the_reader(operator: Connection) -> None:
    await _api(operator, "STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["hr.other"]})
    await _fill(operator, "hr.other", (b"%d" % n for n in range(10)))
    assert (await _api(operator, "STREAM.MSG.DELETE.OTHER", {"seq": 5}))["success"]
    reader = await JetStreamLog(operator, "OTHER").read(0)
    assert _sequences(await _take(reader, 4)) == [1, 2, 3, 4]
    for _ in range(2):
        with pytest.raises(LogBroken, match="has a gap: after 4 comes 6"):
            await reader.batch(wait=PATIENCE)
    await reader.close()


async def test_no_user_deletes_a_message_of_the_ledger(operator: Connection) -> None:
    await _fill(operator, LEDGER, (b"0",))
    answer = await _api(operator, "STREAM.MSG.DELETE.LEDGER", {"seq": 1})
    assert "message delete not permitted" in answer["error"]["description"]


async def test_a_stream_that_was_replaced_under_the_reader_stops_it(
    operator: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream_reader, "HEARTBEAT", 0.1)
    monkeypatch.setattr(jetstream_reader, "SILENCE", 0.3)
    await _fill(operator, LEDGER, (b"0", b"1"))
    reader = await JetStreamLog(operator, LEDGER_STREAM).read(0)
    await _take(reader, 2)
    await _api(operator, "STREAM.DELETE.LEDGER")
    await ensure_streams(operator)
    with pytest.raises(LogBroken, match="lost its end"):
        await reader.batch(wait=PATIENCE)
    await reader.close()


def _published(subject: bytes, headers: bytes | None = None) -> bytes:
    """What a client without manners puts on the wire."""
    if headers is None:
        return b"PUB %b 2\r\nhi\r\n" % subject
    return b"HPUB %b %d %d\r\n%bhi\r\n" % (subject, len(headers), len(headers) + 2, headers)


QUEUE = b"hr.submit.acme.alice.dev.half"
NO_TOKENS = (b"\xff", b"a\x0cb", b"\x0b", b"\x85", b"\x00", b"A_B")
NO_HEADERS = (
    b"NATS/1.0 \xff\xff\xff bad\r\n\r\n",
    b"NATS/1.0 100 \xff\r\n\r\n",
    b"NATS/1.0\r\nStatus: 100\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 999\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0\r\n",
    b"garbage",
    b"",
)
POISON = (
    *(_published(b"hr.submit.acme.alice.%b.half" % token) for token in NO_TOKENS),
    *(_published(QUEUE, h) for h in NO_HEADERS),
)


async def test_no_message_a_submitter_can_send_stops_the_intake(
    nats_server: NatsServer, operator: Connection, login: Logins
) -> None:
    passing_on, alice = await login("admission"), await login("acme-alice")
    taking_in = asyncio.create_task(Intake(passing_on).run())
    await passing_on.flush()
    for raw in POISON:
        await asyncio.to_thread(_send_raw, nats_server, raw, "acme-alice")
    answer = await alice.ask("hr.submit.acme.alice.dev.half", b"good")
    taking_in.cancel()
    await asyncio.gather(taking_in, return_exceptions=True)
    log = JetStreamLog(operator, SUBMIT_STREAM)
    reader = await log.read(0)
    messages = await _take(reader, await log.tip())
    assert json.loads(answer.data) == {"stream": "SUBMIT", "seq": 1}
    assert (len(messages), messages[-1].payload) == (len(POISON) + 1, b"good")
    assert (passing_on.stats["reconnects"], operator.stats["reconnects"]) == (0, 0)
    await reader.close()


async def test_no_message_of_whatever_subject_and_headers_stops_the_readers_of_submit(
    nats_server: NatsServer, operator: Connection
) -> None:
    for raw in POISON:
        await asyncio.to_thread(_send_raw, nats_server, raw, "operator")
    await _fill(operator, "hr.submit.acme.bob.dev.half", (b"good",))
    log = JetStreamLog(operator, SUBMIT_STREAM)
    tip = await log.tip()
    assert tip == len(POISON) + 1
    reader = await log.read(0)
    messages = await _take(reader, tip)
    assert _sequences(messages) == list(range(1, tip + 1))
    assert (messages[-1].payload, operator.stats["reconnects"]) == (b"good", 0)
    for message in messages[: len(NO_TOKENS)]:
        with pytest.raises(IdError):
            parse_submit(message.subject)
    await reader.close()


def _send_raw(server: NatsServer, raw: bytes, who: str) -> None:
    """Publish without any client that would tidy up."""
    password = server.credentials[who].password
    login = {"user": who, "pass": password, "headers": True, "verbose": False, "pedantic": False}
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as wire:
        wire.settimeout(PATIENCE)
        stream = wire.makefile("rwb")
        assert stream.readline().startswith(b"INFO")
        stream.write(b"CONNECT " + json.dumps(login).encode() + b"\r\n" + raw + b"PING\r\n")
        stream.flush()
        assert stream.readline() == b"PONG\r\n"


async def test_what_is_too_large_is_refused(operator: Connection) -> None:
    log = JetStreamLog(operator, LEDGER_STREAM)
    with pytest.raises(LogRefused, match="message size exceeds"):
        await log.append(LEDGER, bytes(600 * 1024), 0)
    with pytest.raises(LogRefused, match="takes at most"):
        await log.append(LEDGER, bytes(9 * 1024 * 1024), 0)
    assert await log.append(LEDGER, bytes(512 * 1024), 0) == 1


async def test_who_may_not_append_is_refused_and_a_missing_stream_is_told(login: Logins, operator: Connection) -> None:
    with pytest.raises(LogRefused, match="may not publish to hr.ledger.allocator"):
        await JetStreamLog(await login("preemption"), LEDGER_STREAM).append("hr.ledger.allocator", b"x", 0)
    with pytest.raises(LogRefused, match="stream not found"):
        await JetStreamLog(operator, "OTHER").tip()
    with pytest.raises(LogUnavailable, match="no listener on hr.other"):
        await JetStreamLog(operator, "OTHER").append("hr.other", b"x", 0)


async def test_an_append_in_flight_fails_at_once_when_the_server_dies(nats_server: NatsServer, operator: Connection) -> None:
    await operator.subscribe("hr.silent")
    asking = asyncio.ensure_future(operator.ask("hr.silent", within=3600))
    await operator.flush()
    nats_server.kill()
    with pytest.raises(LogUnavailable, match="went away"):
        await asking
    with pytest.raises(LogUnavailable, match="NATS is away"):
        await operator.ask("hr.silent")


async def test_a_service_waits_for_a_server_that_is_not_up_yet(nats_server: NatsServer) -> None:
    nats_server.kill()
    with structlog.testing.capture_logs() as lines:
        waiting = asyncio.ensure_future(nats_server.connect("allocator"))
        while not lines:
            await asyncio.sleep(0)
        nats_server.start()
        connection = await asyncio.wait_for(waiting, PATIENCE)
    assert [line["event"] for line in lines] == ["nats_awaited"]
    assert connection.is_connected
    await connection.close()


async def test_streams_are_made_once_updated_where_they_may_be_and_refused_where_they_are_others(
    operator: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ensure_streams(operator)
    monkeypatch.setitem(STREAMS, SUBMIT_STREAM, STREAMS[SUBMIT_STREAM] | {"max_msgs_per_subject": 7})
    await ensure_streams(operator)
    config = (await _api(operator, "STREAM.INFO.SUBMIT"))["config"]
    assert (config["max_msgs_per_subject"], config["discard_new_per_subject"]) == (7, True)
    await _api(operator, "STREAM.DELETE.LEDGER")
    await _api(operator, "STREAM.CREATE.LEDGER", {"name": "LEDGER", "subjects": ["hr.ledger.>"], "storage": "memory"})
    with pytest.raises(
        StreamMismatch, match=r"LEDGER exists with other settings: subjects is .* storage is memory, has to be file"
    ):
        await ensure_streams(operator)
