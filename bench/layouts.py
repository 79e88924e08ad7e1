"""The layouts of an installation beside each other: idle CPU, memory, and how soon a job starts. `make bench-layouts`.

CPU and memory are those of everything: services, NATS, PostgreSQL, Envoy, one node executor and the supervisor. Memory is the proportional
set size (PSS): a page that several processes share counts once.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench import calibrate
from bench.installation import installation
from bench.line import latency, throughput
from bench.options import options
from bench.stage import quantile
from headrace.client import connect
from headrace.host.layouts import LAYOUTS
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import read_running

GPUS = 8
IDLE_SECONDS = 60.0
SETTLES = 10.0
"""Seconds after the start before anything is measured."""
SAMPLES = 100
JOBS = 1_000
GOAL_CPU_PERCENT, GOAL_MIB = 2.0, 450.0
MIB = 2**20


def processes(folder: Path) -> dict[str, list[psutil.Process]]:
    """All processes of an installation by the name of the part; without jobs."""
    running = read_running(Installation(folder))
    if running is None:
        return {}
    pids = {child.process_name: child.pid for child in running.children} | {"up": running.pid}
    found = {}
    for name, pid in pids.items():
        process = psutil.Process(pid)
        found[name] = [process, *([] if name == "up" else process.children(recursive=True))]
    found["fork server"] = [process for process in psutil.Process(running.pid).children() if process.pid not in pids.values()]
    return found


def cpu(found: dict[str, list[psutil.Process]]) -> dict[str, float]:
    """CPU-seconds used so far."""
    return {name: sum(sum(one.cpu_times()[:2]) for one in group if one.is_running()) for name, group in found.items()}


def memory(found: dict[str, list[psutil.Process]]) -> dict[str, float]:
    """MiB, proportional."""
    return {name: sum(one.memory_full_info().pss for one in group if one.is_running()) / MIB for name, group in found.items()}


async def measure(layout: str, idle_seconds: float, samples: int, jobs: int) -> dict[str, Any]:
    """One layout, on a new installation."""
    with installation(GPUS, "--layout", layout) as folder:
        await asyncio.sleep(SETTLES)
        found = processes(folder)
        before, began = cpu(found), time.monotonic()
        await asyncio.sleep(idle_seconds)
        after, passed = cpu(found), time.monotonic() - began
        percent = {name: 100 * (after[name] - before[name]) / passed for name in before}
        at_rest = memory(found)
        async with connect(data=folder, user="bench") as client:
            await latency(client, 10)  # the first ones fill caches
            milliseconds = sorted(await latency(client, samples))
            rate = await throughput(folder, client, jobs)
        return {
            "layout": layout,
            "idle_cpu_percent": round(sum(percent.values()), 2),
            "idle_mib": round(sum(at_rest.values())),
            "mib_after_jobs": round(sum(memory(processes(folder)).values())),
            "p50_ms": round(quantile(milliseconds, 0.5), 1),
            "p99_ms": round(quantile(milliseconds, 0.99), 1),
            "jobs_per_s": round(rate),
            "cpu_percent_by_process": {name: round(value, 2) for name, value in sorted(percent.items())},
            "mib_by_process": {name: round(value, 1) for name, value in sorted(at_rest.items())},
        }


def show(found: list[dict[str, Any]]) -> str:
    """The table, then the parts of each layout."""
    head = f"{'layout':<10}{'idle CPU':>10}{'idle MiB':>10}{'after jobs':>12}{'p50 ms':>9}{'p99 ms':>9}{'jobs/s':>9}"
    rows = [
        f"{one['layout']:<10}{one['idle_cpu_percent']:>9.2f}%{one['idle_mib']:>10}{one['mib_after_jobs']:>12}"
        f"{one['p50_ms']:>9.1f}{one['p99_ms']:>9.1f}{one['jobs_per_s']:>9}"
        for one in found
    ]
    parts = [
        f"{one['layout']}: "
        + ", ".join(
            f"{name} {percent:.2f}% {one['mib_by_process'][name]:.0f} MiB"
            for name, percent in one["cpu_percent_by_process"].items()
        )
        for one in found
    ]
    goal = f"goal: idle below {GOAL_CPU_PERCENT:g}% of one core, at most {GOAL_MIB:g} MiB in all"
    return "\n".join([f"this machine: {calibrate.known()}", "", head, *rows, goal, "", *parts])


def main() -> None:
    parser = options("bench.layouts", __doc__, "3 minutes for each layout")
    parser.add_argument("layouts", nargs="*", metavar="LAYOUT", help=f"which of {', '.join(LAYOUTS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=IDLE_SECONDS, help="for how long it is idle (default: 60)")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="jobs one after the other, for the latency")
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs at once, for the rate")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    asked = parser.parse_args()
    names = asked.layouts or list(LAYOUTS)
    found = [asyncio.run(measure(name, asked.seconds, asked.samples, asked.jobs)) for name in names]
    print(show(found))
    if asked.json:
        speed = msgspec.to_builtins(calibrate.known())
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode({"speed": speed, "layouts": found})) + b"\n")


if __name__ == "__main__":
    main()
