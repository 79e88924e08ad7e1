"""A file is there whole, or as it was."""

from __future__ import annotations

import pytest

from headrace.archive import durable


def test_a_file_takes_its_place_whole(tmp_path):
    path = tmp_path / "x"
    durable.write(path, b"old")
    part = durable.draft(path, b"new")
    assert (path.read_bytes(), part.read_bytes(), part.name) == (b"old", b"new", "x.part")
    durable.put(part, path)
    assert [(each.name, each.read_bytes(), oct(each.stat().st_mode)[-3:]) for each in tmp_path.iterdir()] == [
        ("x", b"new", "600")
    ]


def test_what_a_full_disk_does_not_take_leaves_nothing_on_it(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        durable.draft(tmp_path / "x", b"new")
    assert list(tmp_path.iterdir()) == []
