"""The files of the project as the tests of its shape see them."""

from __future__ import annotations

import ast
import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("contracts", "services", "node-executor")


@functools.cache
def files() -> tuple[str, ...]:
    """Every file that is or would be committed, by its path below the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(sorted(path for path in set(listed.split("\0")) if path and (ROOT / path).is_file()))


def sources() -> list[str]:
    """Every module of the three source trees, generated ones left out."""
    roots = tuple(f"{root}/headrace/" for root in SOURCE_ROOTS)
    return [path for path in files() if path.startswith(roots) and path.endswith(".py") and "_pb2" not in path]


@functools.cache
def text(path: str) -> str:
    """Contents of a file; empty if it is not text."""
    try:
        return (ROOT / path).read_text("utf-8")
    except UnicodeDecodeError:
        return ""


@functools.cache
def parsed(path: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(text(path), path)


def module_name(path: str) -> str:
    """`headrace.allocator.decide` for `services/headrace/allocator/decide.py`."""
    return path.partition("/")[2].removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(path: str) -> set[str]:
    """Every module that a module imports, wherever in it, imports for types left out."""
    found: set[str] = set()
    for node in _running(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _running(node: ast.AST) -> list[ast.AST]:
    """All nodes below this one, except what stands under `if TYPE_CHECKING`."""
    found = [node]
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            found += _running(child)
    return found
