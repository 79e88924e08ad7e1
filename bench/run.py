"""`make bench`: measures what is asked for, and prints all figures there are as one table, beside goals and peers."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import msgspec

from bench import table
from bench.groups import GROUPS, RUNS, Size, chosen
from bench.results import Result, machine, record, recorded
from bench.stage import done, progress


def main(arguments: list[str] | None = None) -> int:
    """0; 1 where something could not be measured, or has slipped."""
    options = _options(arguments)
    size = Size(options.runs or (1 if options.quick else RUNS), options.quick)
    names = [] if options.table else chosen(options.what)
    where = machine()
    minutes = sum(GROUPS[name].minutes[options.quick] for name in names)
    if names:
        print(f"{', '.join(names)}: about {max(1, round(minutes))} minutes on two quiet cores", flush=True)
    fresh, failed = measure(names, size)
    results: dict[str, Result] = {name: result for name in GROUPS if (result := recorded(name)) is not None}
    found = table.rows(results, fresh)
    print(f"\n{table.show(found, results, fresh, where)}", flush=True)
    for reason in failed:
        print(f"not measured: {reason}", file=sys.stderr)
    if options.json:
        options.json.write_bytes(table.as_json(found, where))
    known = table.read_accepted()
    if options.accept:
        table.ACCEPTED.write_bytes(msgspec.json.format(msgspec.json.encode(table.accept(found, known))) + b"\n")
    worse = table.slipped(found, known) if options.compare else []
    if options.compare and not known:
        print("nothing to compare with: run.py --accept keeps what is measured as accepted", file=sys.stderr)
    for reason in worse:
        print(f"slipped below {table.FLOOR:.0%} of what was accepted: {reason}", file=sys.stderr)
    return 1 if failed or worse else 0


def measure(names: list[str], size: Size) -> tuple[list[str], list[str]]:
    """The groups that were measured, and a line for each that could not be."""
    fresh, failed = [], []
    for number, name in enumerate(names, 1):
        group, began = GROUPS[name], time.monotonic()
        progress(f"{number} of {len(names)}: {group.what}")
        command = f"run.py {name}{' --quick' if size.is_quick else ''}{f' --runs {size.runs}' if size.runs != RUNS else ''}"
        try:
            record(name, command, lambda group=group: group.work(size), is_quick=size.is_quick)
        except (RuntimeError, OSError, AssertionError) as error:
            failed.append(f"{name}: {' '.join(str(error).split())[:300]}")
        else:
            fresh.append(name)
        done()
        print(f"{number} of {len(names)}: {group.what}, {time.monotonic() - began:.0f} s", flush=True)
    return fresh, failed


def _options(arguments: list[str] | None) -> argparse.Namespace:
    lines = [
        f"  {name:<12} {group.what} (about {group.minutes[0]:g} min{', only when named' if group.is_long else ''})"
        for name, group in GROUPS.items()
    ]
    whole = sum(group.minutes[0] for group in GROUPS.values() if not group.is_long)
    parser = argparse.ArgumentParser(
        prog="python -m bench.run",
        description="Measure, and print all figures as one table. What is not measured now is shown as it was recorded the last time.",
        epilog=f"Without a name everything but the long ones, about {whole:.0f} minutes; `all` is everything.\n"
        + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", metavar="WHAT", choices=[*GROUPS, "all", []], help="the groups listed below")
    parser.add_argument("--quick", action="store_true", help="one run of each, and smaller ones of what takes long")
    parser.add_argument("--runs", type=int, help=f"of each figure (default: {RUNS})")
    parser.add_argument("--table", action="store_true", help="measure nothing: print what is recorded")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table into this file as well")
    parser.add_argument("--compare", action="store_true", help="fail where a figure is below 80 %% of the last accepted mean")
    parser.add_argument("--accept", action="store_true", help="keep the means of what was measured now as the accepted ones")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
