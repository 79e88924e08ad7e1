"""Modules, and the packages that lie beside each other, import each other in one direction; imports for types are counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from tests.architecture.tree import module_name, parsed, sources


def imports(tree: ast.Module, known: AbstractSet[str]) -> set[str]:
    """The modules of `known` that a module imports anywhere in it; for `from a import b` the module `a.b`, or `a` without one."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {part if part in known else node.module for part in parts}
    return found & known


def graph() -> dict[str, set[str]]:
    """Each module with those that it imports."""
    paths = {module_name(path): path for path in sources()}
    return {name: imports(parsed(path), paths.keys()) - {name} for name, path in paths.items()}


def circles(edges: Mapping[str, AbstractSet[str]]) -> list[list[str]]:
    """Every largest set of names that reach each other. Names that reach no other are removed first, which leaves few."""
    remaining = {name: set(to) for name, to in edges.items()}
    while leaves := {name for name, to in remaining.items() if not to & remaining.keys()}:
        remaining = {name: to for name, to in remaining.items() if name not in leaves}
    reached = {name: reach(name, remaining) for name in remaining}
    found = {
        frozenset(other for other in reached[name] if name in reached[other]) for name in remaining if name in reached[name]
    }
    return sorted(sorted(circle) for circle in found)


def reach(name: str, edges: Mapping[str, AbstractSet[str]]) -> set[str]:
    """All names that can be reached from a name in at least one step."""
    seen: set[str] = set()
    left = [name]
    while left:
        for other in edges[left.pop()] & edges.keys():
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def test_no_modules_import_each_other_in_a_circle():
    assert circles(graph()) == [], "move what both need into a module below them"


def beside(package: str, edges: Mapping[str, AbstractSet[str]]) -> dict[str, set[str]]:
    """The packages and modules directly in a package, each with those that anything in it imports."""
    parts = len(package.split(".")) + 1
    found: dict[str, set[str]] = {}
    for name, to in edges.items():
        if name.startswith(f"{package}."):
            part = ".".join(name.split(".")[:parts])
            others = {".".join(other.split(".")[:parts]) for other in to if other.startswith(f"{package}.")}
            found[part] = found.get(part, set()) | (others - {part})
    return found


def test_no_packages_beside_each_other_import_each_other_in_a_circle():
    imported = graph()
    packages = {name.rpartition(".")[0] for name in imported if "." in name}
    found = {package: circle for package in packages if (circle := circles(beside(package, imported)))}
    assert found == {}, "move what both need into a package below them"


def test_what_a_package_imports_is_what_its_modules_import():
    graph_of = dict(edges("p.a.x>p.b.y|q p.a.z>p.a.x p.b.y>p.c p.c> q>p.c", "|"))
    assert beside("p", graph_of) == {"p.a": {"p.b"}, "p.b": {"p.c"}, "p.c": set()}


def written(text: str) -> set[str]:
    return imports(ast.parse(text), {"a", "a.b", "a.c", "d"})


def test_imports_for_types_and_those_inside_of_functions_count():
    assert written("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import b\ndef f():\n    import d") == {
        "a.b",
        "d",
    }
    assert written("from a import b, name\nfrom a.c import x\nfrom a import y") == {"a.b", "a.c", "a"}


def edges(text: str, separator: str = "") -> Iterator[tuple[str, set[str]]]:
    for line in text.split():
        name, _, to = line.partition(">")
        yield name, set(to.split(separator) if separator else to) - {""}


def test_a_circle_is_named_whole_and_once_and_nothing_beside_it():
    assert circles(dict(edges("a>b b>c c>a d>a e> f>fg g>f"))) == [["a", "b", "c"], ["f", "g"]]
    assert circles(dict(edges("a>bc b>c c> d>a"))) == []
    assert circles(dict(edges("a>b b>ac c>de d>c e>"))) == [["a", "b"], ["c", "d"]]
