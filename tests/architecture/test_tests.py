"""The shape of the tests: what several of them use lies beside them, in a module of its own or in `conftest`."""

from __future__ import annotations

from tests.architecture.tree import files, imported


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
