"""P10: what KAI-Scheduler publishes of its scale tests (fill, reclaim, gang, impossible), on 500 nodes of 8 GPUs.

Fill: 4,000 jobs of one GPU, from the first submit until the last has started on its node. Reclaim: on the full cluster, a job inside its
reservation, from its submit until its victim has been told on its node; one after the other. Gang: 250 replicas of 8 GPUs, until the last
of its victims has been told. Impossible: a job larger than the cluster, from its submit until its refusal is in the ledger.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from bench.fleet import Group
from bench.options import options
from bench.stage import Stage, done, perform, progress, quantile, stage
from headrace.admission.decide import REFUSALS_STATED
from headrace.client.submissions import make_submission

NODES, GPUS = 500, 8
GANG = 250
SAMPLES = 100
SUBMIT_AT_ONCE = 1_000
FOREVER = ("sleep", "100000")
PUBLISHED = {"fill_s": 397.8, "reclaim_ms": 13_900.0, "gang_ms": 102_000.0, "impossible_ms": 249_500.0}
"""KAI-Scheduler, 500 simulated (KWOK) nodes x 8 GPUs, 3 to 5 CPUs for the scheduler; pods of Kubernetes, its whole way included."""
GOALS = {"fill_s": 3.0, "reclaim_ms": 50.0, "gang_ms": 500.0, "impossible_ms": 20.0}
SENTENCES = {
    "fill_s": "fill with {jobs:,} jobs of one GPU",
    "reclaim_ms": "reclaim one GPU of {jobs:,}, p99 to the signal",
    "gang_ms": "reclaim for a gang of {gang:,} GPUs, all signals out",
    "impossible_ms": "refuse the impossible, p99",
}


def documents(nodes: int, gang: int, samples: int) -> str:
    """Two policies: one that borrows everything, and one whose reservation takes it back."""
    back = GPUS * gang + samples
    return f"""
groups: [{{name: bench, members: [bench]}}]
pools: [{{name: onprem, selector: {{site: hq}}}}]
profiles:
  - {{name: one, request: {{gpu: 1}}, pools: [onprem]}}
  - {{name: gang, request: {{gpu: 8}}, replicas: {gang}, pools: [onprem]}}
  - {{name: beyond, request: {{gpu: 8}}, replicas: {nodes + 1}, pools: [onprem]}}
policies:
  - {{name: low, group: bench, profiles: [one], max_pending: 1000000}}
  - {{name: high, group: bench, profiles: [one, gang, beyond], reservation: {{gpu: {back}}}, max_pending: 1000000}}
"""


async def play(nodes: int, gang: int, samples: int) -> dict[str, Any]:
    """All four on one installation: seconds of the fill, milliseconds of the others."""
    jobs = nodes * GPUS
    async with stage([Group("hq", nodes, GPUS)], documents(nodes, gang, samples)) as here:
        before = here.cpu()
        progress(f"fill with {jobs:,} jobs")
        fill = await _fill(here, jobs)
        after = here.cpu()
        reclaim = [await _reclaim(here, "high/one", 1, f"reclaim {number} of {samples}") for number in range(1, samples + 1)]
        impossible = [await _refused(here, f"refusal {number} of {samples}") for number in range(1, samples + 1)]
        whole = await _reclaim(here, "high/gang", GPUS * gang, f"reclaim of {GPUS * gang} at once")
        done()
    cpu = round(sum(used - before.get(name, 0.0) for name, used in after.items()), 2)
    return {
        "jobs": jobs,
        "gang": gang * GPUS,
        "fill_s": fill,
        "fill_cpu_s": cpu,
        "reclaim_ms": sorted(reclaim),
        "impossible_ms": sorted(impossible),
        "gang_ms": whole,
    }


async def _fill(here: Stage, jobs: int) -> float:
    began = time.time_ns() // 1_000
    for start in range(0, jobs, SUBMIT_AT_ONCE):
        await here.client.submit_many("low/one", [make_submission(FOREVER) for _ in range(min(SUBMIT_AT_ONCE, jobs - start))])
    stories = await here.follow_until(lambda stories: stories.started >= jobs, "fill")
    return (max(story.started for story in stories.jobs.values()) - began) / 1e6


async def _reclaim(here: Stage, queue: str, victims: int, what: str) -> float:
    """Milliseconds until the last of this number of victims has been told."""
    progress(what)
    await here.fresh()
    began = time.time_ns() // 1_000
    job = await here.client.submit(queue, FOREVER)
    stories = await here.follow_until(
        lambda stories: stories.of(job.key).started > 0 and len(stories.notified) >= victims, what
    )
    return (max(stories.notified) - began) / 1e3


async def _refused(here: Stage, what: str) -> float:
    """Milliseconds until it is in the ledger that the job is refused."""
    progress(what)
    await here.fresh()
    began = time.time_ns() // 1_000
    job = await here.client.submit("high/beyond", FOREVER)
    stories = await here.follow_until(lambda stories: stories.of(job.key).rejected > 0, what)
    await asyncio.sleep(1 / REFUSALS_STATED)  # faster ones are counted, and not told one by one (R14)
    return (stories.of(job.key).rejected - began) / 1e3


def summary(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """One figure of each kind for every run."""
    return {
        "fill_s": [run["fill_s"] for run in runs],
        "reclaim_ms": [quantile(run["reclaim_ms"], 0.99) for run in runs],
        "gang_ms": [run["gang_ms"] for run in runs],
        "impossible_ms": [quantile(run["impossible_ms"], 0.99) for run in runs],
    }


def show(runs: list[dict[str, Any]]) -> None:
    """One line for each figure, beside the goal and what is published."""
    published = (runs[-1]["jobs"], runs[-1]["gang"]) == (NODES * GPUS, GANG * GPUS)
    for name, values in summary(runs).items():
        beside = (
            f"KAI {PUBLISHED[name]:,.0f}: {PUBLISHED[name] / statistics.median(values):,.0f} times"
            if published
            else "not KAI's shapes"
        )
        unit = name.rpartition("_")[2]
        what = SENTENCES[name].format(**runs[-1])
        print(
            f"P10 {what:<52} {statistics.median(values):>9,.1f} [{min(values):,.1f} - {max(values):,.1f}] {unit:<2}"
            f"   (goal {GOALS[name]:,.0f}; {beside})"
        )
    middle = statistics.median(value for run in runs for value in run["reclaim_ms"])
    print(f"    reclaim of one GPU, p50 {middle:.1f} ms; CPU of the fill {runs[-1]['fill_cpu_s']} s", flush=True)


def main() -> None:
    """Play it, and print what it took."""
    parser = options("bench.kai", __doc__, "7 minutes a run")
    parser.add_argument("--nodes", type=int, default=NODES, help="with 8 GPUs each")
    parser.add_argument("--gang", type=int, default=GANG, help="replicas of the gang, 8 GPUs each")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of reclaiming one GPU, and of refusing")
    perform(
        parser,
        "signals are those that nodes pass on to jobs, which are simulated",
        lambda asked: play(asked.nodes, asked.gang, asked.samples),
        lambda _, runs: show(runs),
    )


if __name__ == "__main__":
    main()
