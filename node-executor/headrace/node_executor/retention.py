"""How long what jobs leave behind is kept on the node: by age, and the logs by their sum as well.

Checkpoints are not touched: only the ledger knows whether an attempt may still want one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Container
from typing import NamedTuple

from headrace.node_executor.workspace import Workspace


class Kept(NamedTuple):
    """What is kept: nothing older than `seconds`, and no more than `log_bytes` of logs, the newest first."""

    seconds: float
    log_bytes: int


def prune(workspace: Workspace, kept: Kept, now: float, alive: Container[str]) -> int:
    """Remove what is too old or too much; how many things went. `alive` has the names of leases that run. `now`: Unix seconds."""
    logs = [entry for entry in _logs(workspace.logs) if entry.name not in alive]
    gone = 0
    total = 0
    for entry in sorted(logs, key=lambda entry: entry.modified, reverse=True):
        total += entry.size
        if entry.modified < now - kept.seconds or total > kept.log_bytes:
            gone += _unlink(entry.path)
            shutil.rmtree(f"{entry.path}.d", ignore_errors=True)
    for entry in _entries(workspace.leases):
        if entry.name not in alive and entry.modified < now - kept.seconds:
            shutil.rmtree(entry.path, ignore_errors=True)
            gone += 1
    return gone


class _Entry(NamedTuple):
    name: str
    path: str
    size: int
    modified: float


def _logs(directory: str) -> list[_Entry]:
    """Each log by the name of its lease, with all its pieces: their sum, and when the newest of them was written."""
    found = []
    for entry in _entries(directory):
        if not entry.name.endswith(".log"):
            continue
        pieces = [entry]
        if os.path.isdir(f"{entry.path}.d"):
            pieces += _entries(f"{entry.path}.d")
        size, modified = sum(piece.size for piece in pieces), max(piece.modified for piece in pieces)
        found.append(_Entry(entry.name.removesuffix(".log"), entry.path, size, modified))
    return found


def _entries(directory: str) -> list[_Entry]:
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            found.append(_Entry(entry.name, entry.path, stat.st_size, stat.st_mtime))
    return found


def _unlink(path: str) -> int:
    try:
        os.unlink(path)
    except OSError:
        return 0
    return 1
