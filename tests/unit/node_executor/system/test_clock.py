from __future__ import annotations

import time

from headrace.node_executor.system.clock import clock


def test_it_counts_microseconds_since_1970() -> None:
    before = time.time_ns()
    assert before <= clock() * 1_000 + 999
    assert clock() * 1_000 <= time.time_ns()
