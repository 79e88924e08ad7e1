"""What survives what, with counts: `make durability`.

Each line is a promise: something is lost (a process, the power, a server with its disk, the database, a node), and everything that had been
acknowledged before is looked for afterwards. Beside the power cuts stands the same with the server's own default, which syncs now and then:
it loses what was acknowledged, so that one sees that these tests would.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import asyncpg
import psutil
import structlog

from headrace.bus.log import LogError, LogRefused
from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.contracts.transport.subjects import LEDGER_STREAM, ledger
from headrace.nats_client.connection import Connection
from headrace.supervisor.installation import Installation, Settings
from headrace.supervisor.nats import servers
from headrace.supervisor.processes import process_specs
from headrace.supervisor.processes.child_processes import Child, Children
from headrace.supervisor.processes.postgres import accepts, prepare
from headrace.supervisor.processes.readiness import until_ready
from tests.chaos import whole
from tests.chaos.power import Machine, why_not

WRITERS = 8
BYTES = 400
NEAR = 200
"""Messages that a server which keeps up may be behind while others write all the time."""


class Line(NamedTuple):
    """One promise: what was lost how often, how much had been acknowledged, how much of it is gone, and what else there is to say."""

    what: str
    times: int
    acknowledged: int
    lost: int
    note: str = ""
    control: bool = False


class Writing:
    """Appends by several writers at once; `stored`: the digest of all that was acknowledged, by sequence."""

    def __init__(self, bus: Connection) -> None:
        self.stored: dict[int, str] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self._log = JetStreamLog(bus, LEDGER_STREAM)

    def start(self) -> None:
        self.tasks = [asyncio.create_task(self._write(number)) for number in range(WRITERS)]

    async def _write(self, number: int) -> None:
        while True:
            payload = os.urandom(BYTES)
            try:
                sequence = await self._log.append(ledger(f"node.n{number}"), payload, None)
            except LogError:
                await asyncio.sleep(0.02)
            else:
                self.stored[sequence] = _digest(payload)

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def missing(bus: Connection, stored: dict[int, str]) -> int:
    """How much of it is not there, or another thing."""
    log = JetStreamLog(bus, LEDGER_STREAM)
    try:
        tip = await log.tip()
    except LogRefused:  # the stream itself is gone
        return len(stored)
    reader = await log.read(0)
    found: dict[int, str] = {}
    while len(found) < tip:
        for message in await reader.batch(wait=10.0):
            found[message.sequence] = _digest(message.payload)
    await reader.close()
    return sum(found.get(sequence) != digest for sequence, digest in stored.items())


def _digest(payload: bytes) -> str:
    return blake2b(payload, digest_size=16).hexdigest()


async def _server(installation: Installation, children: Children, *, lazily: bool = False) -> tuple[Child, Connection]:
    """One NATS server on this data, with a connection as the operator; `lazily`: it syncs when it likes to."""
    ports = servers.choose(installation.settings())
    if lazily:
        installation.write_nats_config(ports.clients)
        (place,) = installation.servers()
        place.config.write_text(place.config.read_text().replace(", sync_interval: always", ""))
        started = children.start(*process_specs.nats_servers(installation))
        await until_ready(started[0], lambda: servers.listens(ports.clients[0]))
    else:
        started = await servers.start(installation, children, ports)
    operator = installation.operator()
    return started[0], await connect(ports.url(), operator.name, operator.password, name="durability")


async def power_cuts(folder: Path, times: int, *, lazily: bool = False) -> Line:
    """The power goes in the middle of appends, again and again, on the same disk."""
    lost = acknowledged = 0
    with Machine(folder) as machine:
        installation = Installation(machine.directory / "data")
        installation.prepare()
        installation.keep_settings(Settings(host="power"))
        for number in range(times + 1):
            children = Children(installation.logs, lambda: None)
            server, bus = await _server(installation, children, lazily=lazily)
            await ensure_streams(bus)
            writing = Writing(bus)
            if number < times:
                writing.start()
                await asyncio.sleep(1.0 + 0.13 * number)
                os.kill(server.pid, signal.SIGSTOP)
                await asyncio.sleep(0.05)  # acknowledgements that are under way count
                await writing.stop()
                await asyncio.to_thread(machine.cut)
            os.kill(server.pid, signal.SIGKILL)
            await children.stop(at_once=True)
            await bus.close()
            if number == times:
                break
            machine.reboot()
            children = Children(installation.logs, lambda: None)
            server, bus = await _server(installation, children, lazily=lazily)
            gone = await missing(bus, writing.stored)
            acknowledged, lost = acknowledged + len(writing.stored), lost + gone
            await bus.close()
            await children.stop()
    what = "power cut, NATS syncing by its own default (control)" if lazily else "power cut, NATS server"
    return Line(what, times, acknowledged, lost, control=lazily)


async def power_cuts_of_the_books(folder: Path, times: int) -> Line:
    """The same with PostgreSQL as we set it up, in the middle of commits."""
    lost = acknowledged = 0
    with Machine(folder) as machine:
        installation = Installation(machine.directory / "data")
        installation.prepare()
        committed: list[int] = []
        for number in range(times + 1):
            children = Children(installation.logs, lambda: None)
            database = await asyncio.to_thread(prepare, installation.postgres, installation.postgres_password())
            (server,) = children.start(process_specs.postgres(database))
            await until_ready(server, lambda dsn=database.dsn: accepts(dsn))  # type: ignore[misc]
            connection = await asyncpg.connect(database.dsn)
            await connection.execute("CREATE TABLE IF NOT EXISTS kept (number bigint PRIMARY KEY)")
            there = {row["number"] for row in await connection.fetch("SELECT number FROM kept")}
            lost += sum(one not in there for one in committed)
            acknowledged += len(committed)
            committed = []
            if number < times:
                writing = asyncio.create_task(_commit(connection, max(there, default=0), committed))
                await asyncio.sleep(1.0 + 0.13 * number)
                pids = _family(server.pid)
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(0.05)
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
                connection.terminate()
                await asyncio.to_thread(machine.cut)
                for pid in reversed(pids):
                    os.kill(pid, signal.SIGKILL)
            else:
                await connection.close()
            await children.stop(at_once=number < times)
            if number < times:
                machine.reboot()
    return Line("power cut, PostgreSQL", times, acknowledged, lost)


async def _commit(connection: asyncpg.Connection, last: int, committed: list[int]) -> None:
    while True:
        last += 1
        await connection.execute("INSERT INTO kept VALUES ($1)", last)
        committed.append(last)


def _family(pid: int) -> list[int]:
    process = psutil.Process(pid)
    return [pid, *(child.pid for child in process.children(recursive=True))]


async def lost_servers(folder: Path, times: int) -> Line:
    """Of three servers one is killed and its disk removed; it comes back empty. Then another one is, and so on: all copies are new."""
    installation = Installation(folder / "data")
    installation.prepare()
    installation.keep_settings(Settings(host="lost", nats_servers=3))
    children = Children(installation.logs, lambda: None)
    took: list[float] = []
    try:
        ports = servers.choose(installation.settings())
        started = await servers.start(installation, children, ports)
        operator = installation.operator()
        bus = await connect(ports.url(), operator.name, operator.password, name="durability")
        await servers.until_streams(bus, 3)
        writing = Writing(bus)
        writing.start()
        for number in range(times):
            await asyncio.sleep(2.0)
            place, child = installation.servers()[number % 3], started[number % 3]
            place.store.rename(place.store.with_name(f"gone-{number}"))
            os.kill(child.pid, signal.SIGKILL)
            began = time.monotonic()
            await _until_whole(bus)
            took.append(time.monotonic() - began)
        await writing.stop()
        gone = await missing(bus, writing.stored)
        await bus.close()
    finally:
        await children.stop(at_once=True)
    note = f"each time whole again after {min(took):.1f} to {max(took):.1f} s"
    return Line("one of three NATS servers, with its disk", times, len(writing.stored), gone, note)


async def _until_whole(bus: Connection) -> None:
    """All three have everything: a leader, and two that follow and are current."""
    seen, deadline = 0, time.monotonic() + 90
    while seen < 10:
        if time.monotonic() > deadline:
            raise RuntimeError("a server that was lost does not catch up")
        try:
            led = servers.standing((await bus.ask(f"$JS.API.STREAM.INFO.{LEDGER_STREAM}")).data)
        except LogError:
            led = None
        whole = (
            led is not None and led.leader and [one.lag < NEAR and not one.offline for one in led.replicas or ()] == [True] * 2
        )
        seen = seen + 1 if whole else 0
        await asyncio.sleep(0.2)


async def _each(options: argparse.Namespace) -> list[Line]:
    """All of them, one after the other."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    times = options.times
    no_power = why_not()
    todo: list[tuple[str, Callable[[Path], Awaitable[list[Line]]]]] = []

    async def one(line: Awaitable[Line]) -> list[Line]:
        return [await line]

    if not no_power:
        todo += [
            ("power cuts of NATS", lambda folder: one(power_cuts(folder, times))),
            ("power cuts of a server that syncs now and then", lambda folder: one(power_cuts(folder, 2, lazily=True))),
            ("power cuts of PostgreSQL", lambda folder: one(power_cuts_of_the_books(folder, times))),
        ]
    else:
        print(f"without power cuts: {no_power}")
    todo += [
        ("lost NATS servers", lambda folder: one(lost_servers(folder, max(3, times // 2)))),
        ("a whole installation: kills, a lost database, a lost node", whole.losses),
    ]
    lines: list[Line] = []
    for what, measure in todo:
        if options.only and options.only not in what:
            continue
        print(f"  {what} ...", file=sys.stderr, flush=True)
        folder = await asyncio.to_thread(_folder)
        try:
            lines += [Line(*line) for line in await measure(folder)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return lines


def _folder() -> Path:
    """Through which PostgreSQL's account may pass."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-durability-", dir="/tmp"))
    folder.chmod(0o711)
    return folder


def main() -> int:
    """1 where something that was acknowledged is gone."""
    parser = argparse.ArgumentParser(prog="make durability", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="power cuts of each (default: 10)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only those that are called so")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    lines = asyncio.run(_each(options))
    print(f"{'LOST':<58}{'TIMES':>6}{'ACKNOWLEDGED':>14}{'GONE':>6}  ")
    for line in lines:
        print(f"{line.what:<58}{line.times:>6}{line.acknowledged:>14}{line.lost:>6}  {line.note}")
    if options.json:
        options.json.write_text(json.dumps([line._asdict() for line in lines], indent=2), encoding="utf-8")
    blind = [line for line in lines if line.control and not line.lost]
    for line in blind:
        print(f"{line.what}: nothing was lost, so this machine cannot show that the others would be seen")
    return 1 if blind or any(line.lost for line in lines if not line.control) else 0


if __name__ == "__main__":
    sys.exit(main())
