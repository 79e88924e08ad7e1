"""The shape of the tests: what several of them use lies beside them, in a module of its own or in `conftest`."""

from __future__ import annotations

import tomllib

from tests.architecture.tree import files, imported, text


def is_test(module: str) -> bool:
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")


def test_modules_import_no_test() -> None:
    """Importing one runs its fixtures and marks in another place, and a test that moves breaks others."""
    importing = {}
    for path in files():
        if path.startswith("tests/") and path.endswith(".py"):
            modules = {name for name in imported(path) if is_test(name) and f"{name.replace('.', '/')}.py" in files()}
            importing |= {path: " ".join(sorted(modules))} if modules else {}
    assert importing == {}


def test_folders_that_make_test_skips_are_named_by_their_whole_path() -> None:
    """A bare name such as `api` skips every folder of that name, among them the unit tests of a package."""
    skipped = tomllib.loads(text("pyproject.toml"))["tool"]["pytest"]["ini_options"]["norecursedirs"]
    assert [name for name in skipped if "/" not in name and name not in (".*", "__pycache__")] == []
