"""The log of a job as a keeper writes it; keepers are shown with real processes, in both languages, in `test_process`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from headrace.node_executor.runtimes.job_log import pieces
from headrace.node_executor.system.log_writing import Log


def contents(path: Path) -> list[tuple[int, bytes]]:
    return [(start, Path(name).read_bytes()) for start, name in pieces(str(path))]


def test_a_log_keeps_its_head_and_its_end(tmp_path) -> None:
    log = Log(str(tmp_path / "log"), limit=40)
    for number in range(10):
        log.write(b"%d234567\n" % number)
    whole = b"".join(b"%d234567\n" % number for number in range(10))
    assert contents(tmp_path / "log") == [(start, whole[start : start + 10]) for start in (0, 50, 60, 70)]


def test_a_disk_that_is_full_costs_output_and_the_log_says_how_much(tmp_path, monkeypatch) -> None:
    log = Log(str(tmp_path / "log"), limit=1_000)
    log.write(b"before\n")
    real = os.write

    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    log.write(b"dropped\n")
    monkeypatch.setattr(os, "write", real)
    log.write(b"after\n")
    assert (tmp_path / "log").read_bytes() == b"before\n\n[headrace] 8 bytes were dropped: the disk was full\nafter\n"
