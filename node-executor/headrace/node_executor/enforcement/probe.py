"""A small program that tries what a mechanism should refuse, so that levels are proved: `python -I -S -c SOURCE WHAT ...`.

- `open PATH...` opens device nodes and prints for each whether it could.
- `take MIB MIB` takes so much memory of the first GPU that it sees, first what it should get and then what it should not, and prints
  what libcuda answered to each, and how much there is in all.
- `leave DIRECTORY WHAT...` tries to move to the cgroup at DIRECTORY or one above it, as a job may to evade its own.
- `become` reads an order as JSON from stdin and becomes what a job's first process becomes, by the same calls as `runtimes.keeper`: in
  the
  cgroup `group`, of the `account` [uid, gid, groups] (null: it stays), without new privileges; then it executes `command` with `env`.

It is run as a script, in the enclosure of a job, so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from typing import Any

MIB = 1024 * 1024
OUT_OF_MEMORY = 2
_NO_NEW_PRIVS = 38


def openable(path: str) -> bool:
    """Return whether this process may open the node."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:  # opening was allowed, and the device itself refused
        return os.path.exists(path)
    return True


def take(sizes: list[int]) -> list[int]:
    """Return libcuda's answer to each allocation, one after the other, and finally the total MiB that it reports."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, total, free = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    for answer in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)):
        if answer:
            return [answer]
    answers = []
    for size in sizes:
        at = ctypes.c_uint64()
        answers.append(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size * MIB)))
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    return [*answers, total.value // MIB]


def leave(directory: str) -> None:
    """Move to the cgroup there, or else to the next above it that accepts the process, if any."""
    while os.path.exists(f"{directory}/cgroup.procs"):
        with contextlib.suppress(OSError):
            _join(directory)
            return
        directory = os.path.dirname(directory)


def become(order: dict[str, Any]) -> None:
    """Become a job's first process; does not return. Raises `OSError`."""
    os.setsid()
    if order["group"]:
        _join(order["group"])
    if order["account"] is not None:
        uid, gid, groups = order["account"]
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.execve(order["command"][0], order["command"], order["env"])  # noqa: S606 - exactly what was ordered


def _join(group: str) -> None:
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
        file.write("0")


def main(arguments: list[str]) -> None:
    """Run the command in `arguments` and print its result."""
    what, *rest = arguments
    if what == "become":
        become(json.load(sys.stdin))
    if what == "leave":
        leave(rest[0])
        what, *rest = rest[1:]
    answers = [int(openable(path)) for path in rest] if what == "open" else take([int(size) for size in rest])
    sys.stdout.write(" ".join(map(str, answers)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
