"""What is imported is declared where it is imported, and what is declared is pinned: a GPU node installs only what it needs."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.architecture.tree import ROOT, SOURCE_ROOTS, imported, sources, text

SAME_RELEASE = {"headrace-contracts"}
"""Ours, pinned to the same version instead of by hash."""


PINNED_WHERE_DECLARED = {"torch"}
"""For an example, and so large that only who asks for it installs it; its extra names the one version."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(root: str) -> set[str]:
    """The distributions that one of ours names, extras included, with what its own of ours name."""
    project = tomllib.loads(text(f"{root}/pyproject.toml"))["project"]
    asked = [*project["dependencies"], *(name for extra in project.get("optional-dependencies", {}).values() for name in extra)]
    names = {canonical(re.split(r"[^\w.-]", requirement)[0]) for requirement in asked}
    return names | declared("contracts") if root != "contracts" else names


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_what_is_imported_is_declared(root):
    owners = packages_distributions()
    foreign = {name.partition(".")[0] for path in sources() if path.startswith(f"{root}/") for name in imported(path)}
    foreign -= {"headrace", "__future__", *sys.stdlib_module_names}
    undeclared = {name for name in foreign if not {canonical(owner) for owner in owners.get(name, [name])} & declared(root)}
    assert undeclared == set()


def test_what_is_declared_is_pinned_by_version_and_hash():
    blocks = re.split(r"\n(?=[a-z])", text("requirements.lock").partition("\n")[2])
    pinned = {canonical(block.partition("==")[0]) for block in blocks}
    unhashed = [
        block.partition("\n")[0] for block in blocks if "==" not in block.partition("\n")[0] or "--hash=sha256:" not in block
    ]
    asked = {name for root in SOURCE_ROOTS for name in declared(root)} - PINNED_WHERE_DECLARED
    assert unhashed == []
    assert asked - SAME_RELEASE - pinned == set(), "run: make lock"
    extras = tomllib.loads(text("contracts/pyproject.toml"))["project"]["optional-dependencies"]
    assert [requirement for requirement in extras["torch"] if "==" not in requirement] == []


def test_all_three_are_of_one_release():
    projects = [tomllib.loads(text(f"{root}/pyproject.toml"))["project"] for root in SOURCE_ROOTS]
    assert len({project["version"] for project in projects}) == 1
    assert {project["requires-python"] for project in projects} == {">=3.11"}
    assert (ROOT / "LICENSE").read_text("utf-8").strip().startswith("Apache License")
