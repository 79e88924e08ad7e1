"""The next release, made of this one: its sources, with a new version of one fact that comes with the next level."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = ("contracts", "services")

_FACT = '''

class NodeCordonedV2(AuthoredFact, frozen=True, kw_only=True, tag="node.cordoned.v2"):
    """Nothing new is granted on the node, for as many days as are said (0: until it is uncordoned)."""

    node: str
    days: int = 0
'''
_UPCASTER = """

from headrace.contracts.facts import NodeCordonedV1, NodeCordonedV2  # noqa: E402

UPCASTERS[NodeCordonedV1] = lambda fact: NodeCordonedV2(author=fact.author, reason=fact.reason, node=fact.node)
"""
_LEVEL = """

from headrace.contracts.facts import NodeCordonedV1, NodeCordonedV2  # noqa: E402

SINCE[NodeCordonedV2] = LEVEL
DOWNCASTERS[NodeCordonedV2] = lambda fact: NodeCordonedV1(author=fact.author, reason=fact.reason, node=fact.node)
"""


def next_release(folder: Path) -> str:
    """Write it below `folder`; the PYTHONPATH that runs it."""
    for tree in TREES:
        shutil.copytree(ROOT / tree / "headrace", folder / tree / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    contracts = folder / "contracts" / "headrace" / "contracts"
    for path in (*(folder / "services").rglob("*.py"), contracts / "facts" / "writers.py"):
        text = path.read_text("utf-8")
        if "NodeCordonedV1" in text:
            path.write_text(text.replace("NodeCordonedV1", "NodeCordonedV2"), "utf-8")
    _append(contracts / "facts" / "governance.py", _FACT)
    _replace(contracts / "facts" / "__init__.py", "    NodeCordonedV1,\n", "    NodeCordonedV1,\n    NodeCordonedV2,\n")
    _replace(contracts / "facts" / "__init__.py", "    | NodeCordonedV1\n", "    | NodeCordonedV1\n    | NodeCordonedV2\n")
    _replace(contracts / "facts" / "levels.py", '= ("0.1.0", "0.2.0", "0.3.0")', '= ("0.1.0", "0.2.0", "0.3.0", "0.4.0")')
    _append(contracts / "facts" / "levels.py", _LEVEL)
    _append(contracts / "facts" / "upcasters.py", _UPCASTER)
    return path_of(folder)


def path_of(folder: Path) -> str:
    """The PYTHONPATH of a release's sources."""
    return ":".join(str(folder / tree) for tree in TREES)


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new), "utf-8")
