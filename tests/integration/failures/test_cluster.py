"""What three servers answer: to one sender who could harm a stream, and while a stream has no leader."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nats
import pytest
from nats import errors
from nats.aio.client import Client as Nats

from headrace.bus.log import LogUnavailable, WrongLast
from headrace.bus.loop import retrying
from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.object_store import JetStreamObjects
from headrace.bus.nats.streams import ensure_stream, ensure_streams
from headrace.client import Unreachable, following
from headrace.client import client as client_module
from headrace.client.client import Client
from headrace.client.contexts import Targets
from headrace.client.endpoint import ConnectionTarget, Login
from headrace.client.submissions import make_submission
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import decode_submit
from headrace.contracts.transport.subjects import FEED_STREAM, LEDGER_STREAM, SNAPSHOT_BUCKET, SNAPSHOT_STREAM, SUBMIT_STREAM
from headrace.feed.outgoing_message import FeedMessage
from headrace.feed.publisher import Publisher
from headrace.governance.api.submit_batcher import SubmitBatcher
from headrace.nats_client.connection import Connection
from headrace.supervisor.nats import leaderless_stream
from headrace.supervisor.nats.leaderless_stream import MADE_ANEW, Leaderless
from headrace.supervisor.nats.servers import StreamStatus, standing
from headrace.supervisor.network.ports import free_port
from tests.integration.conftest import binary
from tests.patience import PATIENCE

WRONG_LAST_ID = 10_070
AGAIN = 0.1


class OneOfThree:
    """A server that can be killed and started again."""

    def __init__(self, address: str, command: list[str], log: Path) -> None:
        self.address = address
        self._command, self._log = command, log
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)


@pytest.fixture
def three_servers(tmp_path: Path) -> Iterator[dict[str, OneOfThree]]:
    """Three servers that know each other, by name."""
    ports = [free_port() for _ in range(6)]
    clients, routes = ports[:3], ports[3:]
    known = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
    servers: dict[str, OneOfThree] = {}
    with ExitStack() as stack:
        for number, (client, route) in enumerate(zip(clients, routes, strict=True)):
            own = ["--name", f"s{number}", "--store_dir", str(tmp_path / str(number)), "--port", str(client)]
            cluster = ["--cluster_name", "c", "--cluster", f"nats://127.0.0.1:{route}", "--routes", known]
            command = [binary(), "--addr", "127.0.0.1", "--jetstream", *own, *cluster]
            server = servers[f"s{number}"] = OneOfThree(f"nats://127.0.0.1:{client}", command, tmp_path / f"{number}.log")
            stack.callback(server.kill)
        yield servers


async def asked(connection: Nats, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> dict[str, object]:
    """The answer; asked again while no answer comes, or the servers have not found each other."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(errors.TimeoutError, errors.NoRespondersError):
                answer = json.loads((await connection.request(subject, payload, timeout=5, headers=headers)).data)
                if answer.get("error", {}).get("code") != 503:
                    return answer


async def test_a_message_on_a_condition_that_does_not_hold_is_refused_and_the_next_one_is_taken(
    three_servers: dict[str, OneOfThree],
) -> None:
    connection = await nats.connect([server.address for server in three_servers.values()], connect_timeout=5)
    try:
        stream = {"name": "S", "subjects": ["s.>"], "storage": "file", "num_replicas": 3, "duplicate_window": 120_000_000_000}
        await asked(connection, "$JS.API.STREAM.CREATE.S", json.dumps(stream).encode())
        first = await asked(connection, "s.a", b"1", {"Nats-Msg-Id": "one"})
        refused = await asked(connection, "s.a", b"2", {"Nats-Expected-Last-Msg-Id": "another"})
        next_one = await asked(connection, "s.a", b"3")
    finally:
        await connection.close()

    assert (first["seq"], refused["error"]["err_code"], next_one["seq"]) == (1, WRONG_LAST_ID, 2)


async def test_snapshots_are_away_while_one_server_waits_for_the_others_and_read_when_they_are_back(
    three_servers: dict[str, OneOfThree],
) -> None:
    first, *others = three_servers.values()
    connection = await connect(",".join(server.address for server in three_servers.values()))
    try:
        await retrying(lambda: ensure_stream(connection, SNAPSHOT_STREAM, 3))
        objects = JetStreamObjects(connection, SNAPSHOT_BUCKET)
        with suppress(WrongLast):  # an earlier try was stored, and its answer lost
            await retrying(lambda: objects.put("fold", b"a state"))
        for server in three_servers.values():
            server.kill()
        first.start()
        error = await unavailable_error(objects)
        for server in others:
            server.start()
        found = await retrying(lambda: objects.get("fold"))
    finally:
        await connection.close()

    assert (error, found) == (f"{SNAPSHOT_STREAM}: JetStream system temporarily unavailable (10008)", b"a state")


async def unavailable_error(objects: JetStreamObjects) -> str:
    """What a server answers that knows it has no leader; until it does, it is silent."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await objects.names()
            except LogUnavailable as error:
                if "(" in str(error):
                    return str(error)
            await asyncio.sleep(AGAIN)


class Counted:
    """What was tried while the bus was away."""

    def __init__(self, honest: Callable[..., Awaitable[Any]], failure: type[Exception]) -> None:
        self._honest, self._failure = honest, failure
        self.failed = 0

    async def __call__(self, *arguments: Any, **more: Any) -> Any:
        try:
            return await self._honest(*arguments, **more)
        except self._failure:
            self.failed += 1
            raise


async def test_submits_wait_within_their_deadline_for_servers_that_are_away(
    three_servers: dict[str, OneOfThree], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a client and by the gateway, which have no more to do with the outage than that they take longer."""
    others = list(three_servers.values())[1:]
    addresses = ",".join(server.address for server in three_servers.values())
    door = ConnectionTarget(addresses, Login(name="alice", password="", tenant="acme", user="alice"))
    monkeypatch.setattr(client_module, "find_targets", lambda _: Targets(None, door, "acme", "alice"))
    monkeypatch.setattr(following, "STORED_WITHIN", PATIENCE)
    connection, gathering = await connect(addresses), SubmitBatcher()
    log = JetStreamLog(connection, SUBMIT_STREAM)
    gateway = SimpleNamespace(append=Counted(log.append, LogUnavailable))
    try:
        await retrying(lambda: ensure_stream(connection, SUBMIT_STREAM, 3))
        async with Client("nats://") as client:
            link = await client.linked()
            monkeypatch.setattr(link, "ask", Counted(link.ask, Unreachable))
            for server in others:
                server.kill()
            submissions = [make_submission(["true"]) for _ in range(2)]
            storing = asyncio.create_task(
                gathering.store(gateway, subjects.submit("acme", "bob", "dev", "one"), submissions[:1], PATIENCE)
            )
            submitting = asyncio.create_task(client.submit_many("dev/one", submissions[1:]))
            async with asyncio.timeout(PATIENCE):
                while gateway.append.failed < 3 or link.ask.failed < 4:
                    await asyncio.sleep(AGAIN)
            for server in others:
                server.start()
            await asyncio.gather(storing, submitting)
        reader = await log.read(0)
        stored: set[str] = set()
        async with asyncio.timeout(PATIENCE):
            while stored != {submission.id for submission in submissions}:
                stored |= {submission.id for message in await reader.batch() for submission in decode_submit(message.payload)}
        await reader.close()
    finally:
        await connection.close()


async def test_feed_that_two_of_three_servers_cannot_agree_on_is_made_anew_and_told_what_it_has_missed(
    three_servers: dict[str, OneOfThree], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderless_stream, "WAITS_FOR", 2.0)
    connection = await connect(",".join(server.address for server in three_servers.values()))
    feed, messages = JetStreamLog(connection, FEED_STREAM), list[str]()
    publisher = Publisher(connection, feed)
    publisher.begin(0)
    tasks = [asyncio.create_task(publisher.run())]
    try:
        await retrying(lambda: ensure_streams(connection, 3))
        publisher.put([news(1)])
        await until(connection, FEED_STREAM, lambda _: publisher.published == 1)
        led = await until(connection, FEED_STREAM, lambda led: bool(led.leader))
        away = next(name for name in three_servers if name != led.leader)
        for name in (away, led.leader):
            three_servers[name].kill()
        three_servers[led.leader].start()
        await until(connection, LEDGER_STREAM, lambda led: bool(led.leader))
        publisher.put([news(2)])
        tasks.append(asyncio.create_task(Leaderless(connection, 3, messages.append).watch()))
        await until(connection, FEED_STREAM, lambda led: bool(led.leader) and publisher.published == 2)
        stored = [await retrying(lambda: feed.get(1)), await retrying(feed.tip)]
        three_servers[away].start()
        await until(connection, FEED_STREAM, lambda led: len([one for one in led.replicas or () if one.current]) == 2)
    finally:
        for task in tasks:
            task.cancel()
        await connection.close()

    assert (messages, stored[0] and stored[0].subject, stored[1]) == ([MADE_ANEW], news(2).subject, 1)


def news(sequence: int) -> FeedMessage:
    return FeedMessage(
        sequence, 1, f"hr.feed.acme.job.ended.{sequence}", json.dumps({"sequence": sequence, "number": 1}).encode()
    )


async def until(connection: Connection, stream: str, holds: Callable[[StreamStatus], bool]) -> StreamStatus:
    """How a stream stands as soon as that holds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(LogUnavailable):
                found = standing((await connection.ask(f"$JS.API.STREAM.INFO.{stream}")).data)
                if found is not None and holds(found):
                    return found
            await asyncio.sleep(AGAIN)
