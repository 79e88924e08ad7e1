"""The reference examples name every key there is, and work."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headrace.contracts.documents.forms import Shape
from headrace.contracts.documents.reader import DOCUMENTS
from headrace.contracts.documents.yaml_text import read_tree
from headrace.simulate import scenario as s
from headrace.simulate.expectations import differences
from headrace.simulate.world import World
from tests.architecture.tree import ROOT

REFERENCE = Path(ROOT, "deploy/examples/reference")


def keys_in(value: object) -> set[str]:
    """Every key of every mapping."""
    if isinstance(value, dict):
        return set(value) | {key for part in value.values() for key in keys_in(part)}
    return {key for part in value for key in keys_in(part)} if isinstance(value, list) else set()


def keys_of(form: object) -> set[str]:
    """Every key that a form and the forms in it read."""
    inner = {key for part in getattr(form, "__dict__", {}).values() if part is not form for key in keys_of(part)}
    return inner | set(form.forms) if isinstance(form, Shape) else inner


def test_every_key_of_a_document_stands_in_an_example():
    written = keys_in(yaml.safe_load((REFERENCE / "documents.yaml").read_text("utf-8")))
    assert {key for form in DOCUMENTS.forms.values() for key in keys_of(form)} - written == set()


def test_every_key_of_a_scenario_stands_in_an_example():
    written = keys_in(yaml.safe_load((REFERENCE / "scenario.yaml").read_text("utf-8")))
    assert {key for form in (s.NODES, s.SUBMIT, s.DELETE, s.EXPECT, s.MOMENT) for key in form.forms} - written == set()


@pytest.mark.parametrize("name", ["documents.yaml", "scenario.yaml"])
def test_what_has_every_key_works(name):
    world = World(s.read_scenario(read_tree((REFERENCE / name).read_text("utf-8"))))
    assert [line for at, expect in world.run() for line in differences(world, at, expect)] == []
