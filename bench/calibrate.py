"""The machine's own speed, without anything of Headrace: `make bench-calibrate`.

Four fixed pieces of work, each the median of several short runs: writes of 4 KiB that are synced, starts of `/bin/true`, a loop of plain
Python, and decodes of a fixed JSON text by msgspec. They never change, so figures of two machines, or of two days, can be compared by their
ratio to these. Every table of figures carries them.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

from bench.options import options

SECONDS = 0.1
RUNS = 5
BLOCK = bytes(4096)
TRUE = "/bin/true"
TURNS = 10_000


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """How often a second the machine does each piece of work."""

    fsyncs: float
    execs: float
    loops: float
    decodes: float

    def __str__(self) -> str:
        return (
            f"fsync {self.fsyncs:,.0f}/s, fork and exec {self.execs:,.0f}/s, Python loop {self.loops:,.0f}/s, "
            f"decode {self.decodes:,.0f}/s"
        )


class _Row(msgspec.Struct):
    """One row of the text that is decoded."""

    name: str
    at: int
    amounts: dict[str, int]
    parts: list[str]


_TEXT = msgspec.json.encode(
    [_Row(f"row-{number}", number * 1_000_003, {"gpu": number, "cpu": 8 * number}, ["a", "bc", "def"]) for number in range(100)]
)
_decoder = msgspec.json.Decoder(list[_Row])


def measure(seconds: float = SECONDS, runs: int = RUNS, folder: Path | None = None) -> Speed:
    """All four; `folder`: where synced writes go, by default where installations of benchmarks are."""
    with tempfile.NamedTemporaryFile(prefix="headrace-bench-", dir=folder) as file:
        return Speed(
            fsyncs=_rate(lambda: _sync(file.fileno()), seconds, runs),
            execs=_rate(_start, seconds, runs),
            loops=_rate(_loop, seconds, runs),
            decodes=_rate(_decode, seconds, runs),
        )


@cache
def known() -> Speed:
    """Measured once in each process."""
    return measure()


def _rate(work: Callable[[], object], seconds: float, runs: int) -> float:
    """Median of several runs, times a second."""
    work()
    return round(statistics.median(_once(work, seconds) for _ in range(runs)), 1)


def _once(work: Callable[[], object], seconds: float) -> float:
    count, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds or not count:
        work()
        count += 1
    return count / passed


def _sync(file: int) -> None:
    os.pwrite(file, BLOCK, 0)
    os.fsync(file)


def _start() -> None:
    child = os.fork()
    if not child:
        try:
            os.execv(TRUE, [TRUE])
        finally:
            os._exit(127)
    os.waitpid(child, 0)


def _loop() -> int:
    """A fixed number of turns with a dictionary, a list and integers."""
    seen: dict[int, int] = {}
    line: list[int] = []
    total = 0
    for turn in range(TURNS):
        key = (turn * 7_919) % 1_021
        seen[key] = seen.get(key, 0) + turn
        if key & 7 == 0:
            line.append(key)
        total += seen[key] ^ key
    return total + len(line)


def _decode() -> object:
    return _decoder.decode(_TEXT)


if __name__ == "__main__":
    parser = options("bench.calibrate", __doc__, "less than a minute")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    print(measure(seconds=parser.parse_args().seconds))
