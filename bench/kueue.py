"""P8 and P9: Kueue's own scheduler scenarios, *baseline* and *large-scale*, in real time on a fleet of simulated nodes.

A cohort is a pool, a cluster queue a policy with a reservation (its nominal quota) and a limit (that and what it may borrow), a class of
workloads a profile, in the pool's order of profiles. Each workload is due when Kueue's generator makes it, and runs as long. What is due at
once for one queue travels in one message. Makespan: from the first due to the last end. Wait: from due to started on the node. Use: what
ran over what there is, until the makespan; of attempts that were preempted nothing counts.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import os
import statistics
import time
from collections import defaultdict
from typing import Any, NamedTuple

from bench.fleet import Group
from bench.options import options
from bench.stage import Stage, perform, progress, quantile, stage
from headrace.client.submissions import make_submission

NOMINAL, BORROW = 20, 100


class Class(NamedTuple):
    """A class of workloads: their number for each queue, one every `every` seconds, GPUs, seconds that it runs."""

    name: str
    count: int
    every: float
    gpus: int
    lasts: float


class Scenario(NamedTuple):
    """A scenario, the nodes of each pool, for how long a job may be overtaken there, and what is published: makespan, use, mean waits."""

    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    nodes: int
    gpus: int
    backfill_for: str
    kueue: dict[str, float]
    optimum: dict[str, float]
    goals: dict[str, float]


SCENARIOS = {
    "baseline": Scenario(
        5,
        6,
        (Class("large", 50, 1.2, 20, 1.0), Class("medium", 100, 0.5, 5, 0.5), Class("small", 350, 0.1, 1, 0.2)),
        1,
        120,
        "0s",
        {"makespan_s": 351.1, "use_percent": 55.9, "large_s": 16.5, "medium_s": 76.8, "small_s": 215.5},
        {"makespan_s": 66.1, "use_percent": 100.0, "large_s": 0.2, "medium_s": 11.4, "small_s": 44.7},
        {"makespan_s": 70.0, "use_percent": 94.0, "large_s": 1.0, "medium_s": 13.0, "small_s": 50.0},
    ),
    "large-scale": Scenario(
        10,
        100,
        (Class("large", 4, 0.7, 20, 0.7), Class("medium", 11, 0.3, 5, 0.35), Class("small", 35, 0.06, 1, 0.15)),
        20,
        100,
        "10m",
        {"makespan_s": 1_179.4, "use_percent": 38.6, "large_s": 105.6, "medium_s": 256.0, "small_s": 700.0},
        {"makespan_s": 4.1, "use_percent": 100.0},
        {"makespan_s": 25.0},
    ),
}
"""As in Kueue's repository, `test/performance/scheduler/configs`; its figures are means of its own CI, with 6 CPUs."""


class Due(NamedTuple):
    """One workload."""

    at: float
    queue: str
    what: Class


POLICIES_AT_ONCE = 500


def documents(scenario: Scenario, min_runtime: str) -> list[str]:
    """The scenario's cohorts and queues as JSON, which is YAML; in parts, since one set may change a thousand objects."""
    pools, profiles, policies = [], [], []
    for cohort in range(scenario.cohorts):
        names = [f"c{cohort}-{one.name}" for one in scenario.classes]
        selector = {"site": f"c{cohort}"}
        pools.append(
            {"name": f"c{cohort}", "selector": selector, "profile_order": names, "backfill_for": scenario.backfill_for}
        )
        for name, one in zip(names, scenario.classes, strict=True):
            profiles.append({"name": name, "request": {"gpu": one.gpus}, "pools": [f"c{cohort}"]})
        for queue in range(scenario.queues):
            policies.append(
                {
                    "name": f"c{cohort}-q{queue}",
                    "group": "bench",
                    "profiles": names,
                    "reservation": {"gpu": NOMINAL},
                    "limit": {"gpu": NOMINAL + BORROW},
                    "preemption": {"min_runtime": min_runtime},
                }
            )
    groups = [{"name": "bench", "members": ["bench"]}]
    parts = [policies[start : start + POLICIES_AT_ONCE] for start in range(0, len(policies), POLICIES_AT_ONCE)]
    return [
        json.dumps({"groups": groups, "pools": pools, "profiles": profiles}),
        *(json.dumps({"policies": part}) for part in parts),
    ]


def due(scenario: Scenario) -> list[Due]:
    """Every workload of the scenario, as they are due."""
    return sorted(
        Due(number * one.every, f"c{cohort}-q{queue}/c{cohort}-{one.name}", one)
        for cohort in range(scenario.cohorts)
        for queue in range(scenario.queues)
        for one in scenario.classes
        for number in range(one.count)
    )


def optimum(scenario: Scenario) -> dict[str, float]:
    """The optimum: no delay at all, larger classes first, a whole cohort shared, nothing preempted."""
    free, running, waits = scenario.queues * NOMINAL, list[tuple[float, int]](), defaultdict[str, list[float]](list)
    pending: list[tuple[int, float]] = []
    coming = sorted((number * one.every, rank) for rank, one in enumerate(scenario.classes) for number in range(one.count))
    coming = [one for one in coming for _ in range(scenario.queues)]
    coming.reverse()
    now = 0.0
    while coming or pending or running:
        while coming and coming[-1][0] <= now:
            at, rank = coming.pop()
            heapq.heappush(pending, (rank, at))
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[1]
        while pending and scenario.classes[pending[0][0]].gpus <= free:
            rank, at = heapq.heappop(pending)
            one = scenario.classes[rank]
            free -= one.gpus
            waits[f"{one.name}_s"].append(now - at)
            heapq.heappush(running, (now + one.lasts, one.gpus))
        moments = [coming[-1][0]] if coming else []
        moments += [running[0][0]] if running else []
        if moments:
            now = max(now, min(moments))
    return {"makespan_s": now} | {name: statistics.mean(values) for name, values in waits.items()}


async def submit(here: Stage, workloads: list[Due], began: float) -> dict[str, tuple[float, Class]]:
    """Submit every workload when it is due; job to (due, class). What is due by then for one queue is one message."""
    made: dict[str, tuple[float, Class]] = {}
    asking: set[asyncio.Task[Any]] = set()
    many = asyncio.Semaphore(256)

    async def send(queue: str, one: Class, submissions: list[Any]) -> None:
        async with many:
            await here.client.submit_many(queue, submissions)

    position, total, reported = 0, len(workloads), 0.0
    while position < total:
        await asyncio.sleep(max(0.0, began + workloads[position].at - time.perf_counter()))
        until = time.perf_counter() - began
        together: dict[str, list[Due]] = defaultdict(list)
        while position < total and workloads[position].at <= until:
            together[workloads[position].queue].append(workloads[position])
            position += 1
        for queue, some in together.items():
            submissions = [make_submission(["sleep", str(one.what.lasts)]) for one in some]
            for submission, one in zip(submissions, some, strict=True):
                made[f"default.bench.{submission.id}"] = one.at, one.what
            asking.add(task := asyncio.create_task(send(queue, some[0].what, submissions)))
            task.add_done_callback(asking.discard)
        while len(asking) > 1_000:
            await asyncio.sleep(0.01)
        if until - reported > 1.0:
            reported = until
            progress(f"{position:,} of {total:,} workloads are due, {until:.0f} s")
    await asyncio.gather(*asking)
    return made


async def play(name: str, min_runtime: str) -> dict[str, Any]:
    """The scenario once."""
    scenario = SCENARIOS[name]
    workloads = due(scenario)
    groups = [Group(f"c{cohort}", scenario.nodes, scenario.gpus) for cohort in range(scenario.cohorts)]
    async with stage(groups, *documents(scenario, min_runtime)) as here:
        before, load = here.cpu(), os.getloadavg()[0]
        offset, began = time.time() - time.perf_counter(), time.perf_counter() + 0.2
        made = await submit(here, workloads, began)
        sent = time.perf_counter() - began
        await here.until(0, 0, name, len(workloads))
        after = here.cpu()
        stories = await here.read()
    return _figures(scenario, made, stories, began + offset) | {
        "sent_s": sent,
        "load_before": load,
        "cpu_s": round(sum(used - before.get(part, 0.0) for part, used in after.items()), 1),
        "cpu": {part: round(used - before.get(part, 0.0), 1) for part, used in after.items()},
    }


def _figures(scenario: Scenario, made: dict[str, tuple[float, Class]], stories: Any, began: float) -> dict[str, Any]:
    waits: dict[str, list[float]] = defaultdict(list)
    worked, held, last, starts = 0.0, 0.0, 0.0, 0
    for job, (at, one) in made.items():
        story = stories.jobs[job]
        if story.result != "succeeded":
            raise RuntimeError(f"{job} has not succeeded: {story.result or 'it has not ended'}")
        waits[one.name].append(story.started / 1e6 - began - at)
        worked += one.gpus * one.lasts
        held += one.gpus * sum(end - start for start, end in story.spans) / 1e6
        last = max(last, story.spans[-1][1] / 1e6 - began)
        starts += story.starts
    whole = scenario.cohorts * scenario.queues * NOMINAL * last
    found: dict[str, Any] = {"makespan_s": last, "use_percent": 100 * worked / whole, "held_percent": 100 * held / whole}
    for name, values in waits.items():
        found |= {f"{name}_s": statistics.mean(values), f"{name}_p99_s": quantile(values, 0.99)}
    return found | {"jobs": len(made), "starts": starts, "preemptions": len(stories.orders)}


def show(name: str, runs: list[dict[str, Any]]) -> None:
    """A line for each figure, beside the goal, Kueue's and the best there could be."""
    scenario = SCENARIOS[name]
    number = "P8" if name == "baseline" else "P9"
    for what, kueue in scenario.kueue.items():
        values = [run[what] for run in runs]
        goal = f"goal {scenario.goals[what]:,.0f}; " if what in scenario.goals else ""
        best = f"; optimum {scenario.optimum[what]:,.1f}" if what in scenario.optimum else ""
        print(
            f"{number}  {name} {DESCRIPTIONS[what]:<18} {statistics.median(values):>8,.1f} [{min(values):,.1f} - {max(values):,.1f}]"
            f"   ({goal}Kueue on 6 CPUs {kueue:,.1f}{best})"
        )
    run = runs[-1]
    print(
        f"    {run['jobs']:,} jobs, {run['starts']:,} starts, {run['preemptions']:,} preemptions; held {run['held_percent']:.0f} %;"
        f" the last submit after {run['sent_s']:.1f} s; {run['cpu_s']} s of CPU {run['cpu']}",
        flush=True,
    )


DESCRIPTIONS = {
    "makespan_s": "makespan, s",
    "use_percent": "use, %",
    "large_s": "wait of large, s",
    "medium_s": "wait of medium, s",
    "small_s": "wait of small, s",
}


def main() -> None:
    """Play it, and print what it took."""
    parser = options("bench.kueue", __doc__, "2 minutes a run")
    parser.add_argument("scenario", choices=list(SCENARIOS), nargs="?", default="baseline", help="of Kueue's own measurements")
    parser.add_argument(
        "--min-runtime", default="0s", help="of every policy: nobody is preempted before (default: 0s, as in Kueue)"
    )
    perform(
        parser,
        "nodes and jobs are simulated, as in Kueue's own measurement",
        lambda asked: play(asked.scenario, asked.min_runtime),
        lambda asked, runs: show(asked.scenario, runs),
    )


if __name__ == "__main__":
    main()
