"""The SBOM that `make release` has made, held against pyproject.toml, the lock, and what the plain wheel brought with it."""

from __future__ import annotations

import json
import os
import re
import tomllib
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = ("", "burst", "kubernetes", "top")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def sbom() -> dict[str, Any]:
    return json.loads((ROOT / "dist/headrace.cdx.json").read_bytes())


@pytest.fixture(scope="module")
def installed() -> dict[str, Distribution]:
    """What is in the environment of the plain wheel."""
    (packages,) = (ROOT / ".release/plain/lib").glob("python3*/site-packages")
    return {canonical(one.name): one for one in distributions(path=[str(packages)])}


@pytest.fixture(scope="module")
def pinned() -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([\w.+!-]+)", (ROOT / "requirements.lock").read_text("utf-8"), flags=re.MULTILINE)
    return {canonical(name): version for name, version in pins}


def needed(installed: dict[str, Distribution]) -> set[str]:
    """What Headrace needs, itself and by what it needs, with the extras that are in the lock."""
    found: set[str] = set()
    open_ = [("headrace", EXTRAS)]
    while open_:
        name, extras = open_.pop()
        for text in installed[name].requires or ():
            asked = Requirement(text)
            if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in extras):
                key = canonical(asked.name)
                if key not in found:
                    found.add(key)
                    open_.append((key, ("", *asked.extras)))
    return found


def test_it_is_of_this_release_under_its_licence(sbom):
    assert (sbom["bomFormat"], sbom["metadata"]["component"]["type"]) == ("CycloneDX", "application")
    component = sbom["metadata"]["component"]
    assert (component["name"], component["version"]) == (PROJECT["name"], PROJECT["version"])
    assert [one["license"]["id"] for one in component["licenses"]] == [PROJECT["license"]]


def test_every_package_that_headrace_needs_stands_in_it_with_the_version_that_is_pinned_and_no_other(sbom, installed, pinned):
    held = {canonical(one["name"]): one["version"] for one in sbom["components"]}
    assert held == {name: pinned[name] for name in needed(installed)}
    assert len(held) == len(sbom["components"])
    assert {one["purl"].lower() for one in sbom["components"]} == {
        f"pkg:pypi/{name}@{version}" for name, version in held.items()
    }


def test_it_has_the_time_of_its_commit_and_nothing_of_the_machine(sbom):
    committed = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    assert sbom["metadata"]["timestamp"] == committed.isoformat()
    assert "serialNumber" not in sbom
    assert str(ROOT) not in json.dumps(sbom)
