"""How a keeper looks for a program; keepers are shown with real processes, beside their twins in C, in `test_process`."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.node_executor.runtimes.keeper import Fault, find


def made(path: Path, mode: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    path.chmod(mode)


def test_the_first_executable_file_of_the_path_is_found(tmp_path) -> None:
    (tmp_path / "folder" / "tool").mkdir(parents=True)
    made(tmp_path / "closed" / "tool", 0o644)
    made(tmp_path / "one" / "tool", 0o755)
    made(tmp_path / "tool", 0o755)
    here, path = str(tmp_path), "/nowhere:folder:closed:one:"
    assert [find(name, here, path) for name in ("tool", "./tool", f"{here}/one/tool")] == [
        f"{here}/one/tool",
        f"{here}/./tool",
        f"{here}/one/tool",
    ]
    assert find("sh", here, None) in {"/bin/sh", "/usr/bin/sh"}


@pytest.mark.parametrize(
    ("name", "path", "number", "place"),
    [
        ("tool", "/nowhere:/nowhere", errno.ENOENT, -1),
        ("tool", "/nowhere:closed:two:/nowhere", errno.ENOENT, 2),
        ("./folder", "", errno.EACCES, -1),
        ("closed/tool", "", errno.EACCES, 0),
        ("closed/tool/more", "", errno.ENOTDIR, -1),
    ],
)
def test_without_an_executable_the_last_file_that_is_not_executable_is_told(tmp_path, name, path, number, place) -> None:
    for folder in ("closed", "two"):
        made(tmp_path / folder / "tool", 0o644)
    (tmp_path / "folder").mkdir()
    with pytest.raises(Fault) as fault:
        find(name, str(tmp_path), path)
    assert (fault.value.stage, fault.value.number, fault.value.place) == ("search", number, place)
