"""Limits of CPU, memory and processes for each lease by control groups: version 2, or version 1 if a machine still has it.

Strategy: one group for each lease below one for the node, with the limits; in it a group for the job and one for its callback, so that
the end of the one does not end the other. On a hybrid machine the controllers are of version 1, and those two groups lie in the version 2
hierarchy, which can freeze and kill a group at once. A restarted node finds its groups by name; no other record is kept.

Every controller is tested before it is promised: `missing` lists the limits that this node cannot hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from headrace.contracts.values.amounts import MEMORY

CONTROLLERS = ("cpu", "memory", "pids")
PERIOD = 100_000
"""Microseconds over which CPU time is shared out."""

MIB = 1024 * 1024
ROUNDS, PAUSE = 500, 0.01
_LEAST_QUOTA, _LEAST_SHARES = 1_000, 2


class Limits(NamedTuple):
    """Limits of a lease: `cpu` in millicores, `memory` in MiB, `pids` processes and threads; 0: unlimited."""

    cpu: int = 0
    memory: int = 0
    pids: int = 0


class CgroupEntry(NamedTuple):
    """Where a process tree of a lease starts: `group` of version 2 (or empty), its `kill` file, `enter`: files to write a 0 into."""

    group: str = ""
    kill: str = ""
    enter: tuple[str, ...] = ()


class LeaseGroup:
    """The group of one lease. `unified`: its directory in version 2, or empty; `controlled`: directories with its limits by controller."""

    def __init__(self, unified: str, controlled: Mapping[str, str], *, modern: bool) -> None:
        self._unified = unified
        self._controlled = dict(controlled)
        self._modern = modern

    @property
    def directory(self) -> str:
        """Its directory in version 2, or ""."""
        return self._unified

    def make(self, limits: Limits) -> None:
        """Create the group with these limits. Raises `OSError`."""
        for path in {self._unified, *self._controlled.values()} - {""}:
            _make(path)
        for path, text in self._settings(limits):
            _write(path, text)

    def place(self, what: str) -> CgroupEntry:
        """Create the subgroup `what` for the job or its callback and return its entry. Raises `OSError`."""
        old = tuple(f"{path}/tasks" for path in self._controlled.values()) if not self._modern else ()
        if not self._unified:
            return CgroupEntry(enter=old)
        path = f"{self._unified}/{what}"
        _make(path)
        return CgroupEntry(path, f"{path}/cgroup.kill", old)

    def freeze(self) -> bool:
        """Ask the kernel to freeze the group; it is frozen a little later (`is_still`). False if not supported here."""
        return self._stand_still(frozen=True)

    @property
    def is_still(self) -> bool:
        """True if every process in the group is frozen, or if that cannot be determined."""
        with contextlib.suppress(OSError):
            return "frozen 1" in _text(f"{self._unified}/cgroup.events").splitlines()
        return True

    def thaw(self) -> bool:
        return self._stand_still(frozen=False)

    def kill(self) -> None:
        """Send SIGKILL to every process in the group, frozen ones too. Never raises."""
        if self._unified:
            with contextlib.suppress(OSError):
                _write(f"{self._unified}/cgroup.kill", "1")
                return
        for pid in self._members():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def sweep(self) -> None:
        """Kill everything in the group until it is empty, for at most about 5 s. Never raises."""
        for _ in range(ROUNDS):
            if not self._members():
                return
            self.kill()
            time.sleep(PAUSE)

    def hold_memory(self, mebibytes: int) -> None:
        """Change the limit of memory. Raises `OSError`."""
        settings = self._settings(Limits(memory=mebibytes))
        for path, text in reversed(settings) if not self._modern else settings:  # swap first if the limit rises
            with contextlib.suppress(OSError):
                _write(path, text)
        for path, text in settings:
            _write(path, text)

    @property
    def is_killed_as_one(self) -> bool:
        """True if the kernel kills all processes of the group where one has no memory; it counts the first of them twice then."""
        return self._modern

    def killed_for_memory(self) -> int:
        """Return how many processes the kernel killed in the group for want of memory."""
        path = self._controlled.get("memory")
        if path is None:
            return 0
        name = "memory.events" if self._modern else "memory.oom_control"
        with contextlib.suppress(OSError, ValueError), open(f"{path}/{name}", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
        return 0

    def remove(self) -> bool:
        """Remove the group; False if a process in it is still dying."""
        gone = True
        places = [f"{self._unified}/{name}" for name in _below(self._unified)] if self._unified else []
        for path in [*places, *({self._unified, *self._controlled.values()} - {""})]:
            try:
                os.rmdir(path)
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
        return gone

    def _settings(self, limits: Limits) -> list[tuple[str, str]]:
        """Files that hold the limits, with their contents."""
        found: list[tuple[str, str]] = []
        cpu, memory, pids = (self._controlled.get(name) for name in CONTROLLERS)
        if cpu is not None and limits.cpu:
            quota = max(_LEAST_QUOTA, limits.cpu * PERIOD // 1000)
            found += [(f"{cpu}/cpu.max", f"{quota} {PERIOD}")] if self._modern else [(f"{cpu}/cpu.cfs_quota_us", str(quota))]
        if memory is not None and limits.memory:
            size = str(limits.memory * MIB)
            if self._modern:
                found += [(f"{memory}/memory.max", size), (f"{memory}/memory.oom.group", "1")]
                found += [(f"{memory}/memory.swap.max", "0")] if os.path.exists(f"{memory}/memory.swap.max") else []
            else:
                found += [(f"{memory}/memory.limit_in_bytes", size)]
                swap = f"{memory}/memory.memsw.limit_in_bytes"
                found += [(swap, size)] if os.path.exists(swap) else []
        if pids is not None and limits.pids:
            found.append((f"{pids}/pids.max", str(limits.pids)))
        return found

    def _stand_still(self, *, frozen: bool) -> bool:
        try:
            if self._unified:
                _write(f"{self._unified}/cgroup.freeze", "1" if frozen else "0")
                return True
        except OSError:
            return False
        return False

    def _members(self) -> list[int]:
        """Processes in the group, as far as they can be read."""
        places = [self._unified, *(f"{self._unified}/{name}" for name in _below(self._unified))] if self._unified else []
        found: set[int] = set()
        for path in places or list(self._controlled.values())[:1]:
            with contextlib.suppress(OSError), open(f"{path}/cgroup.procs", encoding="ascii") as file:
                found.update(int(line) for line in file)
        return sorted(found)


def group_name(node: str, data: str) -> str:
    """Name of an executor's groups; executors of the same node name with different data directories have different groups."""
    return f"{node}.{crc32(os.path.realpath(data).encode()):08x}"


class Groups:
    """All groups of one node, below the node's own. Raises `OSError` if no group can be created."""

    def __init__(self, name: str, mounts: str | None = None, own: str | None = None) -> None:
        unified, old = _mounted(_text("/proc/self/mountinfo") if mounts is None else mounts)
        here = _own(_text("/proc/self/cgroup") if own is None else own)
        self._name = f"headrace.{name}"
        self._modern = not any(name in old for name in CONTROLLERS)
        self._controlled: dict[str, str] = {}
        for controller in (name for name in CONTROLLERS if name in old):
            with contextlib.suppress(OSError):
                self._controlled[controller] = _made(visible_group(old[controller], here.get(controller, "/")), self._name)
        self._unified = self._choose(unified, here.get("", "/"), [name for name in CONTROLLERS if name not in old])
        if not self._unified and not self._controlled:
            raise OSError(errno.ENOENT, "no group for jobs can be made" if unified else "no control groups are mounted")

    @property
    def missing(self) -> tuple[str, ...]:
        """The controllers whose limits this node cannot hold."""
        return tuple(name for name in CONTROLLERS if name not in self._controlled)

    def group(self, lease: str) -> LeaseGroup:
        """Return the group of a lease, which may not exist yet. The name is that of the lease's directories."""
        controlled = {controller: f"{path}/{lease}" for controller, path in self._controlled.items()}
        return LeaseGroup(f"{self._unified}/{lease}" if self._unified else "", controlled, modern=self._modern)

    def sweep(self, known: Container[str]) -> list[str]:
        """Kill and remove the groups of leases that are not in `known`; return their names."""
        names = {
            name for path in {self._unified, *self._controlled.values()} - {""} for name in _below(path) if name not in known
        }
        for name in names:
            group = self.group(name)
            group.sweep()
            group.remove()
        return sorted(names)

    def close(self) -> None:
        """Remove the node's own group if it is empty."""
        for path in {self._unified, *self._controlled.values()} - {""}:
            with contextlib.suppress(OSError):
                os.rmdir(path)

    def _choose(self, mount: str, here: str, wanted: Sequence[str]) -> str:
        """Create the node's group of version 2 where most of the wanted controllers can be enabled; "" if it can be nowhere.

        Below the executor's own group if possible; otherwise at the top, where no other group's processes are in the way.
        """
        own, found = visible_group(mount, here), dict[str, list[str]]()
        for parent in dict.fromkeys((own, mount)) if mount else ():
            with contextlib.suppress(OSError):
                path = _made(parent, self._name)
                enabled = [controller for controller in wanted if _enable(path, controller, own)]
                if holds_processes(path):
                    found[path] = enabled
                    if len(enabled) == len(wanted):
                        break
                else:
                    os.rmdir(path)
        best = max(found, key=lambda path: len(found[path]), default="")
        self._controlled |= dict.fromkeys(found.get(best, ()), best)
        for path in found.keys() - {best}:
            with contextlib.suppress(OSError):
                os.rmdir(path)
        return best


def holds_processes(directory: str) -> bool:
    """False if a group of version 2 is threaded or below a threaded one: the kernel places no process there, or none below it."""
    with contextlib.suppress(OSError):
        return _text(f"{directory}/cgroup.type").strip() == "domain"
    return True


def group_of_process(pid: int, name: str) -> LeaseGroup | None:
    """Return the group in which a process runs; None if `name` is not part of its path, or version 2 is not mounted here."""
    try:
        unified, old = _mounted(_text("/proc/self/mountinfo"))
        found = _own(_text(f"/proc/{pid}/cgroup"))
    except (OSError, ValueError, IndexError):
        return None
    directory = f"{unified}{found.get('', '')}"
    if not unified or not name or name not in directory or not os.path.isdir(directory):
        return None
    modern = not any(controller in old for controller in CONTROLLERS)
    places = {
        controller: directory if modern else f"{old.get(controller, '')}{found.get(controller, '')}"
        for controller in CONTROLLERS
    }
    return LeaseGroup(
        directory, {controller: path for controller, path in places.items() if os.path.isdir(path)}, modern=modern
    )


def killed_for_memory(group: LeaseGroup | None, amounts: Mapping[str, int]) -> str:
    """Message for a job that failed while the kernel killed some of its processes for want of memory; otherwise empty."""
    if group is None or not (count := group.killed_for_memory()):
        return ""
    return out_of_memory(amounts.get(MEMORY, 0), "all" if group.is_killed_as_one else str(count))


def out_of_memory(given: int, count: str = "some") -> str:
    """Return the message for a job with `given` MiB of memory (0: no limit) that lost `count` processes to the kernel."""
    used = f"all of its {given} MiB of memory" if given else "more memory than there was"
    return f"out of memory: it used {used}, and the kernel killed {count} of its processes"


def visible_group(mount: str, here: str) -> str:
    """Return the directory of the group `here` in a hierarchy, or the hierarchy's top if the group is not visible in it.

    A group outside of the executor's namespace of groups is shown as `/..`, which no path below `mount` leads to.
    """
    inside = mount + here.rstrip("/")
    return inside if not here.startswith("/..") and os.path.isdir(inside) else mount


def _make(path: str) -> None:
    """Create a group, whose files any account may read whatever the executor's umask is: programs read their limits there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    with contextlib.suppress(OSError):
        os.chmod(path, 0o755)  # noqa: S103 - its jobs have other accounts


def _made(parent: str, name: str) -> str:
    path = f"{parent}/{name}"
    _make(path)
    return path


def _enable(path: str, controller: str, own: str) -> bool:
    """Enable the controller for the groups below `path`, from the top down; True on success (version 2). `own`: the executor's group.

    A group that controls others may hold no process. The kernel refuses that for memory, but for `cpu` and `pids` it makes the group
    threaded, and groups below it then take no process. So our own group is emptied first, and a group of others stays as it is.
    """
    steps = [path]
    while os.path.exists(f"{os.path.dirname(steps[0])}/cgroup.subtree_control"):
        steps.insert(0, os.path.dirname(steps[0]))
    for step in steps:
        if controller in _text(f"{step}/cgroup.subtree_control").split():
            continue
        if controller not in _text(f"{step}/cgroup.controllers").split():
            return False
        if (
            step != path and os.path.exists(f"{step}/cgroup.type") and _text(f"{step}/cgroup.procs")
        ):  # the root alone has no type
            if step != own:
                return False
            _step_aside(step)
        try:
            _write(f"{step}/cgroup.subtree_control", f"+{controller}")
        except OSError:
            return False
    return True


def _step_aside(step: str) -> None:
    """Move the processes of a group, the executor included, to a subgroup; repeated, because some may have begun meanwhile."""
    aside = f"{step}/headrace-executor"
    with contextlib.suppress(FileExistsError):
        os.mkdir(aside)
    for _ in range(ROUNDS):
        if not (pids := _text(f"{step}/cgroup.procs").split()):
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                _write(f"{aside}/cgroup.procs", pid)


def _mounted(mountinfo: str) -> tuple[str, dict[str, str]]:
    """Return where version 2 is mounted (or empty), and where each controller of version 1 is."""
    unified, old = "", {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        where, kind = before.split()[4], after.split()
        if kind and kind[0] == "cgroup2":
            unified = unified or where
        elif kind and kind[0] == "cgroup":
            old.update({name: where for name in kind[2].split(",") if name in CONTROLLERS})
    return unified, old


def _own(text: str) -> dict[str, str]:
    """Return the executor's own group by controller; that of version 2 under ""."""
    found = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def _below(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
