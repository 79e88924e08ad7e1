"""What a child process does before it becomes its program."""

from __future__ import annotations

import ctypes
import os
import sys

from headrace.bus.niceness import lower_priority

NOT_STARTED = 127
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def begin(parent: int, dies_with: int, nice: int) -> None:
    """Lower the priority by `nice`, and end by the signal `dies_with` when `parent` ends: at once if it already has."""
    if nice:
        lower_priority(nice)
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, dies_with)
        if os.getppid() != parent:
            os._exit(NOT_STARTED)
