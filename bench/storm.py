"""P11: a storm of preemptions. A cluster full of borrowed single-GPU jobs, and then work inside its reservation for all of it at once.

From the first submit of the storm until every victim has been told on its node: each preemption is searched for, proposed, checked, ordered
durably and signalled. The preemptors are jobs of `--each` GPUs on one node, so that one plan takes as many victims.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

from bench.fleet import Group
from bench.options import options
from bench.stage import done, perform, progress, stage
from headrace.client.submissions import make_submission

VICTIMS, GPUS, EACH = 39_000, 100, 100
SUBMIT_AT_ONCE = 1_000
FOREVER = ("sleep", "100000")
GOAL, GKE = 15.0, 93.0


def documents(victims: int, each: int) -> str:
    """Two policies: one that borrows everything, and one whose reservation is everything."""
    return f"""
groups: [{{name: bench, members: [bench]}}]
pools: [{{name: onprem, selector: {{site: hq}}}}]
profiles:
  - {{name: one, request: {{gpu: 1}}, pools: [onprem]}}
  - {{name: many, request: {{gpu: {each}}}, pools: [onprem]}}
policies:
  - {{name: low, group: bench, profiles: [one], max_pending: 1000000}}
  - {{name: high, group: bench, profiles: [many], reservation: {{gpu: {victims}}}, max_pending: 1000000}}
"""


async def play(victims: int, gpus: int, each: int) -> dict[str, Any]:
    """The storm once. Seconds."""
    preemptors = victims // each
    async with stage([Group("hq", victims // gpus, gpus)], documents(victims, each)) as here:
        progress(f"fill with {victims:,} jobs")
        began = time.perf_counter()
        await _submit(here.client, "low/one", victims)
        await here.follow_until(lambda stories: _counted(stories.started, victims, "fill"), "fill")
        filled = time.perf_counter() - began
        await here.fresh()
        before, load, first = here.cpu(), os.getloadavg()[0], time.time_ns() // 1_000
        await _submit(here.client, "high/many", preemptors)
        stories = await here.follow_until(lambda stories: _counted(len(stories.notified), preemptors * each, "storm"), "storm")
        after = here.cpu()
        done()
    orders, notified = sorted(stories.orders), sorted(stories.notified)
    return {
        "victims": len(notified),
        "plans": len(orders),
        "fill_s": filled,
        "seconds": (notified[-1] - first) / 1e6,
        "ordered_s": (orders[-1] - first) / 1e6,
        "load_before": load,
        "cpu": {part: round(used - before.get(part, 0.0), 1) for part, used in after.items()},
    }


def _counted(have: int, of: int, what: str) -> bool:
    if have % 1_000 == 0:
        progress(f"{what}: {have:,} of {of:,}")
    return have >= of


async def _submit(client: Any, queue: str, jobs: int) -> None:
    for start in range(0, jobs, SUBMIT_AT_ONCE):
        await client.submit_many(queue, [make_submission(FOREVER) for _ in range(min(SUBMIT_AT_ONCE, jobs - start))])


def show(runs: list[dict[str, Any]]) -> None:
    """One line, beside the goal and what is published."""
    seconds, run = [one["seconds"] for one in runs], runs[-1]
    middle = statistics.median(seconds)
    rate = run["victims"] / middle
    print(
        f"P11 {run['victims']:,} preemptions ordered and signalled  {middle:.1f} s [{min(seconds):.1f} - {max(seconds):.1f}]"
        f"   {rate:,.0f}/s"
        f"   (goal {GOAL:.0f} s for 39,000; GKE with Kueue {GKE:.0f} s, real pods: {rate * GKE / VICTIMS:.1f} times)\n"
        f"    in {run['plans']:,} plans, the last one ordered after {run['ordered_s']:.1f} s; filled before in {run['fill_s']:.1f} s;"
        f" {sum(run['cpu'].values()):.1f} s of CPU {run['cpu']}",
        flush=True,
    )


def main() -> None:
    """Play it, and print what it took."""
    parser = options("bench.storm", __doc__, "2 minutes a run")
    parser.add_argument("--victims", type=int, default=VICTIMS, help="jobs that run on borrowed GPUs")
    parser.add_argument("--gpus", type=int, default=GPUS, help="of each node")
    parser.add_argument("--each", type=int, default=EACH, help="GPUs that one preemptor takes, on one node")
    perform(
        parser,
        "signals are those that nodes pass on to jobs, which are simulated",
        lambda asked: play(asked.victims, asked.gpus, asked.each),
        lambda _, runs: show(runs),
    )


if __name__ == "__main__":
    main()
