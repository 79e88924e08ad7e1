"""The past: seconds to fold a whole history from the log, and to any moment of it through snapshots.

A real NATS server and its ledger (32 facts to a record, five for each job), read as the services read it; the snapshots are taken by what
*audit* runs, at its usual pace, and lie in the object store. What writes the history is outside of the clock.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from bench.memory import Tape
from bench.options import options
from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.snapshotter import Snapshotter
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.process import collect_garbage_rarely
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import Snapshots
from headrace.views.state_at import PastStates
from tests.integration.conftest import NatsServer

MOMENTS = 20
AT_ONCE = 100


async def measure(facts: int) -> dict[str, float]:
    """Seconds: from the log, and to each of some moments by chance through snapshots."""
    with tempfile.TemporaryDirectory() as folder:
        server = NatsServer(Path(folder))
        server.start()
        try:
            connection = await server.connect("operator")
            await ensure_streams(connection)
            log = JetStreamLog(connection, LEDGER_STREAM)
            tape = Tape()
            for number, message in enumerate((*tape.law(), *tape.lives(facts)), 1):
                await connection.publish(message.subject, message.payload)
                while not number % AT_ONCE and await log.tip() < number:
                    await asyncio.sleep(0.01)
            while (tip := await log.tip()) < tape.sequence:
                await asyncio.sleep(0.01)
            began, used = time.perf_counter(), time.process_time()
            await PastStates(log).behind(tip, 0, tip)
            whole, whole_cpu = time.perf_counter() - began, time.process_time() - used

            snapshots = Snapshots.over(connection, log)
            keeper = Snapshotter(log, LedgerFold(), snapshots, LedgerWriter(log))
            reader = await log.read(0)
            while keeper.fold.sequence < tip:
                await keeper.take_in(await reader.batch(50))
            await reader.close()
            chance, past, taken, used_by = random.Random(1), PastStates(log, snapshots), [], []
            for _ in range(MOMENTS):
                sequence = chance.randrange(1, tip + 1)
                began, used = time.perf_counter(), time.process_time()
                await past.behind(sequence, 0, tip)
                taken.append(time.perf_counter() - began)
                used_by.append(time.process_time() - used)
            await connection.close()
        finally:
            server.kill()
    return {
        "whole": whole,
        "whole_cpu": whole_cpu,
        "snapshots": keeper.taken,
        "moment": statistics.median(taken),
        "worst": max(taken),
        "worst_cpu": max(used_by),
    }


def main() -> None:
    """The figures in a line."""
    parser = options("bench.past", __doc__, "3 minutes with a million facts")
    parser.add_argument("--facts", type=int, default=1_000_000, help="in the history")
    args = parser.parse_args()
    collect_garbage_rarely()  # as every service does
    load = os.getloadavg()[0]
    found = asyncio.run(measure(args.facts))
    print(
        f"past  {args.facts:,} facts from the log: {found['whole']:.1f} s ({found['whole_cpu']:.1f} CPU-s);"
        f" any moment through {found['snapshots']:.0f} snapshots: {found['moment']:.2f} s, at most {found['worst']:.2f} s"
        f" ({found['worst_cpu']:.2f} CPU-s; {MOMENTS} by chance); {os.cpu_count()} cores, load {load:.1f} before"
    )


if __name__ == "__main__":
    main()
