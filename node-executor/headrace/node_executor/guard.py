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
            with open(f"/proc/{name}/environ", "rb") as file:
                environ = file.read()
        except OSError:
            continue
        if environ.startswith(mark) or b"\0" + mark in environ:
            found.append(int(name))
    return found


def main(leases: str) -> None:
    """Wait for the end of standard input, then sweep."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the executor, not with the terminal
    while os.read(0, 4096):
        pass
    sweep(leases)


if __name__ == "__main__":
    main(sys.argv[1])
