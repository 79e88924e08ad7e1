"""Two feeds on one ledger: one is killed, or falls asleep, and FEED goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.bus.log import LogError
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.process import DEPOSED
from headrace.bus.text_encryption import KEYS, Keyring
from headrace.contracts.messages.orders import NodeAnswer
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport.codec import decode
from headrace.contracts.transport.subjects import FEED_STREAM, node_query, query
from tests.integration.twins import Twins
from tests.integration.writers import Writers, job
from tests.patience import PATIENCE

NAMES = ("feed", "feed-standby")
JOBS = 40


class Two(Twins):
    """The feed twice."""

    def __init__(self, server, login, directory: Path, stack: ExitStack) -> None:
        super().__init__("feed", server, directory, stack)
        self._login = login

    async def until(self, name: str, decides: int) -> None:
        """It says of itself that it tells, or stands by."""
        operator = await self._login("operator")
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, self.log_of(name).read_text()
            try:
                answer = decode((await operator.ask(query(name, "status", "default", "operator"), within=1.0)).data, Answer)
            except LogError:
                answer = None
            if answer is not None and decode(bytes(answer.body), ServiceView).detail.get("decides") == decides:
                return
            await asyncio.sleep(0.05)


@pytest.fixture
async def two(nats_server, login, tmp_path):
    await ensure_streams(await login("operator"))
    with ExitStack() as stack:
        yield Two(nats_server, login, tmp_path, stack)


async def facts_on(feed: JetStreamLog) -> list[tuple[str, dict[str, object]]]:
    """(subject, body) of all that FEED holds."""
    tip, found = await feed.tip(), []
    for sequence in range(1, tip + 1):
        message = await feed.get(sequence)
        assert message is not None
        found.append((message.subject, json.loads(message.payload)))
    return found


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
async def test_feed_goes_on_within_seconds_with_everything_in_order_and_nothing_twice(two, login, nats_server, tmp_path, blow):
    writers, keyring = Writers(login), Keyring(tmp_path / KEYS)
    await writers.documents()
    feed = JetStreamLog(await login("operator"), FEED_STREAM)
    for name, decides in zip(NAMES, (1, 0), strict=True):
        two.start(name)
        await two.until(name, decides)
    deliveries = Counter[tuple[int, int]]()

    async def receive(message):
        body = json.loads(message.data)
        deliveries[body["sequence"], body["number"]] += 1

    alice = await login("acme-alice_feed")
    await alice.subscribe("hr.feed.acme.>", cb=receive)
    await alice.flush()
    for number in range(1, JOBS + 1):
        await writers.admit(keyring, number)
        if number == JOBS // 2:
            two.processes["feed"].send_signal(blow)
    await two.until("feed-standby", decides=1)
    if blow == signal.SIGSTOP:
        two.processes["feed"].send_signal(signal.SIGCONT)
        assert await asyncio.to_thread(two.processes["feed"].wait, PATIENCE) == DEPOSED
    sequence = await writers.grant(1)
    node = await login("node-gpu01")
    answer = decode((await node.ask(node_query("gpu01"))).data, NodeAnswer)
    while answer.through < sequence:
        answer = decode((await node.ask(node_query("gpu01"))).data, NodeAnswer)
    assert [(start.job, start.command) for start in answer.starts] == [(job(1), ("train", "1"))]

    published = await facts_on(feed)
    async with asyncio.timeout(PATIENCE):
        while not any(".lease.granted." in subject for subject, _ in published):
            await asyncio.sleep(0.05)
            published = await facts_on(feed)
    places = [(body["sequence"], body["number"]) for _, body in published]
    assert places == sorted(set(places))
    assert [body["job"] for subject, body in published if ".job.admitted." in subject] == [
        job(number) for number in range(1, JOBS + 1)
    ]
    assert deliveries.keys() >= {
        place for place, (subject, _) in zip(places, published, strict=True) if ".queue.head." not in subject
    }

    two.processes["feed"].wait(PATIENCE)
    two.start("feed")
    await two.until("feed", decides=0)
