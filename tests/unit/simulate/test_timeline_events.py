"""What a moment says happens, and what should be refused."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.yaml_text import read_tree
from headrace.simulate.refused import Refused
from headrace.simulate.scenario import Delete, Moment, read_scenario
from headrace.simulate.timeline_events import happen
from headrace.simulate.world import World


@pytest.fixture
def world(site):
    made = World(read_scenario(read_tree(site + "policies: [{name: q, group: all, profiles: [one]}]\ntimeline: []\n")))
    made.begin()
    return made


def test_what_was_stated_is_stated_again_by_its_writer(world):
    happen(world, Moment(at=0, stated=(f.NodeLostV1(node="n", silent_for=0),), by="preemption"))
    assert (world.history[-1].by, world.state.nodes["n"].status) == ("preemption", "lost")


def test_trouble_comes_to_a_node_and_goes(world):
    happen(world, Moment(at=0, stall_starts="n"))
    assert world.machines.troubles == {"n": "stall"}
    happen(world, Moment(at=0, allow_starts="n"))
    assert world.machines.troubles == {"n": ""}


def test_what_governance_refuses_is_raised(world):
    with pytest.raises(Refused, match="there is no pool"):
        happen(world, Moment(at=0, delete=Delete(kind="pool", name="none")))
