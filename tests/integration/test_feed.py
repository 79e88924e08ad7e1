"""The feed on a real NATS server, with the accounts it has to get along with."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import pytest

from headrace.bus.follower import Follower
from headrace.bus.log import LogUnavailable
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.text_encryption import Keyring
from headrace.contracts.messages.orders import NodeAnswer, Orders
from headrace.contracts.transport.codec import decode
from headrace.contracts.transport.subjects import FEED_STREAM, LEDGER_STREAM, node_query, orders
from headrace.feed.service import KEYS, Feed
from headrace.service.fold import LedgerFold, wall_clock
from headrace.service.task_group import run_until_first_ends
from tests.integration.writers import Writers, job
from tests.patience import PATIENCE


class Received:
    """What a login has heard on a subject. `until` waits for a message that passes."""

    def __init__(self):
        self.messages = []
        self._news = asyncio.Event()

    async def receive(self, message):
        self.messages.append(message)
        self._news.set()

    async def until(self, passes):
        async with asyncio.timeout(PATIENCE):
            while True:
                found = next((message for message in self.messages if passes(message)), None)
                if found is not None:
                    return found
                self._news.clear()
                await self._news.wait()


async def listen(connection, subject):
    received = Received()
    await connection.subscribe(subject, cb=received.receive)
    await connection.flush()
    return received


@pytest.fixture
async def writers(login):
    """Streams, documents and a node."""
    await ensure_streams(await login("operator"))
    writers = Writers(login)
    await writers.documents()
    return writers


@pytest.fixture
def keyring(tmp_path):
    return Keyring(tmp_path / KEYS)


@pytest.fixture
async def feed(login, writers, keyring):
    """A feed at work."""
    connection = await login("feed")
    logs = (JetStreamLog(connection, LEDGER_STREAM), JetStreamLog(connection, FEED_STREAM))
    follower = Follower(logs[0], LedgerFold(), wall_clock)
    feed = Feed(connection, follower, *logs, keyring.open)
    await feed.find_place()
    task = asyncio.create_task(run_until_first_ends(follower.run(), feed.run()))
    async with asyncio.timeout(PATIENCE):
        await feed.caught_up.wait()
    yield feed
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def answered(connection, subject):
    """The first answer of a service that may not be there yet."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await connection.ask(subject)
            except LogUnavailable:
                await asyncio.sleep(0.05)


async def test_a_grant_reaches_its_node_with_the_text_opened_and_its_tenant_without(login, writers, keyring, feed):
    pushed = await listen(await login("node-gpu01"), orders("gpu01"))
    published = await listen(await login("acme-alice_feed"), "hr.feed.acme.>")
    foreign = await listen(await login("node-gpu02"), orders("gpu02"))
    await writers.admit(keyring, 1)
    sequence = await writers.grant(1)
    push = decode((await pushed.until(lambda _: True)).data, Orders)
    assert (push.node, push.number, push.through) == ("gpu01", 1, sequence)
    assert [(start.lease, start.command) for start in push.starts] == [(f"{job(1)}/1/0", ("train", "1"))]
    message = await published.until(lambda message: ".lease.granted." in message.subject)
    assert json.loads(message.data)["sequence"] == sequence
    assert [message.subject.rpartition(".")[0] for message in published.messages[:2]] == [
        "hr.feed.acme.job.admitted",
        "hr.feed.acme.lease.granted",
    ]
    assert not [message for message in published.messages if b"train" in message.data]
    assert foreign.messages == []


async def test_a_node_asks_for_all_it_should_be_running(login, writers, keyring, feed):
    await writers.admit(keyring, 1)
    granted = await writers.grant(1)
    node = await login("node-gpu01")
    async with asyncio.timeout(PATIENCE):
        answer = NodeAnswer(node="", through=0, last_record=0)
        while answer.through < granted:
            answer = decode((await node.ask(node_query("gpu01"))).data, NodeAnswer)
    assert (answer.node, answer.last_record) == ("gpu01", 2)
    assert [(start.lease, start.granted, start.command) for start in answer.starts] == [
        (f"{job(1)}/1/0", granted, ("train", "1"))
    ]


async def test_what_happens_while_the_server_is_away_and_back_is_pushed_and_told(nats_server, login, writers, keyring, feed):
    node, listener = await login("node-gpu01"), await login("acme-alice_feed")
    pushed, published = await listen(node, orders("gpu01")), await listen(listener, "hr.feed.acme.>")
    await writers.admit(keyring, 1)
    await published.until(lambda message: ".job.admitted." in message.subject)
    nats_server.kill()
    nats_server.start()

    async def retrying(call):
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await call()
                except LogUnavailable:
                    await asyncio.sleep(0.05)

    # the restarted server has no FEED, which is in memory; a feed that was publishing when the server went waits until it is there
    operator = await login("operator")
    await retrying(lambda: ensure_streams(operator))
    # a push without a listener is lost, on purpose: so all are back before there is something to hear
    await retrying(lambda: node.ask(node_query("gpu01")))
    async with asyncio.timeout(PATIENCE):
        while not listener.is_connected:
            await asyncio.sleep(0.01)
    await listener.flush()
    await retrying(lambda: writers.grant(1))
    push = decode((await pushed.until(lambda _: True)).data, Orders)
    assert [start.lease for start in push.starts] == [f"{job(1)}/1/0"]
    await published.until(lambda message: ".lease.granted." in message.subject)


async def test_the_process_starts_answers_and_stops_when_asked(nats_server, login, writers, keyring, tmp_path):
    await writers.admit(keyring, 1)
    await writers.grant(1)
    node = await login("node-gpu01")
    pushed = await listen(node, orders("gpu01"))
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HEADRACE_NATS_URL": nats_server.url,
        "HEADRACE_NATS_PASSWORD": nats_server.credentials["feed"].password,
        "HEADRACE_DATA": str(tmp_path),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headrace.feed", env=os.environ | environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        push = decode((await pushed.until(lambda _: True)).data, Orders)
        assert [start.command for start in push.starts] == [("train", "1")]
        answer = decode((await answered(node, node_query("gpu01"))).data, NodeAnswer)
        assert [start.command for start in answer.starts] == [("train", "1")]
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
