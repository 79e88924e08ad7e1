"""The clock of the node, in microseconds."""

from __future__ import annotations

import time


def clock() -> int:
    return time.time_ns() // 1_000
