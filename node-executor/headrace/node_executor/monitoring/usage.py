"""Use of the node by leases, from the kernel's list of processes: CPU time, memory, number of processes.

Strategy: the list is read once for all leases, one small file for each process. A process belongs to the lease whose first process leads
its session, or is among its ancestors: that covers everything that a job starts, except what hides on purpose, and the cgroup limits that
all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = 1_000_000 // os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024
_PARENT, _SESSION, _TIMES, _RESIDENT = (
    1,
    3,
    slice(11, 15),
    21,
)  # fields of /proc/<pid>/stat, counted from the one after the name
_GENERATIONS = 64


class Stat(NamedTuple):
    """A process: CPU time in microseconds, including children it has waited for; memory in bytes."""

    parent: int
    session: int
    cpu: int
    memory: int


class LeaseUsage(NamedTuple):
    """Use by all processes of one lease: microseconds of CPU time so far, bytes."""

    cpu: int = 0
    memory: int = 0
    processes: int = 0


def processes() -> dict[int, Stat]:
    """Return all visible processes by number."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            cpu = sum(map(int, fields[_TIMES])) * TICK
            found[int(name)] = Stat(int(fields[_PARENT]), int(fields[_SESSION]), cpu, int(fields[_RESIDENT]) * PAGE)
    return found


def uses(found: Mapping[int, Stat], leaders: Mapping[int, str]) -> dict[str, LeaseUsage]:
    """Return the use of each lease; `leaders`: the lease of each first process, by its number."""
    total = dict.fromkeys(leaders.values(), LeaseUsage())
    for pid, stat in found.items():
        lease = leaders.get(stat.session) or _of_forefathers(found, pid, leaders)
        if lease:
            use = total[lease]
            total[lease] = LeaseUsage(use.cpu + stat.cpu, use.memory + stat.memory, use.processes + 1)
    return total


def _of_forefathers(found: Mapping[int, Stat], pid: int, leaders: Mapping[int, str]) -> str:
    for _ in range(_GENERATIONS):
        if pid in leaders:
            return leaders[pid]
        stat = found.get(pid)
        if stat is None:
            return ""
        pid = stat.parent
    return ""


def millicores(before: Iterable[tuple[str, LeaseUsage]], now: Mapping[str, LeaseUsage], elapsed: int) -> dict[str, int]:
    """Return each lease's average CPU use over `elapsed` microseconds; without leases that were not there before."""
    earlier = dict(before)
    return {
        lease: max(0, use.cpu - earlier[lease].cpu) * 1000 // max(1, elapsed) if lease in earlier else 0
        for lease, use in now.items()
    }
