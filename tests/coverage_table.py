"""`make coverage`: the lines that tests have run, by package, from the JSON report of coverage.py; fails below a floor."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any


def by_package(report: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """(lines that were run, lines) of each package below `headrace`."""
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, file in report["files"].items():
        package = path.partition("/headrace/")[2].partition("/")[0]
        counted[package][0] += file["summary"]["covered_lines"]
        counted[package][1] += file["summary"]["num_statements"]
    return {package: (run, lines) for package, (run, lines) in sorted(counted.items())}


def table(counted: dict[str, tuple[int, int]]) -> str:
    """One line for each package, and the sum of all."""
    rows = [*counted.items(), ("all", _total(counted))]
    return "\n".join(
        f"{package:<16} {run:>7} of {lines:>6} lines  {_percent(run, lines):>5.1f} %" for package, (run, lines) in rows
    )


def main(path: str, floor: float = 0) -> int:
    """Prints the table; 1 if less than `floor` percent of all lines were run."""
    counted = by_package(json.loads(Path(path).read_text(encoding="utf-8")))
    print(table(counted))
    if _percent(*_total(counted)) < floor:
        print(f"coverage is below the floor of {floor:g} %", file=sys.stderr)
        return 1
    return 0


def _total(counted: dict[str, tuple[int, int]]) -> tuple[int, int]:
    return sum(run for run, _ in counted.values()), sum(lines for _, lines in counted.values())


def _percent(run: int, lines: int) -> float:
    return 100 * run / lines if lines else 100.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(float, sys.argv[2:])))
