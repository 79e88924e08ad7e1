"""The node's clock."""

from __future__ import annotations

import time


def clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1_000
