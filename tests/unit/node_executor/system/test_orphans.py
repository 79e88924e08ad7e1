"""Real processes that outlive their parent, and are found and ended."""

from __future__ import annotations

import os
import signal
import subprocess
from io import BytesIO
from typing import IO

from headrace.node_executor.system import orphans
from tests.patience import PATIENCE


def job(leases: str, name: str = "x.1.0", *, forked: bool = False) -> subprocess.Popen[bytes]:
    command = ["sh", "-c", "setsid sleep 1000 & echo; wait"] if forked else ["sleep", "1000"]
    env = {"PATH": os.environ["PATH"], "HEADRACE_CONTROL_DIR": f"{leases}/{name}"}
    process = subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.PIPE if forked else None)
    if process.stdout is not None:
        process.stdout.readline()
        process.stdout.close()
    return process


def test_a_sweep_kills_what_was_started_from_there_also_in_other_sessions_and_nothing_else(tmp_path) -> None:
    mine, forked, other = job(f"{tmp_path}/a"), job(f"{tmp_path}/a", forked=True), job(f"{tmp_path}/ab")
    try:
        assert orphans.sweep(f"{tmp_path}/a") == 3
        assert mine.wait(PATIENCE) == forked.wait(PATIENCE) == -9
        assert orphans.started_from(f"{tmp_path}/a") == []
        assert orphans.started_from(f"{tmp_path}/ab") == [other.pid]
    finally:
        other.kill()
        other.wait()
    assert orphans.sweep(f"{tmp_path}/a") == 0


def test_what_has_only_just_been_started_is_seen_although_it_is_still_being_loaded(tmp_path, monkeypatch) -> None:
    mine = job(str(tmp_path))
    environ, stat = f"/proc/{mine.pid}/environ", f"/proc/{mine.pid}/stat"
    early = {environ: [b"", b""], stat: [b"7 (a) b) S " + b"1 " * 47 + b"0 0"]}

    def read(path: str, mode: str) -> IO[bytes]:
        return BytesIO(early[path].pop(0)) if early.get(path) else open(path, mode)

    monkeypatch.setattr(orphans, "open", read, raising=False)
    try:
        assert orphans.started_from(str(tmp_path)) == [mine.pid]
        assert early == {environ: [], stat: []}
    finally:
        mine.kill()
        mine.wait()


def test_a_process_that_is_started_is_seen_at_once(tmp_path) -> None:
    for _ in range(20):
        mine = job(str(tmp_path))
        seen = orphans.started_from(str(tmp_path))
        mine.kill()
        mine.wait()
        assert seen == [mine.pid]


def test_the_control_directory_itself_is_meant_as_well_as_what_is_below(tmp_path) -> None:
    mine, other = job(str(tmp_path), "x.1.0"), job(str(tmp_path), "x.1.00")
    try:
        assert orphans.started_from(f"{tmp_path}/x.1.0") == [mine.pid]
        assert orphans.sweep(f"{tmp_path}/x.1.0") == 1
        assert mine.wait(PATIENCE) == -9
    finally:
        other.kill()
        other.wait()


def test_what_is_stopped_or_gone_stands_still_and_what_waits_does_not(tmp_path) -> None:
    mine = job(str(tmp_path))
    try:
        assert not orphans.stands_still(mine.pid)
        mine.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(mine.pid, os.WUNTRACED)[1])
        assert orphans.stands_still(mine.pid)
    finally:
        mine.kill()
        mine.wait()
    assert orphans.stands_still(mine.pid)
