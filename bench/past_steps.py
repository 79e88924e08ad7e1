"""What a step of the time bar costs: the overview of the whole installation at moments of the past, one after the other, nearby.

A real NATS server and its ledger: jobs that wait, and behind them records of 32 facts of jobs that come and go. Snapshots are taken by what
*audit* runs. Each moment is asked of the API's service, without the gateway. CPU time is that of the whole process; it holds on a busy
machine too.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

from bench.memory import Tape
from bench.options import options
from bench.stored_history import snapshots_of, stored_history
from headrace.bus.process import collect_garbage_rarely
from headrace.contracts.api import overview_pb2 as pb
from headrace.contracts.values.durations import SECOND
from headrace.domain.state.state import State
from headrace.governance.api.context import ApiContext, CallContext
from headrace.governance.api.overview import Overviews
from headrace.identity.caller import Caller, Role
from headrace.views.past_queries import PastQueries
from headrace.views.state_at import PastStates

STEPS = (1, 100, -1, -100)
JUMPS = 3
EVERY = 60 * SECOND


async def measure(jobs: int, records: int, steps: int, pause: float) -> list[dict[str, Any]]:
    """Milliseconds of steps, a row for each length of them. `pause`: seconds between two."""
    tape = Tape()
    messages = (*tape.law(), *tape.pending(jobs), *tape.lives(32 * records, EVERY))
    async with stored_history(tape, messages) as (connection, log, tip):
        snapshots, count = await snapshots_of(connection, log, tip)
        known = {"state": State(), "past_queries": PastQueries(PastStates(log, snapshots), log, lambda: 2**60)}
        backend = ApiContext(*map(known.get, ApiContext._fields))  # type: ignore[arg-type]  # the rest is not needed
        call, service = CallContext(Caller(Role.PROVIDER_ADMIN, "default", "root"), "GetOverview", 60, backend), Overviews()
        before = resident()
        rows = [await walk(service, call, step, steps, tip, pause) for step in STEPS]
    kept = {"snapshots": count, "records": tip, "jobs": jobs, "grown_mib": resident() - before}
    return [row | kept for row in rows]


async def walk(service: Overviews, call: CallContext, step: int, steps: int, tip: int, pause: float) -> dict[str, Any]:
    """That many steps behind each of some jumps."""
    chance, way = random.Random(step), abs(step) * steps
    jumps, taken = [], []
    for _ in range(JUMPS):
        at = chance.randrange(tip // 2, tip - way) + (0 if step > 0 else way)
        jumps.append(await overview(service, call, at))
        for number in range(1, steps + 1):
            await asyncio.sleep(pause)
            taken.append(await overview(service, call, at + step * number))
    waited, used = (sorted(one[column] for one in taken) for column in (0, 1))
    last = len(taken) * 99 // 100
    return {
        "step": step,
        "p50_ms": round(statistics.median(waited)),
        "p99_ms": round(waited[last]),
        "cpu_p50_ms": round(statistics.median(used)),
        "cpu_p99_ms": round(used[last]),
        "cpu_jump_ms": round(statistics.median(one[1] for one in jumps)),
    }


async def overview(service: Overviews, call: CallContext, sequence: int) -> tuple[float, float]:
    """Milliseconds for the overview at a record: of the clock, and of CPU time."""
    began, used = time.perf_counter(), time.process_time()
    found = await service.get_overview(pb.GetOverviewRequest(at=str(sequence)), call)
    if found.sequence != str(sequence):
        raise AssertionError(found.sequence)
    return 1_000 * (time.perf_counter() - began), 1_000 * (time.process_time() - used)


def resident() -> int:
    """MiB of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def main() -> None:
    """The figures, a line of JSON for each length of a step."""
    parser = options("bench.past_steps", __doc__, "two minutes with 15,000 jobs")
    parser.add_argument("--jobs", type=int, default=1_000, help="that wait all the time")
    parser.add_argument("--records", type=int, default=5_000, help="behind them")
    parser.add_argument("--steps", type=int, default=20, help="of each length, three times")
    parser.add_argument("--pause", type=float, default=0.0, metavar="SECONDS", help="for which each moment is looked at")
    chosen = parser.parse_args()
    if chosen.records <= (least := 2 * max(STEPS) * chosen.steps):
        parser.error(
            f"--records: {chosen.records} are too few for {chosen.steps} steps of {max(STEPS)}; give more than {least}"
        )
    collect_garbage_rarely()  # as every service does
    load = round(os.getloadavg()[0], 1)
    for row in asyncio.run(measure(chosen.jobs, chosen.records, chosen.steps, chosen.pause)):
        print(json.dumps(row | {"pause": chosen.pause, "load_before": load}))


if __name__ == "__main__":
    main()
