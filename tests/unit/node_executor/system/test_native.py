from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.node_executor.system import c_programs, native

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, native.COMPILERS)), reason="there is no C compiler")


@pytest.fixture
def source(tmp_path) -> str:
    path = tmp_path / "seven.c"
    path.write_text("int main(void) { return 7; }\n")
    return str(path)


@needs_compiler
def test_a_program_is_built_once_for_each_version_of_its_source(tmp_path, source) -> None:
    first = native.built(source, str(tmp_path / "bin"))
    assert subprocess.run([first], check=False).returncode == 7
    made = (tmp_path / "bin" / first).stat().st_mtime_ns
    assert native.built(source, str(tmp_path / "bin")) == first
    assert (tmp_path / "bin" / first).stat().st_mtime_ns == made
    (tmp_path / "seven.c").write_text("int main(void) { return 8; }\n")
    second = native.built(source, str(tmp_path / "bin"))
    assert subprocess.run([second], check=False).returncode == 8


@needs_compiler
def test_flags_that_do_not_work_are_followed_by_others(tmp_path, source) -> None:
    path = native.built(source, str(tmp_path / "bin"), variants=(("--no-such-flag",), ("-O1",)))
    assert subprocess.run([path], check=False).returncode == 7
    assert native.built(source, str(tmp_path / "bin"), variants=(("--no-such-flag",),)) == ""


@needs_compiler
def test_what_is_built_every_account_can_read_and_run_and_only_ours_can_write_also_what_an_older_release_closed(
    tmp_path, source
) -> None:
    directory = tmp_path / "bin"

    def modes() -> list[int]:
        return [path.stat().st_mode & 0o777 for path in (directory, made)]

    before = os.umask(0o077)
    try:
        made = Path(native.built(source, str(directory)))
        assert modes() == [0o755, 0o755]
        made.chmod(0o700)
        assert native.built(source, str(directory)) == str(made)
        assert modes() == [0o755, 0o755]
    finally:
        os.umask(before)


def test_without_a_compiler_none_is_built(tmp_path, source, monkeypatch) -> None:
    monkeypatch.setattr(native, "COMPILERS", ("no-such-compiler",))
    assert native.built(source, str(tmp_path / "bin")) == ""
    assert native.built(str(tmp_path / "gone.c"), str(tmp_path / "bin")) == ""


def test_a_program_that_came_built_is_copied_for_every_account_and_needs_no_compiler(tmp_path, source, monkeypatch) -> None:
    prebuilt = tmp_path / "prebuilt"
    prebuilt.mkdir()
    brought = prebuilt / c_programs.build_name(source, c_programs.PROGRAM)
    brought.write_bytes(b"as it came")
    brought.chmod(0o600)
    monkeypatch.setattr(native, "COMPILERS", ("no-such-compiler",))
    monkeypatch.setattr(c_programs, "PREBUILT", str(prebuilt))
    made = Path(native.built(source, str(tmp_path / "bin")))
    assert (made.name, made.read_bytes(), made.stat().st_mode & 0o777) == (brought.name, b"as it came", 0o755)
    (tmp_path / "seven.c").write_text("int main(void) { return 8; }\n")  # another source than that of the build
    assert native.built(source, str(tmp_path / "bin")) == ""
    assert os.listdir(tmp_path / "bin") == [brought.name]


def test_every_c_file_of_the_executor_is_a_program_that_a_wheel_brings() -> None:
    sources = {str(path) for path in Path(c_programs.PACKAGE).rglob("*.c")}
    assert sources == set(c_programs.PROGRAMS)


def test_nothing_is_run_from_where_others_can_write(tmp_path, source) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin").chmod(0o777)
    assert native.built(source, str(tmp_path / "bin")) == ""


def test_it_is_kept_in_the_users_cache_if_there_is_one() -> None:
    assert native.cache_directory({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/d") == "/c/headrace"
    assert native.cache_directory({"HOME": "/h"}, "/d") == "/h/.cache/headrace"
    assert native.cache_directory({"HOME": "relative"}, "/d") == "/d"
    assert native.cache_directory({}, "/d") == "/d"
