"""Nodes that pools are expected to create (R38), on trial."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import CPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.domain.explain.expected_nodes import ExpectedNodes
from headrace.domain.state.trial import Trial
from tests.unit.domain.site import GIB, START, Site, gpus, pool, profile
from tests.unit.domain.snapshot import differences, snapshot

BOOT = 60 * SECOND


def clouds(**fields: object) -> tuple[Site, ExpectedNodes]:
    """A cloud of nodes of two GPUs, and a far one of nodes of four."""
    near = d.Burst(provider="x", node=d.BurstNode(gpus=2, gpu_model="H100", **fields), max_nodes=3, boot=BOOT)
    far = d.Burst(provider="x", node=d.BurstNode(gpus=4, gpu_model="H100"), max_nodes=1, boot=2 * BOOT)
    site = Site(pools=(pool(), pool("near", burst=near), pool("far", burst=far)))
    site.law(profile("four", gpus(4), pools=("hall", "near", "far")))
    return site, ExpectedNodes(site.state, Trial(site.state), site.state.pools, START)


def asks(nodes: ExpectedNodes, request, *before, moment: int = START) -> list[tuple[str, int]]:
    open_to = [(name, before) for name in ("hall", "near", "far")]
    return [(name, (due - START) // SECOND) for name, due in nodes.ask(request, open_to, moment)]


def test_the_first_pool_that_could_hold_it_is_asked_and_no_other_while_that_grows():
    site, nodes = clouds()
    one, four = site.admit("a").request, site.admit("b", "dev/four").request
    assert asks(nodes, four) == [("far", 120)]
    assert asks(nodes, four, moment=START + SECOND) == []
    assert asks(nodes, one, moment=START + SECOND) == [("near", 61)]


def test_those_before_it_ask_too_and_what_the_pool_may_create_is_all_there_is():
    site, nodes = clouds(cpus=4, memory=GIB)
    two, own = site.admit("a", request=gpus(2)).request, site.admit("b", request={**gpus(1), CPU: 3_000}).request
    assert asks(nodes, own, (two, 1)) == [("near", 60)]
    nodes.come("near", START + BOOT - 1)
    assert len(site.state.pools["near"].nodes) == 0
    nodes.come("near", START + BOOT)
    there = site.state.pools["near"].nodes.values()
    assert [(node.cpu, node.memory, len(node.devices), node.model) for node in there] == [(4_000, GIB, 2, "H100")] * 2
    assert asks(nodes, own, (two, 9), moment=START + BOOT) == [("near", 120)]
    nodes.come("near", START + 2 * BOOT)
    assert (len(there), asks(nodes, own, moment=START + 3 * BOOT)) == (3, [("far", 300)])


def test_what_grows_already_and_what_is_closed_for_growth_is_told():
    site, nodes = clouds()
    site.append_facts(f.GrowthRequestedV1(pool="near", nodes=2, jobs=("j",)), by="allocator")
    site.append_facts(f.GrowthRequestedV1(pool="far", nodes=1, jobs=("j",)), by="allocator")
    site.append_facts(f.GrowthEndedV1(pool="far", outcome="late", nodes=0, closed_until=START + 5 * BOOT), by="allocator")

    assert list(nodes.on_the_way()) == [("near", START + BOOT), ("far", START + 5 * BOOT)]
    nodes.come("far", START + 5 * BOOT)
    nodes.come("near", START + BOOT)
    assert [len(one.nodes) for one in site.state.pools.values()] == [0, 2, 0]


def test_nothing_is_left_of_them_when_the_trial_is_undone():
    site, _ = clouds()
    site.node("n1", pool="near")
    near = site.state.pools["near"]
    with Trial(site.state) as trial:
        nodes = ExpectedNodes(site.state, trial, site.state.pools, START)
        assert asks(nodes, site.admit("a", request=gpus(2)).request) == [("near", 60)]
        before = snapshot(site.state)
        nodes.come("near", START + BOOT)
        assert near.usable["gpu"] == 4 * GPU_UNITS

    assert differences(before, snapshot(site.state)) == []
