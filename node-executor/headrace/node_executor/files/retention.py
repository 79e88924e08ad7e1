"""Prunes what jobs leave behind on the node: by age, and logs also by their total size.

Strategy: each tenant with logs here has an equal share of the room for logs, and what a tenant does not need of its share is divided
among the others (max-min fairness). Only a tenant above its share loses logs, its oldest first: a tenant that writes much pushes out its
own logs only. Output of running jobs counts for its tenant as well, and is not removed.

Checkpoints are not touched: only the ledger knows whether an attempt may still need one.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from headrace.node_executor.files.directory_trees import remove
from headrace.node_executor.files.workspace import Workspace


class RetentionPolicy(NamedTuple):
    """Limits of what is kept: nothing older than `seconds`, and at most `log_bytes` of logs, divided among the tenants."""

    seconds: float
    log_bytes: int


def prune(workspace: Workspace, kept: RetentionPolicy, now: float, alive: Container[str]) -> int:
    """Remove what exceeds the limits; returns the number of removed things. `alive`: names of running leases. `now`: Unix seconds.

    Directories that jobs have filled are removed too, so it may take long.
    """
    workspace.clear()
    by_tenant = defaultdict[str, list[_Entry]](list)
    gone = 0
    for entry in _logs(workspace.logs):
        if entry.name not in alive and entry.modified < now - kept.seconds:
            gone += _remove(entry)
        else:
            by_tenant[_tenant_of(entry.name)].append(entry)
    limits = shares({tenant: sum(entry.size for entry in logs) for tenant, logs in by_tenant.items()}, kept.log_bytes)
    for tenant, logs in by_tenant.items():
        gone += sum(map(_remove, _too_much(logs, limits[tenant], alive)))
    for entry in _entries(workspace.leases):
        if entry.name not in alive and entry.modified < now - kept.seconds:
            remove(entry.path)
            gone += 1
    return gone


def shares(wanted: Mapping[str, int], limit: int) -> dict[str, int]:
    """Divide `room` bytes: each tenant gets an equal share, and what it does not want of it goes to the others (max-min fairness).

    A tenant's share depends on what others want only as far as they want less than theirs; rounding loses at most a byte for each.
    """
    given: dict[str, int] = {}
    for tenant in sorted(wanted, key=lambda tenant: (wanted[tenant], tenant)):
        given[tenant] = min(wanted[tenant], limit // (len(wanted) - len(given)))
        limit -= given[tenant]
    return given


class _Entry(NamedTuple):
    name: str
    path: str
    size: int
    modified: float


def _tenant_of(name: str) -> str:
    """Return the tenant of a log: its name is `<tenant>.<user>.<job id>.<attempt>.<rank>`, and tenants' names contain no dot."""
    return name.partition(".")[0]


def _too_much(logs: list[_Entry], limit: int, alive: Container[str]) -> Iterator[_Entry]:
    """Yield the oldest logs of a tenant that do not fit into its room; running jobs take their room first."""
    total = sum(entry.size for entry in logs if entry.name in alive)
    for entry in sorted(logs, key=lambda entry: entry.modified, reverse=True):
        if entry.name not in alive:
            total += entry.size
            if total > limit:
                yield entry


def _remove(entry: _Entry) -> int:
    """Remove a log with all its pieces; returns 1 if removed, otherwise 0."""
    gone = _unlink(entry.path)
    shutil.rmtree(f"{entry.path}.d", ignore_errors=True)
    return gone


def _logs(directory: str) -> list[_Entry]:
    """Return each log by the name of its lease, with all its pieces: their total size, and the time of the newest."""
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
