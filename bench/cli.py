"""How soon a command that asks the installation answers: wall time and CPU time of the whole process. `make bench-cli`.

An installation with one node of simulated GPUs and some jobs; each command is run again and again as a person runs it, as a process of its
own, and its output is thrown away. CPU time is that of the command's process; what the services spend is not in it.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench import calibrate
from bench.installation import DOCUMENTS, headrace, installation
from bench.options import options

GPUS = 8
JOBS = 30
RUNS = 15
GOAL_MS = 150.0
MS = 1_000
ASKING = (
    *("status", "jobs", "jobs --json", "job JOB", "why JOB", "logs JOB", "queues", "pools", "nodes", "get pool", "token list"),
    *("usage", "statement", "audit log --limit 20", "audit replay", "burst list"),
)
ACTING = ("submit --queue bench/one -- true", "node cordon NODE", "node uncordon NODE")
"""Commands that change something, through the same API."""


def once(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU milliseconds of one run. Raises RuntimeError if it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = b"" if process.stderr is None else process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    passed = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {errors.decode()}")
    return MS * passed, MS * (used.ru_utime + used.ru_stime)


def measure(runs: int) -> list[dict[str, Any]]:
    """Each command on a new installation; what Python alone takes comes first."""
    program = str(Path(sys.executable).parent / "headrace")
    documents = DOCUMENTS.replace("members: [bench]", f"members: [{getpass.getuser()}]")  # the commands are this user's
    with installation(GPUS, documents=(documents,)) as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        environment["HEADRACE_DATA"] = str(folder)
        job = headrace("submit", "--data", str(folder), "--queue", "bench/one", "--wait", "--", "true").stdout.split()[0]
        headrace("submit", "--data", str(folder), "--queue", "bench/one", "--count", str(JOBS), "--", "sleep", "600")
        node = msgspec.json.decode(headrace("nodes", "--data", str(folder), "--json").stdout)[0]["name"]
        lines = {line: [program, *_words(line, job, node)] for line in (*ASKING, *ACTING)}
        lines = {"python -c pass": [sys.executable, "-c", "pass"], **lines}
        for command in lines.values():  # the first run of a command compiles what it imports
            once(command, environment)
        figures: dict[str, list[tuple[float, float]]] = {line: [] for line in lines}
        for _ in range(runs):  # by turns, so that what else the machine does meets all of them
            for line, command in lines.items():
                figures[line].append(once(command, environment))
    return [
        {
            "command": line,
            "wall_ms": round(median(wall for wall, _ in one), 1),
            "wall_least_ms": round(min(wall for wall, _ in one), 1),
            "cpu_ms": round(median(cpu for _, cpu in one), 1),
            "cpu_least_ms": round(min(cpu for _, cpu in one), 1),
        }
        for line, one in figures.items()
    ]


def _words(line: str, job: str, node: str) -> list[str]:
    return [{"JOB": job, "NODE": node}.get(word, word) for word in line.split()]


def show(found: list[dict[str, Any]]) -> str:
    """The table."""
    head = f"{'command':<36}{'wall ms':>9}{'least':>8}{'CPU ms':>9}{'least':>8}   goal"
    rows = [
        f"{one['command']:<36}{one['wall_ms']:>9.0f}{one['wall_least_ms']:>8.0f}{one['cpu_ms']:>9.0f}{one['cpu_least_ms']:>8.0f}"
        + ("" if one["command"].startswith("python") else f"   {GOAL_MS:.0f} {_verdict(one)}")
        for one in found
    ]
    load = os.getloadavg()[0]
    return "\n".join([f"this machine: {calibrate.known()}, load {load:.1f}", "", head, *rows])


def _verdict(one: dict[str, Any]) -> str:
    return "met" if max(one["wall_ms"], one["cpu_ms"]) <= GOAL_MS else "missed"


def main() -> None:
    parser = options("bench.cli", __doc__, "about one minute")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each command")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    asked = parser.parse_args()
    found = measure(asked.runs)
    print(show(found))
    if asked.json:
        speed = msgspec.to_builtins(calibrate.known())
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode({"speed": speed, "commands": found})) + b"\n")


if __name__ == "__main__":
    main()
