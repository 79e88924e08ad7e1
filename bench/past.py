"""The past: seconds to fold a whole history from the log, and to any moment of it through snapshots.

A real NATS server and its ledger (32 facts to a record, five for each job), read as the services read it; the snapshots are taken by what
*audit* runs, at its usual pace, and lie in the object store. What writes the history is outside of the clock.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time

from bench.memory import Tape
from bench.options import options
from bench.stored_history import snapshots_of, stored_history
from headrace.bus.process import collect_garbage_rarely
from headrace.views.state_at import PastStates

MOMENTS = 20


async def measure(facts: int) -> dict[str, float]:
    """Seconds: from the log, and to each of some moments by chance through snapshots."""
    tape = Tape()
    async with stored_history(tape, (*tape.law(), *tape.lives(facts))) as (connection, log, tip):
        began, used = time.perf_counter(), time.process_time()
        await PastStates(log).behind(tip, 0, tip)
        whole, whole_cpu = time.perf_counter() - began, time.process_time() - used

        snapshots, count = await snapshots_of(connection, log, tip)
        chance, past, taken, used_by = random.Random(1), PastStates(log, snapshots), [], []
        for _ in range(MOMENTS):
            sequence = chance.randrange(1, tip + 1)
            began, used = time.perf_counter(), time.process_time()
            await past.behind(sequence, 0, tip)
            taken.append(time.perf_counter() - began)
            used_by.append(time.process_time() - used)
    return {
        "whole": whole,
        "whole_cpu": whole_cpu,
        "snapshots": count,
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
