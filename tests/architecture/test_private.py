"""Tests look at behaviour: how often they reach for a private attribute of something else may only become less."""

from __future__ import annotations

import ast
from collections import Counter

from tests.architecture.tree import files, parsed

MOST: dict[str, int] = {
    "tests": 1,
    "tests/bench": 4,
    "tests/chaos": 3,
    "tests/gpu": 1,
    "tests/integration": 10,
    "tests/simulation": 11,
    "tests/unit/accounting": 4,
    "tests/unit/admission": 2,
    "tests/unit/allocator": 5,
    "tests/unit/audit": 2,
    "tests/unit/bus": 2,
    "tests/unit/cli": 2,
    "tests/unit/domain": 3,
    "tests/unit/feed": 1,
    "tests/unit/governance": 5,
    "tests/unit/identity": 3,
    "tests/unit/nats_client": 14,
    "tests/unit/node_executor": 8,
    "tests/unit/preemption": 2,
    "tests/unit/service": 1,
    "tests/unit/supervisor": 11,
    "tests/unit/views": 4,
}
"""How often it is done in a folder. A change that removes some writes the smaller number here; none becomes greater."""

PUBLIC = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
"""Methods of named tuples, which are public though they begin with an underscore."""


def private(tree: ast.Module) -> list[int]:
    """The lines on which a private attribute of something else than `self` and `cls` is read or set."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in PUBLIC
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def folder(path: str) -> str:
    """`tests/unit/bus` of a unit test, `tests/integration` of others."""
    return "/".join(path.split("/")[:-1][: 3 if path.startswith("tests/unit/") else 2])


def counted() -> dict[str, int]:
    found: Counter[str] = Counter()
    for path in files():
        if path.startswith("tests/") and path.endswith(".py"):
            found[folder(path)] += len(private(parsed(path)))
    return {name: count for name, count in sorted(found.items()) if count}


def test_private_attributes_are_looked_at_no_more_often_than_before():
    now = counted()
    assert {name: count for name, count in now.items() if count > MOST.get(name, 0)} == {}, "look at what others can see"


def test_own_attributes_dunders_and_named_tuples_are_not_counted():
    tree = ast.parse("self._a\ncls._b\nx.__class__\nx._replace(a=1)\nx._c\nself.x._d = 1\n")
    assert private(tree) == [5, 6]
