"""Sees to it that nothing which the executor started outlives it: a second process that waits for the end of the first.

Strategy: the guard's standard input is a pipe that only the executor holds open; at its end the executor is gone, however it went,
and the guard kills every process whose environment names a control directory of this node, so also what left its process group. A
parent-death signal would cost a fork for each job and reach only its first process. The guard inherits the executor's lock on the data
directory: a new executor waits until the old one's processes are gone, and two never share a directory.

It is run as a script, without site-packages, so it imports the standard library only.
"""

from __future__ import annotations

import os
import signal
import sys
import time

MARK = "HEADRACE_CONTROL_DIR"
ROUNDS, PAUSE = 200, 0.02
_VSIZE, _ENV_END = 20, 48  # of /proc/<pid>/stat, counted from what follows the name


def sweep(leases: str) -> int:
    """Kill what was started from below the directory `leases` until nothing is left, at most about 4 s; how many were killed."""
    killed: set[int] = set()
    for _ in range(ROUNDS):
        found = started_from(leases)
        if not found:
            break
        for pid in found:
            killed.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(PAUSE)
    return len(killed)


def started_from(leases: str) -> list[int]:
    """The processes whose environment at their start named a control directory below `leases`."""
    mark = f"{MARK}={leases}/".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            environ = _environ(name)
        except OSError:
            continue
        if environ.startswith(mark) or b"\0" + mark in environ:
            found.append(int(name))
    return found


def _environ(pid: str) -> bytes:
    """The environment with which a process was started. Raises `OSError`: it is gone, or not ours to see.

    Nothing can be read while a program is being loaded, although whoever started it has already been told of its success: waited for,
    and read once more.
    """
    loading = True
    for _ in range(ROUNDS):
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
        if environ or not loading:
            return environ
        loading = _is_loading(pid)
        if loading:
            time.sleep(PAUSE)
    return b""


def _is_loading(pid: str) -> bool:
    """Whether the process has memory (neither a kernel's thread nor a dead one), and no environment in it yet."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return fields[_VSIZE] != b"0" and fields[_ENV_END] == b"0"


def main(leases: str) -> None:
    """Wait for the end of standard input, then sweep."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the executor, not with the terminal
    while os.read(0, 4096):
        pass
    sweep(leases)


if __name__ == "__main__":
    main(sys.argv[1])
