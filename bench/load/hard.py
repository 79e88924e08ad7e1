"""Hard times, one after the other, under a steady load: what a slow reader, a poison message, a full disk or a database that is away
costs all others, and whether anything is lost.

Ten jobs a second. For each time: how long a job takes from its submit to its end (the median, and the 99th of a hundred) while it
lasts, what was refused and in which words, and how long afterwards until everything is worked off. Resident memory of every process
stands beside it.

`python -m bench.load.hard [--seconds 10] [--json FILE]`, or `make load`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from bench.load.installed import (
    Count,
    Memory,
    counted,
    headrace,
    is_verified,
    pid,
    restarts,
    show_progress,
    site,
    until,
    violations,
)
from bench.load.poison import poisoned
from bench.load.rolling import DOCUMENTS
from bench.options import options
from headrace.client import HeadraceError, connect
from headrace.client.client import Client
from headrace.client.endpoint import read_login
from headrace.client.submissions import make_submission
from headrace.contracts.messages.tokens import FEED_SUFFIX
from headrace.supervisor.installation import Installation
from headrace.supervisor.service_query import ask_service, operator_client

RATE = 10
STALLED = 20
"""Subscribers of FEED, and watchers over HTTP, that read nothing."""


class Steady:
    """The load; `submitted`: when each job was acknowledged."""

    def __init__(self, count: Count) -> None:
        self.submitted: dict[str, float] = {}
        self.refused: Counter[str] = Counter()
        self.ended: dict[str, float] = {}
        self._count = count

    async def run(self, client: Client) -> None:
        """Until cancelled. One that is not answered delays no other."""
        running: set[asyncio.Task[None]] = set()
        while True:
            task = asyncio.create_task(self._one(client))
            running.add(task)
            task.add_done_callback(running.discard)
            await asyncio.sleep(1 / RATE)

    async def _one(self, client: Client) -> None:
        began = time.monotonic()
        try:
            (job,) = await client.submit_many("bench/one", [make_submission(["true"])])
        except HeadraceError as error:
            self.refused[str(error)[:160]] += 1
        else:
            self.submitted[job.key] = began

    async def note(self) -> None:
        """When each ended, until cancelled."""
        while True:
            for key in self.submitted.keys() - self.ended.keys():
                if key in self._count.ended:
                    self.ended[key] = time.monotonic()
            await asyncio.sleep(0.02)

    def took(self, since: float, until_then: float) -> list[float]:
        """Milliseconds of the jobs that were submitted in that time and have ended."""
        mine = [key for key, at in self.submitted.items() if since <= at < until_then and key in self.ended]
        return sorted(1_000 * (self.ended[key] - self.submitted[key]) for key in mine)


@asynccontextmanager
async def nothing(_folder: Path) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def stalled_subscribers(folder: Path) -> AsyncIterator[None]:
    """Users who subscribe to all of FEED and read nothing of it."""
    home = Installation(folder)
    login = read_login(home.credentials / "owner.json")
    url = urlsplit(json.loads(home.endpoint.read_text("utf-8"))["url"])
    sockets = []
    for _ in range(STALLED):
        one = socket.create_connection((str(url.hostname), int(url.port or 0)))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connect_options = json.dumps(
            {"user": login.name + FEED_SUFFIX, "pass": login.password, "verbose": False, "pedantic": False}
        )
        one.sendall(f"CONNECT {connect_options}\r\nSUB hr.feed.> 1\r\n".encode())
        sockets.append(one)
    yield
    for one in sockets:
        one.close()


@asynccontextmanager
async def stalled_watchers(folder: Path) -> AsyncIterator[None]:
    """Callers of `jobs:watch` who read nothing of the answer."""
    token = (await asyncio.to_thread(headrace, "token", "create", "--admin", "--data", str(folder))).stdout.split()[-1]
    url = urlsplit(json.loads(Installation(folder).endpoint.read_text("utf-8"))["api"])
    sockets = []
    for _ in range(STALLED):
        one = socket.create_connection((str(url.hostname), int(url.port or 0)))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.sendall(f"GET /v1/tenants/default/jobs:watch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        sockets.append(one)
    yield
    for one in sockets:
        one.close()


@asynccontextmanager
async def _stopped(*processes: int) -> AsyncIterator[None]:
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            if psutil.pid_exists(process):
                os.kill(process, signal.SIGCONT)


@asynccontextmanager
async def node_stopped(folder: Path) -> AsyncIterator[None]:
    """One of two executors is stopped."""
    part = max(name for name in restarts(folder) if name.startswith("node-"))
    async with _stopped(pid(folder, part)):
        yield


@asynccontextmanager
async def books_stalled(folder: Path) -> AsyncIterator[None]:
    """PostgreSQL and all of its processes are stopped: connections stay open without an answer."""
    server = psutil.Process(pid(folder, "postgres"))
    async with _stopped(server.pid, *(child.pid for child in server.children(recursive=True))):
        yield


@asynccontextmanager
async def books_away(folder: Path) -> AsyncIterator[None]:
    """PostgreSQL is killed, and killed again as soon as it is there."""

    async def kill() -> None:
        while True:
            if process := pid(folder, "postgres"):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            await asyncio.sleep(0.2)

    killing = asyncio.create_task(kill())
    yield
    if killing.done():
        killing.result()  # an error of its own: the database was not away
    killing.cancel()


@asynccontextmanager
async def disk_full(folder: Path) -> AsyncIterator[None]:
    """The disk on which NATS keeps the streams is full to the last page."""
    filler = Installation(folder).nats_store / "filler"
    found = os.statvfs(filler.parent)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - 4096)
    yield
    filler.unlink()


TIMES = {
    "nothing": nothing,
    "FEED subscribers stall": stalled_subscribers,
    "HTTP watchers stall": stalled_watchers,
    "poison on every subject": poisoned,
    "a node is stopped": node_stopped,
    "Postgres stalls": books_stalled,
    "Postgres is away": books_away,
    "the disk of NATS is full": disk_full,
    "nothing again": nothing,
}


async def measure(folder: Path, seconds: float, *, with_disk: bool) -> dict[str, Any]:
    """Each time in turn."""
    rows, memory = list[dict[str, Any]](), Memory(folder)
    looking = asyncio.create_task(memory.keep_looking())
    asking = operator_client(Installation(folder))
    async with counted(folder) as (count, _), connect(data=folder, user="bench") as client, asking as operator:
        steady = Steady(count)
        work = [asyncio.create_task(steady.run(client)), asyncio.create_task(steady.note())]
        await asyncio.sleep(3.0)
        for name, times in TIMES.items():
            if name == "the disk of NATS is full" and not with_disk:
                continue
            rows.append(await _hard(folder, name, times, seconds, steady, count))
        work[0].cancel()
        lost = await until(lambda: not steady.submitted.keys() - count.ended.keys(), lambda: "the last jobs end", 120)
        tip = count.records[-1].sequence
        books = await until(lambda: _in_books(operator, tip), lambda: "the books catch up", 120)
        for task in [*work, looking]:
            task.cancel()
        await asyncio.gather(*work, looking, return_exceptions=True)
        memory.note()
        found = {
            "rows": rows,
            "acknowledged": len(steady.submitted),
            "lost": len(steady.submitted.keys() - count.ended.keys()),
            "ended_twice": count.twice,
            "states": dict(count.states),
            "nodes_lost": count.lost,
            "worked_off_s": round(lost, 1),
            "books_caught_up_s": round(books, 1),
            "restarts": {name: times for name, times in restarts(folder).items() if times},
            "violations": violations(count.records, "hr.ledger.node.poison")[:5],
        }
    return {**found, "audit_verify": await asyncio.to_thread(is_verified, folder), "memory_mib": memory.table()}


async def _hard(folder: Path, name: str, times: Any, seconds: float, steady: Steady, count: Count) -> dict[str, Any]:
    refused = Counter(steady.refused)
    began = time.monotonic()
    async with times(folder) as report:
        show_progress(f"{name}, for {seconds:g} s")
        await asyncio.sleep(seconds)
    ended = time.monotonic()
    after = await until(
        lambda: all(key in count.ended for key, at in list(steady.submitted.items()) if at < ended),
        lambda: f"after: {name}",
        240,
    )
    await asyncio.sleep(0.1)
    took = steady.took(began, ended)
    return {
        "time": name,
        "jobs": len(took),
        "p50_ms": round(statistics.median(took)) if took else None,
        "p99_ms": round(took[max(0, -(-99 * len(took) // 100) - 1)]) if took else None,
        "worked_off_s": round(after, 1),
        "refused": dict(steady.refused - refused),
        **({"report": report} if report else {}),
    }


async def _in_books(operator: Client, tip: int) -> bool:
    books = await ask_service(operator, "accounting")
    return books is not None and books.folded >= tip


def main() -> None:
    """The table."""
    parser = options("bench.load.hard", __doc__, "7 minutes")
    parser.add_argument("--seconds", type=float, default=10.0, help="that each hard time lasts")
    parser.add_argument("--json", metavar="FILE", help="write the figures into this file as well")
    args = parser.parse_args()
    with site(DOCUMENTS, "--nodes", "2", "--gpus", "32", disk_mib=3_000) as folder:
        with_disk = os.path.ismount(Installation(folder).nats_store)
        found = asyncio.run(measure(folder, args.seconds, with_disk=with_disk))
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2), encoding="utf-8")
    print(f"hard times of {args.seconds:g} s each, {RATE} jobs a second; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if not with_disk:
        print("  no full disk: a file system of its own takes root")
    for row in found.pop("rows"):
        print(
            f"  {row['time']:<26} {row['jobs']:>4} jobs, p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms; done {row['worked_off_s']} s after"
        )
        for text, times in row["refused"].items():
            print(f"      {times} x refused: {text}")
        for text in row.get("report", ()):
            print(f"      {text}")
    memory = found.pop("memory_mib")
    for name, value in found.items():
        print(f"  {name:<26} {value}")
    print(f"  {'resident MiB':<28} {'before':>8} {'peak':>8} {'after':>8}")
    for row in memory:
        print(f"  {row['part']:<28} {row['before']:>8} {row['peak']:>8} {row['after']:>8}")
    sys.exit(bool(found["lost"] or found["ended_twice"] or found["violations"] or not found["audit_verify"]))


if __name__ == "__main__":
    main()
