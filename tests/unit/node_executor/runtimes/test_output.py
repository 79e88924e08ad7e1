from __future__ import annotations

import errno
import os

from headrace.node_executor.runtimes.output import Output


def test_there_is_no_file_before_the_first_byte(tmp_path) -> None:
    path = tmp_path / "log"
    output = Output(str(path), 100)
    assert not path.exists()
    output.write(b"hello\n")
    output.note("a word")
    output.close()
    output.close()
    assert path.read_bytes() == b"hello\n[headrace] a word\n"


def test_what_is_too_long_is_cut_and_the_file_says_so(tmp_path) -> None:
    path = tmp_path / "log"
    output = Output(str(path), 10)
    output.write(b"0123456")
    output.write(b"789abc")
    output.write(b"never")
    assert path.read_bytes() == b"0123456789\n[headrace] the output is longer than 10 bytes; the rest is dropped\n"
    output.close()


def test_a_file_that_was_full_before_takes_no_more(tmp_path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 10)
    output = Output(str(path), 10)
    output.note("second attempt at the same name")
    output.write(b"more")
    output.close()
    assert path.read_bytes().count(b"more") == 0


def test_a_full_disk_costs_output_and_the_file_says_how_much_once_there_is_room(tmp_path, monkeypatch) -> None:
    path = tmp_path / "log"
    output = Output(str(path), 1000)
    output.write(b"before\n")
    real, full = os.write, True

    def write(descriptor: int, data: bytes) -> int:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    output.write(b"lost")
    output.write(b"lost too")
    full = False
    output.write(b"after\n")
    output.close()
    assert path.read_bytes() == b"before\n\n[headrace] 12 bytes were dropped: the disk was full\nafter\n"


def test_a_directory_that_is_gone_costs_output_only(tmp_path) -> None:
    output = Output(str(tmp_path / "gone" / "log"), 1000)
    output.write(b"dropped")
    output.close()
    output.write(b"too late")
