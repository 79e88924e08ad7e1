"""`make bench-whatif`: a time of real history played again as it was and with other policies, from the ledger's bytes to the answer.

The history is made by the engine itself: three groups on 50 nodes of 8 GPUs, jobs of half a GPU, one and four that come at random and work
ten minutes in the mean, at a load that `--load` says. Then the clock runs: its records are read, decoded and folded, what came is taken
from them, and both plays go at the same time, in two processes. CPU-seconds are those of both.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time
from typing import Any

from msgspec import structs

from bench.options import options
from headrace.bus.log import Message
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.durations import SECOND
from headrace.simulate.changes import read_changes
from headrace.simulate.ledger_window import LedgerPoint, LedgerWindow
from headrace.simulate.run_pair import rarely_collected
from headrace.simulate.scenario import Moment, Submit, read_scenario
from headrace.simulate.whatif import FREEZE_AFTER
from headrace.simulate.world import World

SITE = """
groups: [{name: a, members: [ann]}, {name: b, members: [bob]}, {name: c, members: [cid]}]
pools: [{name: hall, selector: {site: a}, price: {gpu: 2.5}}]
profiles:
  - {name: one, request: {gpu: 1, cpu: 4}, pools: [hall]}
  - {name: half, request: {gpu: 0.5, cpu: 2}, pools: [hall]}
  - {name: four, request: {gpu: 4, cpu: 8}, pools: [hall]}
nodes: [{name: n, count: 50, labels: {site: a}, gpus: 8}]
policies:
  - {name: a, group: a, profiles: [one, half, four], reservation: {gpu: 200}, max_pending: 1000000}
  - {name: b, group: b, profiles: [one, half, four], reservation: {gpu: 100}, max_pending: 1000000}
  - {name: c, group: c, profiles: [one, half, four], max_pending: 1000000}
"""
CHANGES = "policies: [{name: c, group: c, profiles: [one, half, four], reservation: {gpu: 90}, max_pending: 1000000}]"
GPUS = 400
SIZES = {"one": (0.5, 1.0), "half": (0.35, 0.5), "four": (0.15, 4.0)}
"""Profile to its part of the jobs, and its GPUs."""
WORK = 600.0
"""Seconds that a job works in the mean."""
SEED = 7


def history(jobs: int, load: float) -> list[Message]:
    """The ledger of an installation with this number of jobs."""
    chance = random.Random(SEED)
    each = sum(part * gpus for part, gpus in SIZES.values())
    rate, now, timeline = GPUS * load / (each * WORK), 0.0, []
    names, parts = list(SIZES), [part for part, _ in SIZES.values()]
    for number in range(jobs):
        now += chance.expovariate(rate)
        queue = f"{chance.choices('abc', (3, 2, 3))[0]}/{chance.choices(names, parts)[0]}"
        work = max(1, int(chance.expovariate(1 / WORK))) * SECOND
        submit = Submit(name=f"j{number}", queue=queue, duration=work, abort_takes=30 * SECOND)
        timeline.append(Moment(at=int(now * SECOND), submit=submit))
    world = World(structs.replace(read_scenario(read_tree(SITE)), timeline=tuple(timeline)))
    for _ in world.run():
        pass
    return world.log.messages_after(0)


def _spent() -> float:
    used = (resource.getrusage(whom) for whom in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(ledger: list[Message], *, progress: bool) -> dict[str, Any]:
    """One what-if over the whole ledger, from the record behind its documents and nodes on."""
    load, began, spent = os.getloadavg()[0], time.perf_counter(), _spent()
    first = next(number for number, record in enumerate(ledger) if b"job.admitted" in record.payload)
    period = LedgerWindow(LedgerPoint(sequence=first), LedgerPoint(sequence=len(ledger)), ledger[-1].stamped)
    with rarely_collected(FREEZE_AFTER):
        for record in ledger:
            period.read(record)
    period.end(len(ledger))
    read = time.perf_counter() - began

    def show(done: int) -> None:
        if progress:
            print(f"\r  {done / 10:.0f} % ", end="", file=sys.stderr, flush=True)

    found = period.compare(read_changes(read_tree(CHANGES)), progress=show)
    real, again = found.recorded, found.total.before
    return {
        "seconds": time.perf_counter() - began,
        "reading_s": read,
        "cpu_s": _spent() - spent,
        "load_before": load,
        "records": len(ledger),
        "recorded": None if real is None else {"starts": real.starts, "preemptions": real.preemptions},
        "again": {"starts": again.starts, "preemptions": again.preemptions},
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> int:
    """Run it as often as asked."""
    parser = options("bench.whatif", __doc__, "2 minutes with 100,000 jobs")
    parser.add_argument("--jobs", type=int, default=100_000, help="in the history")
    parser.add_argument("--load", type=float, default=0.85, help="what the jobs ask for, of what there is")
    parser.add_argument("--runs", type=int, default=1, help="of the comparison")
    arguments = parser.parse_args()
    ledger = history(arguments.jobs, arguments.load)
    for _ in range(arguments.runs):
        row = {"jobs": arguments.jobs, "load": arguments.load, "seed": SEED, **measure(ledger, progress=sys.stderr.isatty())}
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
