"""A named file is written whole, where it is, and no wider."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.cli.arguments import Failed
from headrace.cli.output.output_file import write_out


def test_a_file_is_put_in_place_of_the_old_one_and_read_by_those_who_might_read_that(tmp_path):
    (tmp_path / "kept").mkdir()
    old, link = tmp_path / "kept" / "old", tmp_path / "link"
    old.write_bytes(b"old")
    old.chmod(0o600)
    link.symlink_to(old)
    write_out("--out", link, b"new")
    write_out("--out", tmp_path / "other", b"x")
    assert (link.is_symlink(), old.read_bytes(), oct(old.stat().st_mode & 0o777)) == (True, b"new", "0o600")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["kept", "kept/old", "link", "other"]


def test_a_pipe_takes_it_as_it_comes(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_out("--out", pipe, b"x")
    assert (os.read(end, 9), pipe.is_fifo()) == (b"x", True)
    os.close(end)


def test_a_device_that_is_full_is_named(tmp_path):
    with pytest.raises(
        Failed, match="^--out: /dev/full cannot be written: No space left on device; make room there, then try again$"
    ):
        write_out("--out", Path("/dev/full"), b"x")


def test_a_directory_is_not_a_file(tmp_path):
    with pytest.raises(Failed, match="cannot be written: Is a directory$"):
        write_out("--out", tmp_path, b"x")
    assert [*tmp_path.iterdir()] == []
