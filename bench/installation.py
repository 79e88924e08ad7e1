"""A whole installation for a measurement: started by the `headrace` command in a folder of its own, used by the client, removed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.fleet import Group, fleet
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import read_running

DOCUMENTS = """
groups: [{name: bench, members: [bench]}]
pools: [{name: onprem, selector: {site: hq}}]
profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}, {name: all, request: {gpu: 8}, pools: [onprem]}]
policies: [{name: bench, group: bench, profiles: [one, all], max_pending: 1000000}]
"""
FLEET = "fleet"
SPENT: list[float] = []
"""CPU-seconds of each installation that was here and is gone."""


def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command; its output is shown where it fails."""
    done = subprocess.run([sys.executable, "-m", "headrace.cli.main", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"headrace {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done


@contextmanager
def installation(
    gpus: int, *more: str, groups: Sequence[Group] = (), documents: Sequence[str] = (DOCUMENTS,)
) -> Iterator[Path]:
    """The data directory of a running installation with one node of `gpus` simulated GPUs and the queue `bench/one`; `more`: of `up`.

    With `groups` its nodes are a fleet's instead. `documents` are applied one after the other.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # who is cut short leaves nothing running
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    data = ["--data", str(folder)]
    nodes = ["--nodes", "0"] if groups else ["--nodes", "1", "--gpus", str(gpus)]
    try:
        _make_logins(folder, groups)
        try:  # also while it starts: an interrupted start then leaves nothing running either
            headrace("up", *data, *nodes, "--detach", *more)
            for number, text in enumerate(documents):
                file = folder / f"bench-{number}.yaml"
                file.write_text(text, encoding="utf-8")
                headrace("apply", *data, "-f", str(file))
            if groups:
                with fleet(folder, groups) as pid:
                    (folder / FLEET).write_text(str(pid), encoding="utf-8")
                    yield folder
            else:
                yield folder
        finally:
            SPENT.append(sum(cpu_seconds(folder).values()))
            headrace("down", *data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_logins(folder: Path, groups: Sequence[Group]) -> None:
    """Those of all nodes, which the server's configuration has to name when it starts."""
    if groups:
        home = Installation(folder)
        home.prepare()
        for group in groups:
            for name in group.nodes:
                home.node(name)


def cpu_seconds(folder: Path) -> dict[str, float]:
    """CPU-seconds used so far by each process of the installation, with all its children, also those that have ended."""
    running = read_running(Installation(folder))
    parts = {child.process_name: child.pid for child in running.children} if running is not None else {}
    if (folder / FLEET).exists():
        parts[FLEET] = int((folder / FLEET).read_text("utf-8"))
    used: dict[str, float] = {}
    for name, pid in parts.items():
        try:
            process = psutil.Process(pid)
            used[name] = _used(process) + sum(map(_used, process.children(recursive=True)))
        except (psutil.Error, TypeError):
            continue
    return used


def _used(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended this moment
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
