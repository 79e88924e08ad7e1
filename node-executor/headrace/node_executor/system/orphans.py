"""Finds and ends processes of a lease whose keeper was killed.

Strategy: every process of a job has the lease's control directory in the environment it was started with, including those that left their
process group and session. If control groups are available they are asked first, because a process can overwrite its environment.
"""

from __future__ import annotations

import os
import signal
import time

MARK = "HEADRACE_CONTROL_DIR"
ROUNDS, PAUSE = 200, 0.02
_VSIZE, _ENV_END = 20, 48  # fields of /proc/<pid>/stat, counted from the one after the name


def sweep(control: str) -> int:
    """Kill what was started from the directory `control`, or below it, until nothing is left, at most about 4 s; returns the number."""
    killed: set[int] = set()
    for _ in range(ROUNDS):
        found = started_from(control)
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


def started_from(control: str) -> list[int]:
    """Return the processes whose environment at their start named this control directory, or one below it."""
    marks = [f"{MARK}={control}{end}".encode() for end in ("/", "\0")]
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            environ = b"\0" + _environ(name) + b"\0"
        except OSError:
            continue
        if any(b"\0" + mark in environ for mark in marks):
            found.append(int(name))
    return found


def stands_still(pid: int) -> bool:
    """Return whether a process is stopped or dead."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "TtZX"
    except OSError:
        return True


def _environ(pid: str) -> bytes:
    """Return the environment with which a process was started. Raises `OSError` if it is gone, or another user's.

    It cannot be read while a program is being loaded, although its parent has already been told of its success: then wait, and read once
    more.
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
    """Return whether the process has memory (is neither a kernel thread nor dead) and no environment yet."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return fields[_VSIZE] != b"0" and fields[_ENV_END] == b"0"
