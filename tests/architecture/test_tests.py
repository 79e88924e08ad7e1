"""The shape of the tests: what several of them use lies beside them, in a module of its own or in `conftest`."""

from __future__ import annotations

import ast
import functools
import tomllib

from tests.architecture.tree import SOURCE_ROOTS, files, imported, module_name, parsed, sources, text


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


@functools.cache
def names_of(path: str) -> frozenset[str]:
    """Every name that a module has: what it defines, assigns and imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.Import() | ast.ImportFrom():
                found |= {alias.asname or alias.name for alias in node.names}
    return frozenset(found)


def test_what_tests_and_tools_import_from_headrace_is_there() -> None:
    """Tools and tests for special machines are not run by `make test`, and no type checker reads them."""
    known = {module_name(path): path for path in sources()}
    missing = []
    for path in files():
        if path.startswith(("tests/", "bench/", "deploy/")) and path.endswith(".py"):
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.ImportFrom) and (node.module or "") in known:
                    names = names_of(known[node.module or ""])
                    missing += [
                        f"{path}: {node.module}.{alias.name}"
                        for alias in node.names
                        if alias.name not in names and not is_inside(f"{node.module}.{alias.name}")
                    ]
    assert missing == []


def is_inside(name: str) -> bool:
    """True if a module or a package has this name, a generated one too."""
    path = name.replace(".", "/")
    return any(f"{root}/{path}{end}" in files() for root in SOURCE_ROOTS for end in (".py", "/__init__.py"))
