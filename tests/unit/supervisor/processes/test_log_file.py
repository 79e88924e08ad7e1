"""What a child says is kept within bounds, and a disk that takes nothing costs lines only."""

from __future__ import annotations

import errno
import os

from headrace.supervisor.processes.log_file import LogFile


def test_lines_are_appended_also_by_the_next_start(tmp_path):
    path = tmp_path / "logs" / "feed.log"
    for line in (b"one\n", b"two\n"):
        log = LogFile(path)
        log.write(line)
        log.close()
    assert path.read_bytes() == b"one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_makes_room_and_the_oldest_is_forgotten(tmp_path):
    log = LogFile(tmp_path / "feed.log", size_max=8, kept=2)
    for line in (b"first..\n", b"second.\n", b"third..\n", b"fourth.\n"):
        log.write(line)
    log.close()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "feed.log": b"fourth.\n",
        "feed.log.1": b"third..\n",
        "feed.log.2": b"second.\n",
    }


def test_a_full_disk_is_noted_where_the_lines_are_missing(tmp_path, monkeypatch):
    log = LogFile(tmp_path / "feed.log")
    log.write(b"before\n")
    real = os.write

    def full(handle, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    log.write(b"lost\n")
    log.write(b"lost too\n")
    monkeypatch.setattr(os, "write", real)
    log.write(b"after\n")
    log.close()
    assert log.path.read_text() == "before\n-- 14 bytes are missing here: No space left on device\nafter\n"


def test_the_last_line_is_what_a_child_said_before_it_died(tmp_path):
    log = LogFile(tmp_path / "feed.log")
    assert log.last_line() == ""
    log.write("starting\nport 4222 is taken \u00e9\n\n".encode())
    log.close()
    assert log.last_line() == "port 4222 is taken \u00e9"
