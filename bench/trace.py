"""`make bench-trace`: six weeks of a real cluster through the real engine in virtual time, beside simple schedulers on the same jobs.

Each virtual cluster is a policy with its share as reservation, its part of the jobs as weight and no limit, so it borrows what is idle and
takes its own back. The engine is the whole of it: admission, allocator and preemption over the in-memory log, every fact encoded, chained
and folded (`simulate.world`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import philly, trace_baselines, trace_split
from bench.options import options
from bench.philly import DAY, Job
from headrace.contracts import facts as f
from headrace.contracts.documents.model import REQUEUE_LAST, Documents, Policy, PolicyProfile, Pool, PreemptionTerms, Profile
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND, parse_duration
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.world import World

DAYS_AFTER = 60
"""How long after the last submit the run goes on, besides the longest job."""

TERMS: dict[str, dict[str, Any]] = {
    "Headrace, jobs save when told to stop": {"saves": True, "min_runtime": 0},
    "Headrace, they save, left alone for 4 h": {"saves": True, "min_runtime": 4 * HOUR},
    "Headrace, the same, preempted go last": {"saves": True, "min_runtime": 4 * HOUR, "last": True},
    "Headrace, nothing saved": {"saves": False, "min_runtime": 0},
    "Headrace, nothing saved, nobody stopped": {"saves": False, "min_runtime": 100 * 24 * HOUR},
}
"""By name: whether jobs save their work when told to stop, the policies' `min_runtime`, and whether preempted jobs go last (R29).

Where nothing is saved 4 hours do harm, since a job that is stopped then has lost as much: no job is to be stopped, which is stated by a
`min_runtime` longer than any job.
"""
BACKFILL_FOR = 24 * HOUR
APART = ("borrowing", next(iter(TERMS)))
"""The rows whose waits are shown by cluster and size as well."""


@dataclass
class Outcome:
    """What became of the jobs: first start and end in seconds since the beginning of the trace, by their number."""

    started: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    busy: list[tuple[int, int, int]] = field(default_factory=list)
    """(from, to, number of the job) of every attempt."""
    preemptions: int = 0
    lost: int = 0
    """GPU-seconds of work that had to be done again."""


def engine(jobs: list[Job], played: Scenario, *, saves: bool, progress: bool) -> Outcome:
    """The real engine on `scenario`. With `saves` a job saves its work when it is told to stop, else nothing is ever saved."""
    world = World(played, judged=False)
    began = time.perf_counter()
    for at, _ in world.run():
        if progress:
            day, spent = at // SECOND // DAY, time.perf_counter() - began
            print(
                f"\r  day {day:>3}: {len(world.state.jobs):>6} jobs known, {spent:.0f} s ", end="", file=sys.stderr, flush=True
            )
    if progress:
        print("\r" + " " * 50 + "\r", end="", file=sys.stderr, flush=True)
    return outcome(world, jobs, saves=saves)


def scenario(
    jobs: list[Job],
    nodes: int,
    *,
    saves: bool,
    min_runtime: int,
    last: bool = False,
    limits: int = 0,
    pool: dict[str, int] | None = None,
    weights: dict[str, int] | None = None,
) -> Scenario:
    """The jobs on nodes of 8 GPUs, each virtual cluster with its share. Spans in microseconds.

    `last`: preempted jobs go behind all that wait. `limits`: the time limit of every job in percent of its run time, 0: none.
    `pool`: fields of the pool that are to be others; `weights`: of clusters, instead of their parts of the jobs.
    """
    sizes = {job.gpus: (job.parts, job.per_node) for job in jobs}
    profiles = tuple(
        Profile(name=f"g{gpus}", request={GPU: each * GPU_UNITS}, replicas=parts, pools=("philly",))
        for gpus, (parts, each) in sorted(sizes.items())
    )
    links = tuple(PolicyProfile(name=profile.name) for profile in profiles)
    terms = PreemptionTerms(min_runtime=min_runtime, on_preempt=REQUEUE_LAST if last else "requeue")
    submitted = Counter(job.cluster for job in jobs)
    policies = tuple(
        Policy(
            name=cluster,
            profiles=links,
            weight=(weights or {}).get(cluster, max(1, 100 * submitted[cluster] // len(jobs))),
            reservation={GPU: gpus * GPU_UNITS},
            max_pending=len(jobs),
            preemption=terms,
        )
        for cluster, gpus in philly.shares(jobs, nodes).items()
    )
    hall = Pool(name="philly", selector={"site": "philly"}, **{"backfill_for": BACKFILL_FOR, **(pool or {})})
    submits = [
        Moment(
            at=job.submitted * SECOND,
            submit=Submit(
                name=f"j{job.order}",
                queue=f"{job.cluster}/g{job.gpus}",
                duration=job.duration * SECOND,
                saves_on_abort=saves,
                time_limit=job.duration * SECOND * limits // 100 + MINUTE if limits else None,
            ),
        )
        for job in jobs
    ]
    days = range(1, (jobs[-1].submitted + max(job.duration for job in jobs)) // DAY + DAYS_AFTER)
    marks = [Moment(at=day * DAY * SECOND, expect=Expect()) for day in days]
    return Scenario(
        documents=Documents(pools=(hall,), profiles=profiles, policies=policies),
        nodes=(Nodes(name="n", count=nodes, labels={"site": "philly"}, gpus=philly.GPUS_PER_NODE),),
        timeline=(*submits, *marks),
    )


def outcome(world: World, jobs: list[Job], *, saves: bool) -> Outcome:
    """Read off the facts alone. Only a job's first replica is looked at: all of them start and end together here."""
    numbers = {key: int(name[1:]) for name, key in world.names.items()}
    found, attempts = Outcome(), dict[str, tuple[int, int]]()
    for stated in world.history:
        at = stated.at // SECOND
        for fact in stated.facts:
            match fact:
                case f.LeaseStartedV1(rank=0):
                    attempts[fact.job] = (at, at)
                    found.started.setdefault(numbers[fact.job], at)
                case f.LeaseEndedV1(rank=0):
                    began = attempts[fact.job][0]
                    attempts[fact.job] = (began, at)
                    found.busy.append((began, at, numbers[fact.job]))
                case f.JobRequeuedV1(cause="preempted"):
                    began, ended = attempts[fact.job]
                    found.preemptions += 1
                    found.lost += 0 if saves else (ended - began) * jobs[numbers[fact.job]].gpus
                case f.JobEndedV1():
                    found.ended[numbers[fact.job]] = at
    return found


def simple(jobs: list[Job], nodes: int, choose: Callable[[trace_baselines.Line, trace_baselines.Nodes], Job | None]) -> Outcome:
    """A simple scheduler, in the same terms."""
    done = trace_baselines.play(jobs, nodes, philly.shares(jobs, nodes), choose)
    busy = [(began, ended, number) for number, (began, ended) in done.items()]
    return Outcome(
        {number: began for number, (began, _) in done.items()}, {number: ended for number, (_, ended) in done.items()}, busy
    )


def figures(jobs: list[Job], nodes: int, found: Outcome, seconds: float) -> dict[str, Any]:
    """What is printed: waits to the first start and completion times in seconds, use of the cluster while jobs were submitted."""
    missing = len(jobs) - len(found.ended)
    if missing:
        raise SystemExit(f"{missing} of {len(jobs)} jobs have not ended: these figures would be wrong")
    waits = sorted(found.started[job.order] - job.submitted for job in jobs)
    large = sorted(found.started[job.order] - job.submitted for job in jobs if job.gpus >= philly.GPUS_PER_NODE)
    first, last = jobs[0].submitted, jobs[-1].submitted
    used = sum(max(0, min(ended, last) - max(began, first)) * jobs[number].gpus for began, ended, number in found.busy)
    return {
        "wait_mean_s": sum(waits) / len(waits),
        **{f"wait_p{percent}_s": waits[len(waits) * percent // 100] for percent in (50, 95, 99)},
        "wait_large_mean_s": sum(large) / max(1, len(large)),
        "wait_large_p95_s": large[len(large) * 95 // 100] if large else 0,
        "completion_mean_s": sum(found.ended[job.order] - job.submitted for job in jobs) / len(jobs),
        "use_percent": 100 * used / ((last - first) * nodes * philly.GPUS_PER_NODE),
        "preemptions": found.preemptions,
        "lost_gpu_hours": found.lost / 3_600,
        "seconds": seconds,
    }


HEAD = (
    f"{'':<40} {'use %':>5} {'wait mean':>9} {'p50':>8} {'p95':>8} {'p99':>8} {'>=8 GPUs':>8} {'p95':>8} {'completed':>9}"
    f" {'preempted':>9} {'lost GPU-h':>10} {'took s':>6}"
)
_COLUMNS = (
    "use_percent",
    "wait_mean_s",
    "wait_p50_s",
    "wait_p95_s",
    "wait_p99_s",
    "wait_large_mean_s",
    "completion_mean_s",
    "preemptions",
    "lost_gpu_hours",
)
QUOTED: dict[int, dict[str, Any]] = {
    80: {
        "borrowing, reclaim, work lost *": (84.6, 7_763, 933, 44_226, 56_465, 27_710, 20_827, 10_666, 17_982),
        "borrowing, reclaim, free checkpoints *": (82.9, 5_020, 267, 20_729, 53_283, 22_819, 17_460, 9_424, 0),
    },
    96: {
        "borrowing, reclaim, work lost *": (70.8, 682, None, 3_201, 16_819, None, 13_144, None, None),
        "borrowing, reclaim, free checkpoints *": (70.4, 607, None, 3_112, 16_727, None, 12_948, None, None),
    },
}
"""Reference figures on the same jobs, from an independent simulator; None if it gives no figures."""


def show(name: str, row: dict[str, Any]) -> str:
    """One line of the table; "-" for what is not known."""
    widths = {
        "wait_mean_s": 9,
        "wait_p50_s": 8,
        "wait_p95_s": 8,
        "wait_p99_s": 8,
        "wait_large_mean_s": 8,
        "wait_large_p95_s": 8,
        "completion_mean_s": 9,
        "preemptions": 9,
        "lost_gpu_hours": 10,
        "seconds": 6,
    }
    shown = {key: "-" if row.get(key) is None else f"{row[key]:,.0f}" for key in widths}
    return f"{name:<40} {row['use_percent']:>5.1f} " + " ".join(f"{shown[key]:>{width}}" for key, width in widths.items())


def measure(jobs: list[Job], nodes: int, *, progress: bool, asked: argparse.Namespace) -> dict[str, Any]:
    """All rows for one size of the cluster, printed as they come."""
    pool = {name: parse_duration(text) for name in ("backfill_for", "keep_for") if (text := getattr(asked, name)) is not None}
    runs: dict[str, Callable[[], Outcome]] = {}
    if not asked.only_engine:
        for choose in (trace_baselines.fifo, trace_baselines.backfill, trace_baselines.borrowing):
            runs[choose.__name__] = lambda choose=choose: simple(jobs, nodes, choose)
    for name, terms in asked.terms or list(TERMS.items())[: asked.rows]:
        runs[name] = lambda terms=terms: engine(
            jobs,
            scenario(jobs, nodes, limits=asked.limits, pool=pool, weights=asked.weight, **terms),
            saves=terms["saves"],
            progress=progress,
        )
    print(f"{nodes} nodes x {philly.GPUS_PER_NODE} GPUs, {len(jobs):,} jobs\n{HEAD}", flush=True)
    rows: dict[str, Any] = {}
    apart: dict[str, Outcome] = {}
    shares = philly.shares(jobs, nodes)
    for name, run in runs.items():
        began = time.perf_counter()
        found = run()
        rows[name] = figures(jobs, nodes, found, time.perf_counter() - began) | trace_split.figures(jobs, shares, found)
        if name in APART:
            apart[name] = found
        print(show(name, rows[name]), flush=True)
    for name, row in QUOTED.get(nodes, {}).items():
        print(show(name, dict(zip(_COLUMNS, row, strict=True))), flush=True)
    if apart:
        print("", *trace_split.lines(jobs, shares, apart), sep="\n", flush=True)
    return rows


def _row(text: str) -> tuple[str, dict[str, Any]]:
    """A row of the engine from MIN_RUNTIME[:last]: its name and its terms."""
    span, _, last = text.partition(":")
    try:
        min_runtime = parse_duration(span)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if last not in ("", "last"):
        raise argparse.ArgumentTypeError(f"{text}: behind the colon only `last` may stand")
    name = f"Headrace, left alone for {span}{', go last' if last else ''}"
    return name, {"saves": True, "min_runtime": min_runtime, "last": bool(last)}


def _weight(text: str) -> dict[str, int]:
    """The weight of one cluster, from CLUSTER=WEIGHT."""
    cluster, _, weight = text.partition("=")
    if not weight.isdecimal() or int(weight) < 1:
        raise argparse.ArgumentTypeError(f"{text}: write CLUSTER=WEIGHT, with a whole number from 1 on")
    return {cluster: int(weight)}


def main() -> int:
    """Run what is asked for; all of it by default."""
    parser = options("bench.trace", __doc__, "10 minutes")
    parser.add_argument("--nodes", type=int, nargs="*", default=[80, 96], help="sizes of the cluster, in nodes of 8 GPUs")
    parser.add_argument("--jobs", type=int, help="only so many of the first jobs")
    parser.add_argument(
        "--days",
        type=int,
        nargs=2,
        metavar=("FROM", "TO"),
        help="only jobs submitted on these days, TO left out (default: all)",
    )
    parser.add_argument("--only-engine", action="store_true", help="leave out the simple schedulers")
    parser.add_argument("--rows", type=int, help="only so many of the engine's rows")
    parser.add_argument(
        "--terms",
        nargs="+",
        type=_row,
        metavar="MIN_RUNTIME[:last]",
        help="these rows of the engine instead, of jobs that save: the policies' `min_runtime`; `:last`: preempted jobs go last",
    )
    parser.add_argument(
        "--weight",
        type=_weight,
        metavar="CLUSTER=WEIGHT",
        help="another weight of a cluster among borrowers than its part of the jobs",
    )
    parser.add_argument(
        "--limits", type=int, default=0, help="give every job a time limit: percent of its run time, and a minute more"
    )
    parser.add_argument("--backfill-for", help="of the pool (default: 24h)")
    parser.add_argument("--keep-for", help="of the pool (default: the product's)")
    parser.add_argument("--json", type=Path, help="write the figures into this file as well")
    arguments = parser.parse_args()
    try:
        jobs = philly.read(arguments.jobs, arguments.days)
    except FileNotFoundError as error:
        print(
            f"{error.filename} is missing; say where the traces are: HEADRACE_TRACES=FOLDER make bench-trace", file=sys.stderr
        )
        return 1
    clusters = sorted({job.cluster for job in jobs})
    if unknown := set(arguments.weight or {}).difference(clusters):
        parser.error(f"argument --weight: the trace has no cluster {unknown.pop()}; it has {', '.join(clusters)}")
    found = {}
    for nodes in arguments.nodes:
        found[str(nodes)] = measure(jobs, nodes, progress=sys.stderr.isatty(), asked=arguments)
        print("* quoted: an independent simulator on the same jobs\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
