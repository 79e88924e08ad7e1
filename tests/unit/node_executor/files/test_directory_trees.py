from __future__ import annotations

import errno
import os
from pathlib import Path

from headrace.node_executor.files.directory_trees import DEPTH_MAX, remove, walk


def dig(top: Path, levels: int) -> None:
    """Directories in directories, deeper than any path may be long."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def names(top: Path) -> tuple[list[str], list[OSError]]:
    failures: list[OSError] = []
    return sorted(entry.name for _, entry in walk(str(top), failures.append)), failures


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_everything_below_is_gone_through_and_links_are_not_followed(tmp_path) -> None:
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    (tmp_path / "top" / "a" / "file").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").touch()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "elsewhere")
    before = open_files()
    assert names(tmp_path / "top") == (["a", "b", "file", "link"], [])
    assert names(tmp_path / "top" / "link") == ([], [])
    assert names(tmp_path / "nowhere") == ([], [])
    assert open_files() == before


def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(tmp_path) -> None:
    (tmp_path / "top" / "a").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").touch()
    found = []
    for _, entry in walk(str(tmp_path / "top"), lambda _: None):
        found.append(entry.name)
        (tmp_path / "top" / "a").rename(tmp_path / "top-a")
        (tmp_path / "top" / "a").symlink_to(tmp_path / "elsewhere")
    assert found == ["a"]


def test_what_is_too_deep_is_said(tmp_path) -> None:
    dig(tmp_path, 1_100)
    found, failures = names(tmp_path)
    assert (len(found), [failure.errno for failure in failures]) == (DEPTH_MAX, [errno.ENAMETOOLONG])
    remove(str(tmp_path / "d"))


def test_directories_of_any_depth_and_with_many_files_are_removed(tmp_path) -> None:
    top = tmp_path / "top"
    (top / "wide").mkdir(parents=True)
    for number in range(500):
        (top / "wide" / str(number)).touch()
        (top / str(number)).mkdir()
    dig(top, 1_100)
    before = open_files()
    remove(str(top))
    assert not top.exists()
    assert open_files() == before


def test_removing_follows_no_link(tmp_path) -> None:
    top, another_place = tmp_path / "top", tmp_path / "elsewhere"
    (top / "a").mkdir(parents=True)
    another_place.mkdir()
    (another_place / "precious").touch()
    (top / "a" / "link").symlink_to(another_place)
    (tmp_path / "link").symlink_to(another_place)
    remove(str(top))
    remove(str(tmp_path / "link"))
    remove(str(tmp_path / "nowhere"))
    assert ((another_place / "precious").exists(), top.exists(), (tmp_path / "link").is_symlink()) == (True, False, True)


def test_removing_stops_when_its_time_is_over(tmp_path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "file").touch()
    remove(str(tmp_path / "top"), within=-1.0)
    assert (tmp_path / "top" / "file").exists()
