"""A real executor on a real bus, and the part of the feed, played by the test."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from headrace.bus.log import LogUnavailable
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.contracts.facts import AnyFact, LeaseEndedV1, LeaseRungV1, LeaseStartedV1
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.facts.records import digest
from headrace.contracts.messages.orders import Heartbeat, LogsRequest, NodeAnswer, Orders, StartOrder, StopOrder
from headrace.contracts.messages.queries import LogsAnswer
from headrace.contracts.transport.codec import decode, decode_record, encode
from headrace.nats_client.connection import Connection
from headrace.node_executor.system import orphans
from tests import commands
from tests.patience import PATIENCE

NODE = "gpu01"
LADDER = Ladder(cause="preempted", callback_grace=10_000_000, term_grace=10_000_000, preemptor="acme.bob.x")


class Feed:
    """What the feed does for one node: keeps what it should run, tells it, answers it, and reads what it states."""

    def __init__(self, feed: Connection, operator: Connection) -> None:
        self.connection = feed
        self._log = JetStreamLog(operator, "LEDGER")
        self._numbers = count(1)
        self._sequences = count(100)
        self._last = (0, "")
        self.starts: dict[str, StartOrder] = {}
        self.stops: dict[str, StopOrder] = {}
        self.facts: list[AnyFact] = []
        self.heartbeats: list[Heartbeat] = []

    async def begin(self) -> None:
        await self.connection.subscribe("hr.query.orders.node.*", cb=self._answer)
        await self.connection.subscribe("hr.telemetry.gpu01.heartbeat", cb=self._beat)

    async def read(self) -> None:
        """Fold the ledger, through whatever befalls the server."""
        position = 0
        while True:
            try:
                reader = await self._log.read(position)
                while True:
                    for message in await reader.batch():
                        position = message.sequence
                        self._fold(message.sequence, message.payload)
            except LogUnavailable:
                await asyncio.sleep(0.05)

    async def start(
        self,
        number: int,
        *command: str,
        devices: tuple[str | DeviceShare, ...] = (),
        amounts: dict[str, int] | None = None,
        user: str = "alice",
        **fields: Any,
    ) -> str:
        """Order a job with these devices, whole ones where only their names are given; its key."""
        job = f"acme.{user}.01j9z3k4m5n6p7q8r9s0{number:06d}"
        shares = tuple(
            device if isinstance(device, DeviceShare) else DeviceShare(device=device, units=126_000) for device in devices
        )
        granted = next(self._sequences)
        order = StartOrder(
            lease=f"{job}/1/0",
            job=job,
            attempt=1,
            granted=granted,
            devices=shares,
            amounts=amounts or {},
            command=command,
            **fields,
        )
        self.starts[order.lease] = order
        await self.push(starts=(order,))
        return job

    async def stop(self, job: str, ladder: Ladder = LADDER) -> None:
        lease = f"{job}/1/0"
        self.stops[lease] = StopOrder(lease=lease, ordered=next(self._sequences), ladder=ladder)
        await self.push(stops=(self.stops[lease],))

    async def go_on(self, job: str) -> None:
        """Take the stop of a suspended job back."""
        lease = f"{job}/1/0"
        del self.stops[lease]
        await self.push(starts=(self.starts[lease],))

    async def read_log(self, job: str) -> LogsAnswer:
        message = await self.connection.ask("hr.logs.gpu01", encode(LogsRequest(job=job, attempt=1)))
        return decode(message.data, LogsAnswer)

    async def subscribe(self, subject: str, callback: Callable[[Any], Awaitable[None]]) -> None:
        await self.connection.subscribe(subject, cb=callback)

    async def publish_orders(self, payload: bytes) -> None:
        await self.connection.publish("hr.orders.gpu01", payload)

    def of(self, job: str, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind) and fact.job == job]

    def count(self, kind: type[AnyFact]) -> int:
        return sum(isinstance(fact, kind) for fact in self.facts)

    async def started(self, job: str) -> LeaseStartedV1:
        await until(lambda: self.of(job, LeaseStartedV1))
        return self.of(job, LeaseStartedV1)[0]

    async def ended(self, job: str) -> LeaseEndedV1:
        await until(lambda: self.of(job, LeaseEndedV1))
        return self.of(job, LeaseEndedV1)[0]

    def rungs(self, job: str) -> list[tuple[str, str]]:
        return [(fact.rung, fact.result) for fact in self.of(job, LeaseRungV1)]

    async def push(self, starts: tuple[StartOrder, ...] = (), stops: tuple[StopOrder, ...] = ()) -> None:
        orders = Orders(node=NODE, number=next(self._numbers), through=next(self._sequences), starts=starts, stops=stops)
        await self.connection.publish("hr.orders.gpu01", encode(orders))

    def _fold(self, sequence: int, payload: bytes) -> None:
        record = decode_record(payload)
        assert record.by == "node.gpu01"
        self._last = (sequence, digest(payload))
        self.facts.extend(record.facts)
        for fact in record.facts:
            if isinstance(fact, LeaseEndedV1):
                self.starts.pop(f"{fact.job}/1/0", None)
                self.stops.pop(f"{fact.job}/1/0", None)

    async def _answer(self, message: Any) -> None:
        starts = tuple(order for lease, order in self.starts.items() if lease not in self.stops)
        answer = NodeAnswer(
            node=NODE,
            through=next(self._sequences),
            last_record=self._last[0],
            last_digest=self._last[1],
            starts=starts,
            stops=tuple(self.stops.values()),
        )
        await message.respond(encode(answer))

    async def _beat(self, message: Any) -> None:
        self.heartbeats.append(decode(message.data, Heartbeat))


class Executor:
    """The process under test; it can be killed and started again on the same directory."""

    def __init__(self, directory: Path, server: Any) -> None:
        self.data = directory / "node"
        self._log = directory / "executor.log"
        self._server = server
        self.process: subprocess.Popen[bytes] | commands.Process | None = None
        self.path = ""
        """A directory before those of the PATH."""

    def start(self, *arguments: str) -> None:
        words = ["--name", NODE, "--data", str(self.data), "--labels", "site=hq", "--devices", "sim:2xH100-80GB"]
        pace = ["--cpus", "8", "--memory", "64GiB", "--heartbeat", "100ms", "--ask-every", "200ms", "--stop-grace", "5s"]
        words += ["--address", "gpu01.example", "--containers", "off"]
        login = {
            "HEADRACE_NATS_URL": self._server.url,
            "HEADRACE_NATS_USER": "node-gpu01",
            "HEADRACE_NATS_PASSWORD": "secret-gpu01",
        }
        path = {"PATH": f"{self.path}:{os.environ['PATH']}"} if self.path else {}
        command, env = (
            (sys.executable, "-m", "headrace.node_executor", "run", *words, *pace, *arguments),
            os.environ | login | path,
        )
        with self._log.open("ab") as log:
            if "nvml" in arguments:  # a variable leads to the mock, and is read while a program is executed
                self.process = subprocess.Popen(command, env=env, stderr=log)
            else:
                self.process = commands.fork(command, log.fileno(), log.fileno(), env)

    async def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = await asyncio.to_thread(self.process.wait, PATIENCE)
        self.process = None
        return code

    @property
    def jobs(self) -> list[int]:
        return orphans.started_from(f"{self.data}/leases")


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def until_printed(feed: Feed, job: str, text: str, *, beginning: bool = False) -> None:
    async with asyncio.timeout(PATIENCE):
        while (printed := (await feed.read_log(job)).data) != text and not (beginning and printed.startswith(text)):
            await asyncio.sleep(0.01)
