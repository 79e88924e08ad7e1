"""What may be stated before all services read it. The newer fact of these tests is made up."""

from __future__ import annotations

import pytest

from headrace.contracts.facts import NodeCordonedV1, NodeDrainOrderedV1, NodeUncordonedV1, levels, upcasters
from headrace.contracts.schemas.generate import FACT_TYPES

NEWER = NodeDrainOrderedV1(author="a.b", node="gpu01")
OLDER = NodeCordonedV1(author="a.b", node="gpu01")
OTHER = NodeUncordonedV1(author="a.b", node="gpu01")


@pytest.fixture
def second(monkeypatch):
    """A release that says draining where the one before said cordoning."""
    monkeypatch.setitem(levels.SINCE, NodeDrainOrderedV1, 2)
    monkeypatch.setitem(levels.DOWNCASTERS, NodeDrainOrderedV1, lambda fact: NodeCordonedV1(author=fact.author, node=fact.node))
    monkeypatch.setitem(
        upcasters.UPCASTERS, NodeCordonedV1, lambda fact: NodeDrainOrderedV1(author=fact.author, node=fact.node)
    )


def test_each_level_has_its_release_and_every_newer_fact_its_level():
    assert len(levels.RELEASES) == levels.LEVEL
    assert all(levels.FIRST < level <= levels.LEVEL and kind in FACT_TYPES for kind, level in levels.SINCE.items())
    assert levels.DOWNCASTERS.keys() <= levels.SINCE.keys()


def test_at_its_own_level_a_release_states_what_it_decides():
    facts = (NEWER, OTHER)
    assert levels.at_level(facts, levels.LEVEL) is facts


def test_below_its_level_a_fact_is_said_in_the_version_before(second):
    assert levels.at_level((NEWER, OTHER), 1) == (OLDER, OTHER)
    assert levels.at_level((NEWER, OTHER), 2) == (NEWER, OTHER)
    same = (OTHER,)
    assert levels.at_level(same, 1) is same


def test_a_new_fact_without_a_version_before_needs_no_translation(second, monkeypatch):
    monkeypatch.delitem(levels.DOWNCASTERS, NodeDrainOrderedV1)
    with pytest.raises(KeyError):
        levels.at_level((NEWER,), 1)


def test_what_was_said_in_an_older_version_is_read_in_the_current_one(second):
    assert levels.read_back((NEWER, OTHER), 1) == (NEWER, OTHER)
    assert levels.read_back((OTHER,), 1) == (OTHER,)


def test_a_fact_that_comes_before_its_level_is_told(second):
    assert levels.too_early((OTHER, NEWER), 1) == (
        "node.drain_ordered.v1 may be stated from level 2 on, and the installation is at 1"
    )
    assert levels.too_early((OTHER, NEWER), 2) == levels.too_early((OTHER, OLDER), 1) == ""


def test_a_level_is_named_by_the_release_that_people_install(second):
    assert [levels.release_of(level) for level in (1, 2, 3, 4)] == [
        "headrace 0.1.0",
        "headrace 0.2.0",
        "headrace 0.3.0",
        "a newer release of headrace than 0.3.0",
    ]
