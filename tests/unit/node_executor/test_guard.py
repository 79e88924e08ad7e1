"""Real processes that outlive their parent, and the guard that ends them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from headrace.node_executor import guard

PATIENCE = 20.0


def job(leases: str, name: str = "x.1.0", *, forked: bool = False) -> subprocess.Popen[bytes]:
    command = ["sh", "-c", "setsid sleep 1000 & echo; wait"] if forked else ["sleep", "1000"]
    env = {"PATH": os.environ["PATH"], "HEADRACE_CONTROL_DIR": f"{leases}/{name}"}
    process = subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.PIPE if forked else None)
    if process.stdout is not None:
        process.stdout.readline()
        process.stdout.close()
    return process


def wait_until_gone(leases: str) -> None:
    until = time.monotonic() + PATIENCE
    while guard.started_from(leases):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_sweep_kills_what_was_started_from_there_also_in_other_sessions_and_nothing_else(tmp_path) -> None:
    mine, forked, other = job(f"{tmp_path}/a"), job(f"{tmp_path}/a", forked=True), job(f"{tmp_path}/ab")
    try:
        assert guard.sweep(f"{tmp_path}/a") == 3
        assert mine.wait(PATIENCE) == forked.wait(PATIENCE) == -9
        assert guard.started_from(f"{tmp_path}/a") == []
        assert guard.started_from(f"{tmp_path}/ab") == [other.pid]
    finally:
        other.kill()
        other.wait()
    assert guard.sweep(f"{tmp_path}/a") == 0


def test_the_guard_waits_for_the_end_of_its_input_then_sweeps(tmp_path) -> None:
    leases = str(tmp_path)
    mine = job(leases)
    process = subprocess.Popen([sys.executable, "-I", "-S", guard.__file__, leases], stdin=subprocess.PIPE, env={})
    assert process.stdin is not None
    try:
        process.stdin.write(b"still here")
        process.stdin.flush()
        assert guard.started_from(leases) == [mine.pid]
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert mine.wait(PATIENCE) == -9
    finally:
        mine.kill()
        process.kill()
