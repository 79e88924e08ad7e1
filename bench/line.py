"""P5 and P7: the whole line with real processes, durable log included (quality page, Speed).

P5: `true` as a job, 64 simulated GPUs, one GPU each; jobs/s from the first submit until the books hold the last end.
P7: an idle installation; milliseconds from before the submit until the job's own process says what time it is.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from bench.installation import cpu_seconds, installation
from bench.options import options
from bench.stage import booked
from headrace.client import connect
from headrace.client.client import Client
from headrace.client.submissions import make_submission
from headrace.supervisor.installation import Installation
from headrace.supervisor.service_query import ask_service, operator_client

GPUS = 64
SUBMIT_AT_ONCE = 100


async def throughput(folder: Path, client: Client, jobs: int) -> float:
    """P5 once: jobs/s."""
    before = await _in_books(folder, client)
    began = time.perf_counter()
    for start in range(0, jobs, SUBMIT_AT_ONCE):
        submitted = await client.submit_many(
            "bench/one", [make_submission(["true"]) for _ in range(min(SUBMIT_AT_ONCE, jobs - start))]
        )
    await client.wait(submitted[-1].id)
    while await _unfinished(client):
        await asyncio.sleep(0.01)
    if await _in_books(folder, client) != before + jobs:
        raise RuntimeError("the books do not hold every job")
    return jobs / (time.perf_counter() - began)


async def _in_books(folder: Path, client: Client) -> int:
    """How many jobs the books know to have run, once they are as far as the feed is now."""
    async with operator_client(Installation(folder)) as operator:
        while (view := await ask_service(operator, "feed")) is None:
            await asyncio.sleep(0.02)
    return await booked(folder, client, view.folded)


async def _unfinished(client: Client) -> int:
    return sum(queue.pending + queue.running for queue in await client.queues())


async def latency(client: Client, samples: int) -> list[float]:
    """P7: milliseconds, one for each job."""
    taken = []
    for _ in range(samples):
        began = time.time_ns()
        job = await client.submit("bench/one", ["date", "+%s%N"])
        await client.wait(job.id)
        output = (await client.logs(job.id)).data.strip()
        taken.append((int(output) - began) / 1e6)
    return taken


def measure(runs: int = 5, jobs: int = 2_000, samples: int = 100) -> dict[str, Any]:
    """All runs on one installation: jobs/s and sorted milliseconds of each, CPU-seconds for 1,000 jobs by part."""
    with installation(GPUS) as folder:
        return asyncio.run(_measure(folder, runs, jobs, samples))


async def _measure(folder: Path, runs: int, jobs: int, samples: int) -> dict[str, Any]:
    async with connect(data=folder, user="bench") as client:
        await latency(client, 10)  # the first ones warm caches up
        idle = [sorted(await latency(client, samples)) for _ in range(runs)]
        before = cpu_seconds(folder)
        rates = [await throughput(folder, client, jobs) for _ in range(runs)]
        used = {name: spent - before.get(name, 0.0) for name, spent in cpu_seconds(folder).items()}
    per_thousand = {name: round(1_000 * spent / (runs * jobs), 3) for name, spent in used.items()}
    return {"jobs_per_s": rates, "milliseconds": idle, "cpu_seconds_per_1000": per_thousand}


if __name__ == "__main__":
    parser = options("bench.line", __doc__, "2 minutes")
    parser.add_argument("--runs", type=int, default=5, help="of each figure")
    parser.add_argument("--jobs", type=int, default=2_000, help="of a run of P5")
    parser.add_argument("--samples", type=int, default=100, help="of a run of P7")
    asked = parser.parse_args()
    print(measure(asked.runs, asked.jobs, asked.samples))
