"""P4 and P6: the whole line without processes of jobs, on a fleet of simulated nodes.

P4: as many jobs as the line takes, for minutes: submit (durable), admitted, granted (durable), ordered, started and ended on a node, in the
books; jobs/s until the books hold the last end, and the least that ended in any ten seconds. Some thousand jobs are kept in the line, a
thousand to a message.
P6: 500 submits a second, one job each, due at even times, on nodes with room; milliseconds from the moment a submit was due until the node
started the job it was ordered to.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvloop

from bench.fleet import Group
from bench.installation import DOCUMENTS
from bench.options import options
from bench.stage import Stage, Stories, done, progress, quantile, spent, stage
from headrace.client.errors import Refused, Unreachable
from headrace.client.submissions import make_submission

NODES, GPUS = 8, 64
SECONDS, LATENCY_SECONDS = 300.0, 30.0
RATE = 500
IN_LINE, AT_ONCE = 4_000, 1_000
LOOK_EVERY = 0.02
WINDOW = 10.0
GOAL, GOAL_P50, GOAL_P99 = 3_000, 6, 20


async def throughput(here: Stage, seconds: float) -> dict[str, Any]:
    """P4 for so long."""
    had = await here.until_booked()
    await here.fresh()
    last: deque[str] = deque()
    submitted, began, before = 0, time.monotonic(), here.cpu()
    while (passed := time.monotonic() - began) < seconds:
        jobs = await here.client.submit_many("bench/one", [make_submission(["true"]) for _ in range(AT_ONCE)])
        submitted += AT_ONCE
        last.append(jobs[-1].id)
        if len(last) * AT_ONCE >= IN_LINE:
            await _ended(here, last.popleft())
        progress(f"P4: {passed:.0f} of {seconds:.0f} s, {max(0, submitted - IN_LINE) / max(passed, 1):,.0f} jobs/s")
    while last:
        await _ended(here, last.popleft())
    booked = await here.until_booked()
    took, after = time.monotonic() - began, here.cpu()
    done()
    stories = await here.read()
    if booked != had + submitted or stories.ended != submitted:
        raise RuntimeError(f"{submitted} jobs were submitted, {stories.ended} have ended, and the books hold {booked - had}")
    windows = Counter(story.ended // int(WINDOW * 1e6) for story in stories.jobs.values())
    inner = sorted(windows)[1:-1] or sorted(windows)
    return {
        "jobs": submitted,
        "seconds": took,
        "jobs_per_s": submitted / took,
        "least_of_ten_s": min(windows[window] for window in inner) / WINDOW,
        "cpu_seconds_per_1000": spent(before, after, submitted),
    }


async def _ended(here: Stage, job: str) -> None:
    """Until it has: with it, nearly all that came before it."""
    while True:
        with suppress(Refused, Unreachable):  # it may not be admitted yet
            if (await here.client.job(job)).state == "succeeded":
                return
        await asyncio.sleep(LOOK_EVERY)


async def latency(here: Stage, rate: int, seconds: float) -> dict[str, Any]:
    """P6 for so long."""
    await here.fresh()
    due: dict[str, int] = {}
    asking: set[asyncio.Task[Any]] = set()
    before, began, offset = here.cpu(), time.perf_counter() + 0.1, time.time() - time.perf_counter()
    for number in range(int(rate * seconds)):
        at = began + number / rate
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        submission = make_submission(["true"])
        due[f"default.bench.{submission.id}"] = int((at + offset) * 1e6)
        asking.add(task := asyncio.create_task(here.client.submit_many("bench/one", [submission])))
        task.add_done_callback(asking.discard)
        if number % rate == 0:
            progress(f"P6: {number // rate} of {seconds:.0f} s")
    await asyncio.gather(*asking)
    took = time.perf_counter() - began
    done()
    stories = await here.follow_until(lambda stories: stories.ended >= len(due), "P6")
    after = here.cpu()
    waits = [(stories.jobs[job].started - at) / 1e3 for job, at in due.items()]
    return {
        "asked_per_s": len(due) / took,
        "p50_ms": quantile(waits, 0.5),
        "p99_ms": quantile(waits, 0.99),
        "parts_ms": _parts(stories, due),
        "cpu_seconds_per_1000": spent(before, after, len(due)),
    }


def _parts(stories: Stories, due: dict[str, int]) -> dict[str, tuple[float, float]]:
    """p50 and p99 of each stretch of the way, in milliseconds, as the server has stamped the records."""
    jobs = [(at, stories.jobs[job]) for job, at in due.items()]
    parts = {
        "due to admitted": [story.admitted - at for at, story in jobs],
        "to granted": [story.granted - story.admitted for _, story in jobs],
        "to ordered": [story.started - story.granted for _, story in jobs],
    }
    return {name: (quantile(spans, 0.5) / 1e3, quantile(spans, 0.99) / 1e3) for name, spans in parts.items()}


async def measure(nodes: int, gpus: int, seconds: float, rate: int, latency_seconds: float, runs: int) -> dict[str, Any]:
    """P6 as often as asked, then P4 once, on one installation."""
    async with stage([Group("hq", nodes, gpus)], DOCUMENTS) as here:
        await latency(here, 50, 2.0)  # the first ones warm caches up
        found = {"P6": [await latency(here, rate, latency_seconds) for _ in range(runs)] if latency_seconds else []}
        return found | {"P4": [await throughput(here, seconds)] if seconds else []}


def show(found: dict[str, Any]) -> None:
    """A line for each."""
    for run in found["P4"]:
        print(
            f"P4  submit to the books, {run['seconds']:.0f} s  {run['jobs_per_s']:,.0f} jobs/s, at least {run['least_of_ten_s']:,.0f}"
            f" in any ten seconds   (goal {GOAL:,})\n    CPU-seconds for 1,000 jobs {_cpu(run)}",
            flush=True,
        )
    if found["P6"]:
        p50, p99 = (statistics.median(run[name] for run in found["P6"]) for name in ("p50_ms", "p99_ms"))
        asked = statistics.median(run["asked_per_s"] for run in found["P6"])
        print(
            f"P6  submit to the order at the node, {asked:.0f} a second  p50 {p50:.1f} ms, p99 {p99:.1f} ms"
            f"   (goal {GOAL_P50} / {GOAL_P99})\n    {_ways(found['P6'][-1])}\n    CPU-seconds for 1,000 jobs {_cpu(found['P6'][-1])}",
            flush=True,
        )


def _ways(run: dict[str, Any]) -> str:
    return ", ".join(f"{name} {p50:.1f} / {p99:.1f}" for name, (p50, p99) in run["parts_ms"].items())


def _cpu(run: dict[str, Any]) -> str:
    parts = run["cpu_seconds_per_1000"]
    return f"{sum(parts.values()):.2f}  {parts}"


def main() -> None:
    """Measure, and print."""
    parser = options("bench.sustained", __doc__, "7 minutes: five for P4, one for each run of P6")
    parser.add_argument("--nodes", type=int, default=NODES, help="simulated, in one process")
    parser.add_argument("--gpus", type=int, default=GPUS, help="of each node")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of P4; 0 leaves it out")
    parser.add_argument("--latency-seconds", type=float, default=LATENCY_SECONDS, help="of P6; 0 leaves it out")
    parser.add_argument("--rate", type=int, default=RATE, help="submits a second in P6")
    parser.add_argument("--runs", type=int, default=1, help="of P6")
    parser.add_argument("--json", type=Path, help="write the figures into this file as well")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(
            measure(
                arguments.nodes, arguments.gpus, arguments.seconds, arguments.rate, arguments.latency_seconds, arguments.runs
            )
        )
    show(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
