"""What a child process does before it becomes its program."""

from __future__ import annotations

import ctypes
import os
import sys

from headrace.bus.niceness import lower_priority

NOT_STARTED = 127
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def begin_session(*numbers: int) -> None:
    """Lead a session of its own, without a terminal: the files of these numbers become the null device, whether or not they are open."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in numbers:
        os.dup2(nothing, number)
    if nothing not in numbers:
        os.close(nothing)


def begin(parent: int, dies_with: int, nice: int) -> None:
    """Lower the priority by `nice`, and end by the signal `dies_with` when `parent` ends: at once if it already has."""
    if nice:
        lower_priority(nice)
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, dies_with)
        if os.getppid() != parent:
            os._exit(NOT_STARTED)
