"""Plays many seeds on all cores and says what came of it: `make sim SEEDS=1000`, or one of them again.

A run that breaks a promise is made small and written to a file, which `make sim PLAN=...` plays again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from headrace.host.layouts import APART, LAYOUTS
from tests.simulation.overflow import overflowing
from tests.simulation.plan import Plan, draw, read, write
from tests.simulation.shrinking import shrink, sort_of
from tests.simulation.world import Outcome, play

REPORT_EVERY = 2.0


def run(seed: str, drawn: Callable[[str], Plan] = draw, **how: Any) -> Outcome:
    """One seed; `how`: see `World`. What fails in the program itself is told with its seed."""
    try:
        return play(drawn(seed), **how)
    except Exception as error:
        raise RuntimeError(f"seed {seed} failed: {error!r}") from error


def draw_cloud(seed: str) -> Plan:
    """The plan of a seed whose pools create their nodes."""
    return overflowing(draw(seed))


def main(arguments: list[str] | None = None) -> int:
    """1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--plan", type=Path, help="play this file instead")
    parser.add_argument("--layout", choices=LAYOUTS, default=APART, help="which services share a process")
    parser.add_argument("--out", type=Path, default=Path(), help="where files of broken promises go")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--hashes", action="store_true", help="compare the whole state before and after each decision")
    parser.add_argument("--clouds", action="store_true", help="behind every pool is a cloud with faults of its own")
    options = parser.parse_args(arguments)
    drawn = draw_cloud if options.clouds else draw
    how = {"layout": options.layout, "hashes": options.hashes}
    if options.plan is not None:
        return _again(options.plan, how)
    began, cpu = time.monotonic(), time.process_time()
    outcomes = list(
        _played([str(seed) for seed in range(options.first, options.first + options.seeds)], partial(run, drawn=drawn, **how))
    )
    seconds, spent = time.monotonic() - began, time.process_time() - cpu + _children()
    _report(outcomes, seconds, spent)
    if options.json:
        options.json.write_text(json.dumps(_figures(outcomes, seconds, spent), indent=2) + "\n", encoding="utf-8")
    broken = [outcome for outcome in outcomes if outcome.violations]
    for outcome in broken[:3]:
        _make_small(drawn(outcome.seed), outcome, options.out, how)
    return 1 if broken else 0


def _played(seeds: list[str], run: Callable[[str], Outcome]) -> Iterator[Outcome]:
    reported = 0.0
    with multiprocessing.Pool() as pool:
        for done, outcome in enumerate(pool.imap_unordered(run, seeds, chunksize=4), 1):
            yield outcome
            for violation in outcome.violations[:1]:
                print(f"seed {outcome.seed}: {violation}", flush=True)
            if sys.stderr.isatty() and (time.monotonic() - reported > REPORT_EVERY or done == len(seeds)):
                reported = time.monotonic()
                print(f"\r{done} of {len(seeds)} seeds", end="" if done < len(seeds) else "\n", file=sys.stderr, flush=True)
        pool.close()
        pool.join()


def _figures(outcomes: list[Outcome], seconds: float, cpu: float) -> dict[str, object]:
    """What it came to, for programs."""
    return {
        "runs": len(outcomes),
        "seeds": f"{min(int(one.seed) for one in outcomes)}-{max(int(one.seed) for one in outcomes)}",
        "seconds": seconds,
        "cpu_s": cpu,
        "simulated_s": sum(one.seconds for one in outcomes),
        "facts": sum(one.facts for one in outcomes),
        "records": sum(one.records for one in outcomes),
        "violations": sum(len(one.violations) for one in outcomes),
    }


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _report(outcomes: list[Outcome], seconds: float, cpu: float) -> None:
    counts: Counter[str] = Counter()
    recoveries: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        counts += outcome.counts
        for service, took in outcome.recoveries:
            recoveries[service].append(took)
    simulated = sum(outcome.seconds for outcome in outcomes)
    facts, violations = sum(one.facts for one in outcomes), sum(len(one.violations) for one in outcomes)
    print(f"runs            {len(outcomes)} in {seconds:.0f} s on {os.cpu_count()} cores, {cpu:.0f} s of CPU")
    print(
        f"simulated time  {simulated / 3600:.1f} h: {simulated / seconds:,.0f} times as fast as real, {simulated / cpu:,.0f} per core"
    )
    print(f"facts           {facts:,} in {sum(one.records for one in outcomes):,} records")
    for prefix in ("fault: ", "act: "):
        named = sorted((name.removeprefix(prefix), count) for name, count in counts.items() if name.startswith(prefix))
        print(f"{prefix.strip(': ')}s".ljust(16) + ", ".join(f"{name} {count}" for name, count in named))
    rest = sorted((name, count) for name, count in counts.items() if not name.startswith(("fault: ", "act: ")))
    print("besides         " + ", ".join(f"{name} {count}" for name, count in rest))
    for service, took in sorted(recoveries.items()):
        took.sort()
        worst, middle = took[-1], took[len(took) // 2]
        print(f"killed          {service}: {len(took)} times, at the tip again after {middle:.1f} s, at worst {worst:.1f} s")
    print(f"violations      {violations}")


def _make_small(whole: Plan, outcome: Outcome, folder: Path, how: dict[str, Any]) -> None:
    sort = sort_of(outcome.violations[0])
    print(f"\nseed {outcome.seed}: {outcome.violations[0]}", flush=True)
    plan = shrink(whole, lambda plan: _fails(plan, sort, how))
    path = folder / f"simulation-{outcome.seed}.json"
    write(plan, path)
    sizes = (
        f"{len(plan.faults)} faults, {len(plan.acts)} acts, {len(plan.again)} repeated requests, {len(plan.jobs)} jobs, "
        f"{sum(row.count for row in plan.nodes)} nodes"
    )
    print(f"made small: {sizes}; play it again with: make sim PLAN={path} LAYOUT={how['layout']}")


def _fails(plan: Plan, sort: str, how: dict[str, Any]) -> bool:
    return any(sort_of(violation) == sort for violation in play(plan, **how).violations)


def _again(path: Path, how: dict[str, Any]) -> int:
    outcome = play(read(path), **how)
    print(f"{outcome.facts} facts in {outcome.seconds:.0f} s, digest {outcome.digest}, violations {len(outcome.violations)}")
    for violation in outcome.violations:
        print(f"  {violation}")
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
