from __future__ import annotations

import os
import subprocess

from headrace.node_executor.monitoring.usage import MIB, LeaseUsage, Stat, millicores, processes, uses

TREE = {
    10: Stat(1, 10, 100, 1 * MIB),
    11: Stat(10, 10, 50, 2 * MIB),
    12: Stat(11, 12, 7, 4 * MIB),  # in a session of its own
    13: Stat(12, 12, 3, 8 * MIB),
    20: Stat(1, 20, 1, MIB),
    30: Stat(1, 30, 9, MIB),
}


def test_what_a_job_starts_counts_for_its_lease_in_whatever_session() -> None:
    assert uses(TREE, {10: "a", 20: "b", 99: "gone"}) == {
        "a": LeaseUsage(160, 15 * MIB, 4),
        "b": LeaseUsage(1, MIB, 1),
        "gone": LeaseUsage(),
    }


def test_processes_that_name_each_other_have_no_owner() -> None:
    assert uses({1: Stat(2, 0, 0, 0), 2: Stat(1, 0, 0, 0)}, {5: "a"}) == {"a": LeaseUsage()}


def test_real_processes_are_read() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"], start_new_session=True) as process:
        while (found := uses(processes(), {process.pid: "a"})["a"]).processes < 2:
            continue
        assert (found.memory > 0, processes()[os.getpid()].cpu > 0) == (True, True)
        os.killpg(process.pid, 9)


def test_cpu_is_what_was_used_since_the_last_look() -> None:
    before = [("a", LeaseUsage(1_000)), ("c", LeaseUsage(5))]
    assert millicores(before, {"a": LeaseUsage(501_000), "b": LeaseUsage(9), "c": LeaseUsage(0)}, 1_000_000) == {
        "a": 500,
        "b": 0,
        "c": 0,
    }
