"""R40: the topology domains of a pool, and in which of them a gang may be placed."""

from __future__ import annotations

import pytest

from headrace.contracts.documents.model import Topology
from headrace.domain.model.requests import make_request
from headrace.domain.placement.placement import find_places, replicas_together_if_empty
from headrace.domain.state.topology import searched_levels, stand_together, topology_of
from tests.unit.domain.racks import racked, together
from tests.unit.domain.site import Site, gpus, place

DEV = ("default", "dev")


def nodes_of(site: Site, queue: str = "dev/together") -> list[str] | None:
    found = find_places(site.state, site.admit("j", queue), site.state.pools["hall"])
    return None if found is None else [one.node for one in found]


def test_a_node_that_registers_with_other_labels_stands_elsewhere_at_once():
    site = racked()
    hall = site.state.pools["hall"]
    assert stand_together(hall, make_request(gpus(2), 2, together(2, require="rack")), ["n1", "n2"])
    site.node("n2", 2, block="b2", rack="r1")
    assert not stand_together(hall, make_request(gpus(2), 2, together(2, require="rack")), ["n1", "n2"])
    assert topology_of(hall).domains("rack")[0].nodes == ("n1",)


@pytest.mark.parametrize(
    ("topology", "levels"),
    [
        ({"require": "rack"}, ("rack",)),
        ({"require": "block"}, ("block",)),
        ({"prefer": "rack"}, ("rack", "block")),
        ({"prefer": "block"}, ("block",)),
        ({"require": "block", "prefer": "rack"}, ("rack", "block")),
        ({"require": "rack", "prefer": "block"}, ("rack",)),
        ({"require": "row"}, ()),
        ({"prefer": "row"}, ()),
    ],
)
def test_levels_are_searched_from_the_preferred_one_up_to_the_required_one(topology, levels):
    assert searched_levels(racked().state.pools["hall"], Topology(**topology)) == levels


@pytest.mark.parametrize(
    ("replicas", "topology", "nodes"),
    [
        pytest.param(2, {"require": "rack"}, ["n1", "n2"], id="the smallest rack that holds it"),
        pytest.param(3, {"require": "rack"}, ["n4", "n5", "n6"], id="the only one that does"),
        pytest.param(4, {"require": "rack"}, None, id="no rack is large enough"),
        pytest.param(3, {"require": "block", "prefer": "rack"}, ["n4", "n5", "n6"], id="a rack before a block"),
        pytest.param(3, {"require": "block"}, ["n1", "n2", "n3"], id="the first of two blocks"),
        pytest.param(4, {"require": "block", "prefer": "rack"}, None, id="no block is large enough"),
        pytest.param(4, {"prefer": "rack"}, ["n1", "n2", "n3", "n4"], id="anywhere if no domain is"),
        pytest.param(2, {"require": "row"}, None, id="a level that the pool does not have"),
        pytest.param(2, {"prefer": "row"}, ["n1", "n2"], id="and may do without"),
    ],
)
def test_a_gang_goes_into_the_smallest_domain_that_holds_it(replicas, topology, nodes):
    site = racked(together(replicas, **topology))
    assert nodes_of(site) == nodes


def test_what_is_taken_counts():
    site = racked(together(2, require="rack"))
    site.run("a", place("n1", 0))
    assert nodes_of(site) == ["n4", "n5"]


def test_several_replicas_of_a_gang_may_share_a_node():
    site = racked(together(4, 1, require="rack"))
    assert nodes_of(site) == ["n1", "n1", "n2", "n2"]


def test_a_gang_without_topology_goes_where_it_went_before():
    assert nodes_of(racked(), "dev/gang") == ["n1", "n1"]


def test_one_replica_requires_nothing():
    assert make_request(gpus(1), 1, together(1, require="rack")).topology is None


@pytest.mark.parametrize(("level", "count"), [("rack", 3), ("block", 3), ("row", 0)])
def test_how_many_replicas_one_domain_could_hold_if_it_were_empty(level, count):  # R13
    site = racked()
    site.run("a", place("n4", 0, 1))
    request = make_request(gpus(2), 2, together(2, require=level))
    assert replicas_together_if_empty(site.state.pools["hall"], request, DEV) == count
