"""R40: the topology domains of nodes."""

from __future__ import annotations

from headrace.domain.model.nodes import NodeState
from headrace.domain.model.topology import PoolTopology, fullest


def node(name: str, **labels: str) -> NodeState:
    return NodeState(name, labels, [], 0, 0, 0, 0, 0)


NODES = {
    one.name: one
    for one in (
        node("n3", block="b1", rack="r2"),
        node("n2", block="b1", rack="r1"),
        node("n1", block="b1", rack="r1"),
        node("n4", block="b2", rack="r1"),
        node("loose", rack="r1"),
        node("half", block="b2"),
    )
}


def test_a_domain_has_one_value_of_its_level_and_of_all_wider_ones():
    topology = PoolTopology(("block", "rack"), NODES)

    assert [(one.path, one.nodes, one.label) for one in topology.domains("rack")] == [
        (("b1", "r1"), ("n1", "n2"), "b1/r1"),
        (("b1", "r2"), ("n3",), "b1/r2"),
        (("b2", "r1"), ("n4",), "b2/r1"),
    ]
    assert [(one.path, one.nodes) for one in topology.domains("block")] == [
        (("b1",), ("n1", "n2", "n3")),
        (("b2",), ("half", "n4")),
    ]
    assert topology.domains("row") == []


def test_replicas_are_counted_by_domain_and_those_outside_are_left_out():
    topology = PoolTopology(("block", "rack"), NODES)
    counted = topology.counted("rack", {"n1": 2, "n2": 1, "n4": 3, "loose": 8})

    assert [(count, domain.label) for count, domain in counted] == [(3, "b1/r1"), (0, "b1/r2"), (3, "b2/r1")]
    assert fullest(counted) == counted[0]
    assert (topology.counted("row", {"n1": 2}), fullest([])) == ([], (0, None))
