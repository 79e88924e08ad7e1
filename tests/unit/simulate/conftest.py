"""Scenarios told in a few lines: one pool, one profile of a GPU each, one policy, and what the test adds."""

from __future__ import annotations

from textwrap import dedent

import pytest

from headrace.contracts.documents.yaml_text import read_tree
from headrace.simulate.expectations import differences
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World

SITE = """\
groups: [{name: all, members: [ann, bob]}]
pools: [{name: hall, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [hall]}, {name: two, request: {gpu: 2}, pools: [hall]}]
nodes: [{name: n, labels: {site: a}, gpus: 2, gpu_model: H100-80GB}]
"""
POLICIES = """\
policies: [{name: q, group: all, profiles: [one, two]}]
"""


class Played:
    """A scenario played to its end. `failed` holds a list of differences for each expectation."""

    def __init__(self, text: str) -> None:
        self.world = World(read_scenario(read_tree(text)))
        self.failed = [list(differences(self.world, at, expect)) for at, expect in self.world.run()]

    def stated(self, kind: type) -> list:
        """(writer, fact) of every fact of that type, in order."""
        return [(stated.by, fact) for stated in self.world.history for fact in stated.facts if isinstance(fact, kind)]


@pytest.fixture
def site():
    """The text of the installation, to be followed by policies and a timeline."""
    return SITE


@pytest.fixture
def play():
    """`play(timeline)` on the site with one policy; `policies` in their place, and more if a test wants it."""

    def played(timeline: str, policies: str = POLICIES) -> Played:
        return Played(SITE + policies + "timeline:\n" + dedent(timeline))

    return played
