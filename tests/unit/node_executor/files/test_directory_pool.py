from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.node_executor.files import directory_pool
from headrace.node_executor.files.directory_pool import CHECKPOINTS, CONTROL, DirectoryPool

ME, MODE = os.geteuid(), 0o755


def made(path: Path, kind: str) -> Path:
    """A directory as a lease's is made."""
    path.mkdir(MODE)
    path.chmod(MODE)
    if kind == CONTROL:
        (path / "work").mkdir(MODE)
        (path / "work").chmod(MODE)
    return path


def asked(folder: Path, most: int = 256) -> DirectoryPool:
    """Spares that were asked for both kinds before there were any."""
    made = DirectoryPool(str(folder), most)
    assert not any(made.take(kind, ME, MODE, str(folder / "nowhere")) for kind in (CONTROL, CHECKPOINTS))
    return made


@pytest.mark.parametrize("kind", [CONTROL, CHECKPOINTS])
def test_what_was_left_empty_is_there_for_the_next_one_as_if_just_made(tmp_path, kind) -> None:
    kept, old = asked(tmp_path / "spare"), made(tmp_path / "old", kind)
    number = old.stat().st_ino
    os.utime(old, (1, 1))
    assert kept.keep(kind, str(old))
    assert not old.exists()
    assert kept.take(kind, ME, MODE, str(tmp_path / "new"))
    new = tmp_path / "new"
    is_control = kind == CONTROL
    assert (new.stat().st_ino, [one.name for one in new.iterdir()]) == (number, ["work"] if is_control else [])
    assert new.stat().st_mtime > 1 or not is_control  # by which they are pruned
    assert not kept.take(kind, ME, MODE, str(tmp_path / "another"))


@pytest.mark.parametrize("touched", ["result", "work/result"])
def test_what_has_something_in_it_stays_where_it_is(tmp_path, touched) -> None:
    kept, old = asked(tmp_path / "spare"), made(tmp_path / "old", CONTROL)
    (old / touched).touch()
    assert not kept.keep(CONTROL, str(old))
    assert (old / touched).exists()
    assert not kept.keep(CHECKPOINTS, str(tmp_path / "gone"))


def test_only_what_is_asked_for_is_kept_and_only_for_whom_it_was(tmp_path) -> None:
    kept = asked(tmp_path / "spare")
    changed = made(tmp_path / "changed", CHECKPOINTS)
    changed.chmod(0o700)
    assert not kept.keep(CHECKPOINTS, str(changed))
    assert kept.keep(CHECKPOINTS, str(made(tmp_path / "old", CHECKPOINTS)))
    for kind, uid, mode in ((CONTROL, ME, MODE), (CHECKPOINTS, ME + 1, MODE), (CHECKPOINTS, ME, 0o700)):
        assert not kept.take(kind, uid, mode, str(tmp_path / "new"))
    assert kept.take(CHECKPOINTS, ME, MODE, str(tmp_path / "new"))


def test_a_link_is_not_a_directory(tmp_path) -> None:
    kept = asked(tmp_path / "spare")
    (tmp_path / "link").symlink_to(made(tmp_path / "old", CHECKPOINTS))
    assert not kept.keep(CHECKPOINTS, str(tmp_path / "link"))


def test_only_a_number_of_them_are_kept(tmp_path) -> None:
    kept = asked(tmp_path / "spare", most=2)
    assert [kept.keep(CHECKPOINTS, str(made(tmp_path / name, CHECKPOINTS))) for name in "abc"] == [True, True, False]
    assert (tmp_path / "c").is_dir()


def test_nothing_is_put_over_what_is_there(tmp_path) -> None:
    kept = asked(tmp_path / "spare")
    assert kept.keep(CONTROL, str(made(tmp_path / "old", CONTROL)))
    there = made(tmp_path / "new", CONTROL)
    assert not kept.take(CONTROL, ME, MODE, str(there))
    there.joinpath("work").rmdir()
    there.rmdir()
    assert kept.take(CONTROL, ME, MODE, str(there))


def test_the_next_executor_uses_those_that_are_there_and_removes_the_others_when_it_has_the_time(tmp_path) -> None:
    folder = tmp_path / "spare"
    first = asked(folder)
    assert first.keep(CONTROL, str(made(tmp_path / "old", CONTROL)))
    (made(folder / "control.7", CONTROL) / "dirty").touch()
    made(folder / "strange.1", CHECKPOINTS)
    second = DirectoryPool(str(folder))
    assert sorted(one.name for one in folder.iterdir()) == ["control.1", "control.7", "strange.1"]
    second.clear()
    assert [one.name for one in folder.iterdir()] == ["control.1"]
    assert second.take(CONTROL, ME, MODE, str(tmp_path / "new"))
    assert not list(folder.iterdir())


def test_a_start_does_not_wait_until_what_a_job_left_in_a_spare_directory_is_removed(tmp_path, monkeypatch) -> None:
    removed: list[str] = []
    (made(tmp_path / "control.1", CONTROL) / "one of a million").touch()
    monkeypatch.setattr(directory_pool, "remove", removed.append)
    second = DirectoryPool(str(tmp_path))
    assert removed == []
    second.clear()
    assert removed == [f"{tmp_path}/control.1"]
