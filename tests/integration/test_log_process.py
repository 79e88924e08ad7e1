"""A service as a real process, with a real server: starts before it, lives through its death, stops in order, tells its fate."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.process import BROKEN, DEPOSED, FAILED, STOPPED
from headrace.bus.writer_chain import Chain
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.transport.subjects import LEDGER_STREAM
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import NatsServer


PROGRAM = '''
import asyncio
import time
from headrace.bus.writer_chain import Chain
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.follower import Follower
from headrace.bus.loop import Draft, ServiceLoop
from headrace.bus.process import freeze_present_objects, run_service
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.facts import NodeCordonedV1
from headrace.contracts.facts.records import digest

class Fold:
    sequence, now = 0, 0
    last = {}
    def read(self, message):
        record = decode_record(message.payload)
        self.sequence, self.now = message.sequence, max(self.now, record.now)
        self.last[record.by] = (message.sequence, digest(message.payload))
    def last_of(self, writer):
        return self.last.get(writer, (0, ""))

class EveryOther:
    """States one record behind each record of admission."""
    def __init__(self, fold):
        self.fold = fold
    def decide(self, now):
        if self.fold.last_of("admission")[0] <= self.fold.last_of("governance")[0]:
            return None
        return Draft((NodeCordonedV1(node="gpu01", author="alice"),))
    def next_wakeup(self):
        return None

async def main(service):
    log, fold = JetStreamLog(service.connection, "LEDGER"), Fold()
    follower = Follower(log, fold, lambda: time.time_ns() // 1000)
    follower.before_first.append(freeze_present_objects)
    loop = ServiceLoop(follower, log, Chain(log, "governance", "1"), EveryOther(fold))
    await asyncio.gather(follower.run(), loop.run())

run_service("governance", main)
'''


class Spawned:
    """A running service and what it has logged so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []

    def until(self, event: str) -> dict[str, Any]:
        """Read its log up to a line of that event."""
        assert self.process.stderr is not None
        for text in self.process.stderr:
            self.lines.append(json.loads(text))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]
        raise AssertionError(f"ended without {event}: {self.lines}")

    def code(self) -> int:
        return self.process.wait(PATIENCE)


Spawn = Callable[..., Spawned]


@pytest.fixture
def spawn(nats_server: NatsServer, tmp_path: Path) -> Iterator[Spawn]:
    """Starts the service above as a process; it is killed at the end of the test, if it still lives."""
    with ExitStack() as stack:

        def start(**environment: str) -> Spawned:
            settings = {
                "HEADRACE_NATS_URL": nats_server.url,
                "HEADRACE_NATS_USER": "governance",
                "HEADRACE_NATS_PASSWORD": nats_server.credentials["governance"].password,
                "HEADRACE_DATA": str(tmp_path),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            }
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", PROGRAM], env=os.environ | settings | environment, stderr=subprocess.PIPE, text=True
                )
            )
            stack.callback(process.kill)
            return Spawned(process)

        yield start


async def test_a_service_that_started_before_its_server_works_through_the_servers_death_and_stops_when_told(
    nats_server: NatsServer, spawn: Spawn
) -> None:
    operator = await nats_server.connect("operator")
    await ensure_streams(operator)
    nats_server.kill()
    service = spawn()
    assert service.until("nats_awaited")["url"] == nats_server.url
    nats_server.start()
    assert service.until("caught_up")["sequence"] == 0
    log = JetStreamLog(operator, LEDGER_STREAM)
    chain = Chain(log, "admission", "1")
    reader = await log.read(0)
    writers = []
    for n in range(4):
        if n == 2:
            nats_server.kill()
            nats_server.start()
        await chain.append(n, 0, ())
        while len(writers) < 2 * (n + 1):
            writers += [decode_record(message.payload).by for message in await reader.batch(wait=PATIENCE)]
    assert writers == ["admission", "governance"] * 4
    service.process.send_signal(signal.SIGTERM)
    assert (service.until("stopped")["service"], service.code()) == ("governance", STOPPED)
    await operator.close()


async def test_a_second_one_in_the_same_name_deposes_one_of_the_two(nats_server: NatsServer, spawn: Spawn) -> None:
    operator = await nats_server.connect("operator")
    await ensure_streams(operator)
    service = spawn()
    service.until("caught_up")
    log = JetStreamLog(operator, LEDGER_STREAM)
    # Behind the service's back a record of governance appears whose writer it does not know as its own: not in `by`.
    await log.append("hr.ledger.governance", Chain(log, "allocator", "1").encode(0, 0, ()), 0)
    await Chain(log, "admission", "1").append(1, 0, ())
    assert service.until("deposed")["reason"] == "another instance has written as governance: record 1"
    assert service.code() == DEPOSED
    await operator.close()


async def test_a_ledger_without_its_beginning_stops_the_process_loudly(nats_server: NatsServer, spawn: Spawn) -> None:
    operator = await nats_server.connect("operator")
    await ensure_streams(operator)
    log = JetStreamLog(operator, LEDGER_STREAM)
    chain = Chain(log, "admission", "1")
    for n in range(2):
        await chain.append(n, 0, ())
    await log.purge_through(1)
    service = spawn()
    assert "begins at 2" in service.until("log_broken")["reason"]
    assert service.code() == BROKEN
    await operator.close()


def test_a_wrong_password_is_one_clear_line_and_a_failure(spawn: Spawn) -> None:
    service = spawn(HEADRACE_NATS_PASSWORD="wrong")
    assert "does not let 'governance' in: look at the user and the password" in service.until("failed")["reason"]
    assert service.code() == FAILED


def test_a_signal_while_it_waits_for_its_server_stops_it(nats_server: NatsServer, spawn: Spawn) -> None:
    nats_server.kill()
    service = spawn()
    service.until("nats_awaited")
    service.process.send_signal(signal.SIGTERM)
    assert service.code() == STOPPED
