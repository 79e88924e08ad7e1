from __future__ import annotations

import shutil
import subprocess

import pytest

from headrace.node_executor import native

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


def test_without_a_compiler_there_is_none(tmp_path, source, monkeypatch) -> None:
    monkeypatch.setattr(native, "COMPILERS", ("no-such-compiler",))
    assert native.built(source, str(tmp_path / "bin")) == ""
    assert native.built(str(tmp_path / "gone.c"), str(tmp_path / "bin")) == ""


def test_nothing_is_run_from_where_others_can_write(tmp_path, source) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin").chmod(0o777)
    assert native.built(source, str(tmp_path / "bin")) == ""


def test_it_is_kept_in_the_users_cache_if_there_is_one() -> None:
    assert native.cache_directory({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/d") == "/c/headrace"
    assert native.cache_directory({"HOME": "/h"}, "/d") == "/h/.cache/headrace"
    assert native.cache_directory({"HOME": "relative"}, "/d") == "/d"
    assert native.cache_directory({}, "/d") == "/d"
