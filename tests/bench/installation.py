"""A whole installation for a measurement: started by the `headrace` command in a folder of its own, used by the client, removed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

DOCUMENTS = """
groups: [{name: bench, members: [bench]}]
pools: [{name: onprem, selector: {site: hq}}]
profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}, {name: all, request: {gpu: 8}, pools: [onprem]}]
policies: [{name: bench, group: bench, profiles: [one, all], max_pending: 1000000}]
"""


def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command; its output is shown where it fails."""
    done = subprocess.run([sys.executable, "-m", "headrace.cli.main", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"headrace {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done


@contextmanager
def installation(gpus: int, *more: str) -> Iterator[Path]:
    """The data directory of a running installation with one node of `gpus` simulated GPUs and the queue `bench/one`; `more`: of `up`."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    data = ["--data", str(folder)]
    try:
        headrace("up", *data, "--nodes", "1", "--gpus", str(gpus), "--detach", *more)
        try:
            documents = folder / "bench.yaml"
            documents.write_text(DOCUMENTS, encoding="utf-8")
            headrace("apply", *data, "-f", str(documents))
            yield folder
        finally:
            headrace("down", *data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cpu_seconds(folder: Path) -> dict[str, float]:
    """CPU-seconds used so far by each part of the installation, children included that have been waited for."""
    status = json.loads(headrace("status", "--data", str(folder), "--json").stdout)
    used: dict[str, float] = {}
    for part in status["parts"]:
        try:
            times = psutil.Process(part["pid"]).cpu_times()
        except (psutil.Error, TypeError):
            continue
        used[part["name"]] = times.user + times.system + times.children_user + times.children_system
    return used
