"""Breaks a real installation for some minutes, heals it, and judges: `make chaos MINUTES=10 [SEED=7]`.

Everything is the real thing: three NATS servers in a cluster, PostgreSQL, Envoy, every service, standbys, nodes with simulated GPUs and
jobs that are processes. Jobs are submitted all the while, and preemption is busy. Processes are killed (-9), stopped for seconds or more
than a minute, cut off from the network, and the disks of NATS, PostgreSQL and nodes are filled to the last page. At the end everything has
to be as the acknowledgements said. Exit code 1 where it is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from tests.chaos import network
from tests.chaos.disks import Disks
from tests.chaos.faults import KINDS, Faults
from tests.chaos.judging import Verdict, judge, logs_of
from tests.chaos.load import Load
from tests.chaos.place import Place
from tests.chaos.watching import Watching

INSIDE = "HEADRACE_CHAOS_INSIDE"
UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private")
REPORT_EVERY = 10.0
DRAIN_WITHIN = 300.0


def main(arguments: list[str] | None = None) -> int:
    """0: nothing was lost and nothing broken."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long things break (default: 10)")
    parser.add_argument(
        "--seed", default=str(random.SystemRandom().randrange(10_000)), help="which faults (default: by chance)"
    )
    parser.add_argument("--rate", type=float, default=5.0, help="jobs submitted a second (default: 5)")
    parser.add_argument("--only", metavar="KIND,...", default="", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--on", metavar="PART,...", default="", help="only what happens to parts whose names begin so")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--keep", action="store_true", help="leave the installation's files where they are")
    options = parser.parse_args(arguments)
    if INSIDE not in os.environ:
        return _alone(sys.argv[1:] if arguments is None else arguments, options.seed)
    folder = Path(os.environ[INSIDE])
    lacks = "" if os.environ.get("HEADRACE_CHAOS_ALONE") else "no namespaces of our own here (that takes root and `unshare`)"
    return asyncio.run(_campaign(Place(folder), options, lacks))


def _alone(arguments: list[str], seed: str) -> int:
    """The same in namespaces of its own (network, mounts, processes), so that nothing it does reaches other processes, or outlives it."""
    folder = tempfile.mkdtemp(prefix="headrace-chaos-", dir="/tmp")
    Path(folder).chmod(0o711)
    command = [sys.executable, "-m", "tests.chaos.campaign", *arguments]
    if "--seed" not in arguments:
        command += ["--seed", seed]
    environment = os.environ | {INSIDE: folder}
    can = os.geteuid() == 0 and shutil.which("unshare") and subprocess.run([*UNSHARE, "true"], check=False).returncode == 0
    try:
        if not can:
            return subprocess.run(command, env=environment, check=False).returncode
        inside = 'ip link set lo up && exec "$@"'
        reaper = [sys.executable, "-c", REAPER, "sh", "-c", inside, "sh", *command]
        return subprocess.run([*UNSHARE, *reaper], env=environment | {"HEADRACE_CHAOS_ALONE": "1"}, check=False).returncode
    finally:
        if "--keep" not in arguments:
            shutil.rmtree(folder, ignore_errors=True)


REAPER = """
import os, signal, sys
child = os.fork()
if not child:
    os.execvp(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pid, status = os.wait()
    if pid == child:
        sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""
"""The first process of a namespace, which has to collect those that have no other parent."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


async def _campaign(place: Place, options: argparse.Namespace, lacks: str) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # of our own connections
    place.prepare()
    disks = Disks(place)
    no_disks = lacks or disks.mount()
    no_cuts = lacks or network.why_not()
    load_before = os.getloadavg()[0]
    for what, why in (("partitions", no_cuts), ("full disks", no_disks)):
        if why:
            print(f"without {what}: {why}", flush=True)
    print(
        f"seed {options.seed}, {options.minutes:g} minutes, {options.rate:g} jobs/s, load {load_before:.1f} before", flush=True
    )
    try:
        await asyncio.to_thread(place.up)
        await asyncio.to_thread(place.govern)
        chance = random.Random(f"load {options.seed}")
        load = Load(place, chance, options.rate)
        watching = Watching(place, load)
        faults = Faults(
            place, watching, disks, options.seed, cuts=not no_cuts, only=_names(options.only), on=_names(options.on)
        )
        began = time.monotonic()
        work = [asyncio.create_task(task) for task in (watching.follow(), _report(load, watching, faults), faults.let_in())]
        submits = asyncio.create_task(load.run())
        await asyncio.sleep(3.0)
        await faults.run(options.minutes * 60)
        submits.cancel()
        await asyncio.gather(submits, return_exceptions=True)
        broke = time.monotonic() - began
        faults.heal()
        drained = await _drain(load, watching)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        verdict = await judge(place, load, watching, faults.lost)
        verdict.violations += drained
        await watching.close()
        found = _figures(options, load, watching, faults, verdict)
        found |= {"seconds": round(broke), "drained_after_s": round(time.monotonic() - began - broke)}
        found |= {"load": [load_before, os.getloadavg()[0]], "without": {"cut": no_cuts, "full": no_disks}}
        _show(found, logs_of(place))
        if options.json:
            options.json.write_text(json.dumps(found, indent=2), encoding="utf-8")
        return 1 if verdict.violations else 0
    finally:
        place.end(keep=options.keep)


async def _report(load: Load, watching: Watching, faults: Faults) -> None:
    began = time.monotonic()
    while True:
        await asyncio.sleep(REPORT_EVERY)
        now = ", ".join(f"{fault.kind} {part}" for part, fault in faults.running.items())
        print(
            f"{time.monotonic() - began:5.0f} s  {len(load.acknowledged)} acknowledged, {load.unanswered} unanswered,"
            f" {len(load.open)} open, {watching.counts['lease.granted.v1']} grants,"
            f" {watching.counts['preemption.ordered.v1']} preemptions, {faults.kills} kills,"
            f" {sum(faults.counts.values())} faults; now: {now or '-'}",
            flush=True,
        )


async def _drain(load: Load, watching: Watching) -> list[str]:
    """Wait until every job that was acknowledged or is there has ended, and all services have read everything; returns what has not."""
    deadline = time.monotonic() + DRAIN_WITHIN
    behind: dict[str, int | None] = {}
    while time.monotonic() < deadline:
        if not load.open:
            behind = await watching.behind()
            if all(count == 0 for count in behind.values()):
                return []
        await asyncio.sleep(0.5)
    if load.open:
        return [f"{len(load.open)} jobs have not ended within {DRAIN_WITHIN:g} s: {sorted(load.open)[:5]}"]
    return [f"services have not caught up within {DRAIN_WITHIN:g} s: {behind}"]


def _figures(options: argparse.Namespace, load: Load, watching: Watching, faults: Faults, verdict: Verdict) -> dict[str, Any]:
    took: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for (kind, part), seconds in faults.took.items():
        took[kind][part] = sorted(seconds)
    return {
        "seed": options.seed,
        "acknowledged": len(load.acknowledged),
        "over_api": load.over_api,
        "repeated": load.repeated,
        "unanswered": load.unanswered,
        "lost": verdict.lost,
        "ended_twice": verdict.twice,
        "ends": dict(verdict.ends),
        "records": verdict.records,
        "facts": verdict.facts,
        "grants": watching.counts["lease.granted.v1"],
        "preemptions": watching.counts["preemption.ordered.v1"],
        "kills": faults.kills,
        "counts": {f"{kind} {part}": times for (kind, part), times in sorted(faults.counts.items())},
        "recovery_s": took,
        "violations": verdict.violations,
    }


def _show(found: dict[str, Any], complaints: list[str]) -> None:
    print(f"\n{'PART':<20}{'FAULT':<17}{'TIMES':>6}{'MEDIAN s':>10}{'P99 s':>8}{'MAX s':>8}")
    rows = [(part, kind, seconds) for kind, parts in found["recovery_s"].items() for part, seconds in parts.items()]
    by_kind: dict[str, list[float]] = defaultdict(list)
    for part, kind, seconds in sorted(rows):
        by_kind[kind] += seconds
        print(_row(part, kind, seconds))
    for kind in KINDS:
        if kind in by_kind:
            print(_row("all", kind, sorted(by_kind[kind])))
    print(
        f"\nseed {found['seed']}: {found['seconds']} s, {found['kills']} kills, {sum(found['counts'].values())} faults;"
        f" {found['acknowledged']} submits acknowledged ({found['over_api']} over the API, {found['repeated']} repeated),"
        f" {found['unanswered']} unanswered,"
        f" {found['lost']} lost, {found['ended_twice']} ended twice; {found['grants']} grants, {found['preemptions']} preemptions,"
        f" {found['records']} records, {found['facts']} facts; ends {found['ends']}; at rest after {found['drained_after_s']} s;"
        f" load {found['load'][0]:.1f} before, {found['load'][1]:.1f} after; {len(found['violations'])} violations"
    )
    for violation in found["violations"]:
        print(f"  VIOLATION {violation}")
    for line in complaints[:20]:
        print(f"  said {line}")


def _row(part: str, kind: str, seconds: list[float]) -> str:
    worst = seconds[min(len(seconds) - 1, -(-99 * len(seconds) // 100) - 1)]
    figures = f"{statistics.median(seconds):>10.2f}{worst:>8.2f}{seconds[-1]:>8.2f}"
    return f"{part:<20}{kind:<17}{len(seconds):>6}{figures}"


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
