"""Maps processes to the leases that they were started for, including their descendants.

Strategy: the cgroup of a process tells, if leases have one each, because processes cannot leave it. Otherwise its ancestors do, or else
the control directory in the environment that it was started with. All other processes are strangers.
"""

from __future__ import annotations

import os

MARK = "HEADRACE_CONTROL_DIR"
_GENERATIONS = 64
_PARENT = 1  # fields of /proc/<pid>/stat, counted from the one after the name


class LeaseOwners:
    """Leases by the name of their control directories, which is also that of their cgroups. `leases`: parent of those directories."""

    def __init__(self, leases: str) -> None:
        self._leases = leases
        self._names: dict[str, str] = {}
        self._first: dict[int, str] = {}

    def began(self, lease: str, control: str, pid: int = 0) -> None:
        """Note that the lease's processes descend from `pid` (0: not known yet)."""
        self._names[os.path.basename(control)] = lease
        if pid:
            self._first[pid] = lease

    def ended(self, lease: str) -> None:
        """Forget a lease without processes."""
        self._names = {name: other for name, other in self._names.items() if other != lease}
        self._first = {pid: other for pid, other in self._first.items() if other != lease}

    def of(self, pid: int) -> str:
        """Return the lease of a process; "" for strangers and processes that are gone."""
        try:
            return self._by_group(pid) or self._by_descent(pid) or self._by_mark(pid)
        except (OSError, ValueError):
            return ""

    def _by_group(self, pid: int) -> str:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            for line in file:
                for name in line.rstrip("\n").split("/"):
                    if name in self._names:
                        return self._names[name]
        return ""

    def _by_descent(self, pid: int) -> str:
        for _ in range(_GENERATIONS):
            if pid in self._first:
                return self._first[pid]
            if pid <= 1:
                return ""
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[_PARENT])
        return ""

    def _by_mark(self, pid: int) -> str:
        start = f"{MARK}={self._leases}/".encode()
        with open(f"/proc/{pid}/environ", "rb") as file:
            for variable in file.read().split(b"\0"):
                if variable.startswith(start):
                    return self._names.get(os.fsdecode(variable[len(start) :]), "")
        return ""
