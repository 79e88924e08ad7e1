"""A file is there whole, or as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.archive import atomic_files


def test_a_file_takes_its_place_whole(tmp_path, monkeypatch):
    path = tmp_path / "x"
    monkeypatch.setattr(atomic_files.secrets, "token_hex", lambda _: "00")
    atomic_files.write(path, b"old")
    part = atomic_files.draft(path, b"new")
    assert (path.read_bytes(), part.read_bytes(), part.name) == (b"old", b"new", ".x.00.part")
    atomic_files.put(part, path)
    assert [(each.name, each.read_bytes(), oct(each.stat().st_mode)[-3:]) for each in tmp_path.iterdir()] == [
        ("x", b"new", "600")
    ]


def test_what_a_full_disk_does_not_take_leaves_nothing_on_it(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_files.draft(tmp_path / "x", b"new")
    assert list(tmp_path.iterdir()) == []


def test_two_who_write_the_same_file_do_not_write_into_each_other(tmp_path):
    one, other = atomic_files.draft(tmp_path / "x", b"one"), atomic_files.draft(tmp_path / "x", b"other")
    atomic_files.put(one, tmp_path / "x")
    atomic_files.put(other, tmp_path / "x")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("x", b"other")]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(28, "No space left on device"),
            "x cannot be written: No space left on device; make room there, then try again",
        ),
        (OSError(13, "Permission denied"), "x cannot be written: Permission denied"),
    ],
)
def test_what_could_not_be_written_is_named_and_of_a_full_disk_the_way_out(error, message):
    assert atomic_files.unwritten(Path("x"), error) == message
