"""Q1: kill -9 of the active allocator (every fifth time of the active preemption as well) with hot standbys: time to the next grant.

A whole installation on this machine, jobs submitted all the while. From the signal until the ledger has stored the first grant of the one
that took over; then the next kill waits until both instances are there again. At the end an auditor who knows nothing but bytes
goes through the whole ledger, and every job whose submit was acknowledged has ended once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.installation import installation
from bench.options import options
from headrace.bus.nats.connection import connect as connect_bus
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.client import connect
from headrace.client.client import Client
from headrace.client.endpoint import read_login
from headrace.client.submissions import make_submission
from headrace.contracts.facts import JobEndedV1, LeaseGrantedV1
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import read_running
from headrace.supervisor.service_query import ask_service, operator_client
from tests.properties.auditor import Auditor

GPUS = 64
RATE = 20
"""Jobs submitted a second."""
PATIENCE = 60.0
WITH_PREEMPTION = 5
OLDER = "a record is older than the one before it"
"""What the auditor says of services that state something at the same moment; the log's time is the greatest so far (R34)."""


class Ledger:
    """Follows the ledger. `grants`: when each record with a grant was stored, microseconds; `messages`: all of them."""

    def __init__(self, log: JetStreamLog) -> None:
        self.messages: list[Any] = []
        self.grants: list[int] = []
        self.ended: Counter[str] = Counter()
        self._log = log

    async def follow(self) -> None:
        """Until cancelled."""
        reader = await self._log.read(0)
        while True:
            for message in await reader.batch():
                self.messages.append(message)
                facts = decode_record(message.payload).facts
                self.ended.update(fact.job.rpartition(".")[2] for fact in facts if isinstance(fact, JobEndedV1))
                if any(isinstance(fact, LeaseGrantedV1) for fact in facts):
                    self.grants.append(message.stamped)


async def _load(client: Client, submitted: list[str]) -> None:
    """One job after the other; what is answered counts."""
    while True:
        began = time.monotonic()
        done = await client.submit_many("bench/one", [make_submission(["true"])])
        submitted += [job.id for job in done]
        await asyncio.sleep(max(0.0, 1 / RATE - (time.monotonic() - began)))


async def _pair(client: Client, folder: Path, service: str) -> tuple[int, int]:
    """The processes of the one that decides and of the one that waits, once both are there and the second has caught up."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        views = {}
        for name in (service, f"{service}-standby"):
            view = await ask_service(client, name, 1.0)
            if view is None:
                break
            views[name] = view
        running = read_running(Installation(folder))
        deciding = sorted(views, key=lambda name: views[name].detail["decides"])
        if len(views) == 2 and [views[name].detail["decides"] for name in deciding] == [0, 1] and running is not None:
            waits, decides = (running.child(name) for name in deciding)
            behind = views[deciding[1]].folded - views[deciding[0]].folded
            if waits is not None and decides is not None and waits.pid and decides.pid and behind < 20:
                return decides.pid, waits.pid
        await asyncio.sleep(0.05)
    raise RuntimeError(f"{service}: there are no two instances")


async def measure(folder: Path, kills: int) -> dict[str, Any]:
    """Milliseconds to the next grant of each kill, sorted; and what went wrong."""
    home = Installation(folder)
    endpoint = json.loads(home.endpoint.read_text("utf-8"))
    operator = read_login(home.credentials / "operator.json")
    bus = await connect_bus(endpoint["url"], operator.name, operator.password)
    ledger = Ledger(JetStreamLog(bus, LEDGER_STREAM))
    taken: list[float] = []
    submitted: list[str] = []
    async with connect(data=folder, user="bench") as client, operator_client(home) as asking:
        work = [asyncio.create_task(ledger.follow()), asyncio.create_task(_load(client, submitted))]
        for number in range(1, kills + 1):
            decides, _ = await _pair(asking, folder, "allocator")
            if number % WITH_PREEMPTION == 0:
                os.kill((await _pair(asking, folder, "preemption"))[0], signal.SIGKILL)
            await asyncio.sleep(0.3)
            killed = time.time_ns() // 1_000
            os.kill(decides, signal.SIGKILL)
            deadline = time.monotonic() + PATIENCE
            while not ledger.grants or ledger.grants[-1] <= killed:
                if time.monotonic() > deadline or any(task.done() for task in work):
                    raise RuntimeError(f"no grant after kill {number}")
                await asyncio.sleep(0.005)
            taken.append((next(at for at in ledger.grants if at > killed) - killed) / 1_000)
            print(f"\r\x1b[K  kill {number} of {kills}: {taken[-1]:.0f} ms", end="", file=sys.stderr, flush=True)
        work[1].cancel()
        deadline = time.monotonic() + PATIENCE
        while any(job not in ledger.ended for job in submitted) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
    print("\r\x1b[K", end="", file=sys.stderr)
    violations = [one for one in Auditor().read_all(ledger.messages) if OLDER not in one]
    await bus.close()
    return {
        "ms": sorted(taken),
        "submitted": len(submitted),
        "lost": sum(job not in ledger.ended for job in submitted),
        "double": sum(times > 1 for times in ledger.ended.values()),
        "violations": violations,
    }


def main() -> None:
    """The figure in a line."""
    parser = options("bench.failover", __doc__, "8 minutes with 100 kills")
    parser.add_argument("--kills", type=int, default=100, help="how often the active allocator is killed")
    parser.add_argument("--json", metavar="FILE", help="write the figures into this file as well")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with installation(GPUS, "--standby") as folder:
        found = asyncio.run(measure(folder, args.kills))
    taken = found["ms"]
    worst = taken[min(len(taken) - 1, -(-99 * len(taken) // 100) - 1)]
    print(
        f"Q1  kill -9 of the active allocator, {args.kills} times: next grant after {statistics.median(taken):.0f} ms"
        f" (p99 {worst:.0f} ms, least {taken[0]:.0f}, greatest {taken[-1]:.0f}); {found['submitted']} jobs acknowledged,"
        f" {found['lost']} lost, {found['double']} ended twice, {len(found['violations'])} violations;"
        f" {os.cpu_count()} cores, load {load:.1f} before"
    )
    for violation in found["violations"][:10]:
        print(f"    {violation}")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
