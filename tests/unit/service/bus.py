"""A NATS server in memory: two streams, subscriptions, and what was published."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import structlog

from headrace.bus.memory import MemoryLog
from headrace.bus.nats.object_store import MemoryObjects
from headrace.bus.process import Service
from headrace.contracts.documents.model import Group, Policy, PolicyProfile, Pool, Profile
from headrace.contracts.facts import GroupAppliedV1, NodeRegisteredV1, PolicyAppliedV1, PoolAppliedV1, ProfileAppliedV1
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.messages.queries import Answer
from headrace.contracts.transport.codec import decode, decode_record, encode
from headrace.contracts.transport.subjects import LEDGER_STREAM, SUBMIT_STREAM, ledger
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.health.health import Health
from headrace.service.snapshots import Snapshots
from tests.patience import PATIENCE

START = 1_800_000_000 * SECOND
JOB_ID = make_job_id(START // 1_000, bytes(10))
JOB = job_key("default", "ann", JOB_ID)


class Bus:
    """It is `connection` and both logs at once. `now` is the clock of all."""

    is_connected = True

    def __init__(self):
        self.now = START
        self.ledger = MemoryLog(self.clock)
        self.submits = MemoryLog(self.clock, begins_late=True)
        self.objects = MemoryObjects()
        self.subscriptions = {}
        self.published = []

    def clock(self):
        return self.now

    def log(self, _connection, stream):
        """In place of `JetStreamLog`."""
        return {LEDGER_STREAM: self.ledger, SUBMIT_STREAM: self.submits}[stream]

    def over(self, _connection, _log=None):
        """In place of `Snapshots.over`."""
        return Snapshots(self.objects, self.ledger)

    def service(self, name, data=Path("data")):
        """What a service finds when it starts."""
        return Service(name, self, data, structlog.get_logger(), Health(name))

    async def subscribe(self, subject, cb):
        self.subscriptions[subject] = cb

    async def publish(self, subject, payload):
        self.published.append((subject, payload))

    async def send(self, subscription, subject, payload=b"", reply="_INBOX.reply"):
        """Deliver a message to who has subscribed."""
        await self.subscriptions[subscription](SimpleNamespace(subject=subject, data=payload, reply=reply))

    async def ask(self, subscription, subject, payload=b""):
        """The answer to a question."""
        before = len(self.published)
        await self.send(subscription, subject, payload)
        await until(lambda: len(self.published) > before)
        return decode(self.published[-1][1], Answer)

    def state(self, by, *facts, **more):
        """A record on the ledger, as another process would write it; its sequence."""
        last = self.ledger.last_of(ledger(by))
        prev = digest(last.payload) if last and not by.startswith("node.") else ""
        record = Record(**({"by": by, "now": self.now, "engine": "test", "as_of": 0, "prev": prev, "facts": facts} | more))
        return self.ledger.append_now(ledger(by), encode(record), None)

    def hall(self, *nodes):
        """One pool with the nodes, of two GPUs each, and the queue `q/one`."""
        self.state(
            "governance",
            GroupAppliedV1(author="a.b", group=Group(name="all", members=("ann",))),
            PoolAppliedV1(author="a.b", pool=Pool(name="hall", selector={"site": "hq"})),
            ProfileAppliedV1(author="a.b", profile=Profile(name="one", request={GPU: GPU_UNITS}, pools=("hall",))),
            PolicyAppliedV1(author="a.b", policy=Policy(name="q", group="all", profiles=(PolicyProfile(name="one"),))),
        )
        for node in nodes:
            self.register(node)

    def register(self, node):
        """The node comes up."""
        devices = tuple(Device(device=name, model="H100-80GB", memory=81_920) for name in ("gpu0", "gpu1"))
        self.state(
            f"node.{node}",
            NodeRegisteredV1(node=node, labels={"site": "hq"}, devices=devices, cpu=8_000, memory=65_536, at=self.now),
        )

    def stated(self, by):
        """All facts of a writer, in order."""
        messages = [message for message in self.ledger.messages_after(0) if message.subject == ledger(by)]
        return [fact for message in messages for fact in decode_record(message.payload).facts]


async def until(condition):
    """Let the others work until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)


@asynccontextmanager
async def running(work):
    """The work goes on meanwhile; an end of its own is raised."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled():
        task.result()
