from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.provisioning import OfferTaken
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY
from headrace.contracts.values.durations import MINUTE
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.domain.model.requests import make_request
from headrace.domain.placement.pool_growth import (
    GrowthRequest,
    closed_for,
    creatable_nodes,
    due_at,
    growing_for,
    may_hold,
    nodes_for,
    open_growth,
)
from headrace.domain.snapshots.snapshot import copy_of, dump, load
from tests.unit.domain.site import Site, pool

NODE = d.BurstNode(gpus=4, gpu_model="H100", cpus=16)
BURST = d.Burst(provider="local", node=NODE, max_nodes=3, boot=2 * MINUTE)


def request(gpus: float, replicas: int = 1, cpus: int = 0, memory: int = 0, models: tuple[str, ...] = ()):
    profile = d.Profile(name="x", request={}, pools=(), gpu_models=models)
    amounts = {GPU: round(gpus * GPU_UNITS), CPU: cpus * CPU_UNITS, MEMORY: memory}
    return make_request({key: value for key, value in amounts.items() if value}, replicas, profile)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (request(4), True),
        (request(5), False),
        (request(1, cpus=16), True),
        (request(1, cpus=17), False),
        (request(0.5, memory=1 << 40), True),
        (request(1, models=("H100", "A100")), True),
        (request(1, models=("A100",)), False),
        (request(0, cpus=2), True),
    ],
)
def test_a_created_node_holds_what_its_document_says_it_has(asked, fits):
    assert may_hold(NODE, asked.shape) is fits


@pytest.mark.parametrize(
    ("asks", "nodes"),
    [
        ([], 0),
        ([(request(1), 1)], 1),
        ([(request(1), 4)], 1),
        ([(request(1), 5)], 2),
        ([(request(3), 2), (request(1), 2)], 2),
        ([(request(1), 2), (request(3), 2)], 2),
        ([(request(0.5), 8)], 1),
        ([(request(0.5), 9)], 2),
        ([(request(0.5), 2), (request(3), 1)], 1),
        ([(request(0.6), 4)], 1),
        ([(request(0.6), 5)], 2),
        ([(request(1, cpus=8), 4)], 2),
        ([(request(4, replicas=3), 1)], 3),
        ([(request(4, replicas=4), 1)], 0),
        ([(request(4, replicas=4), 1), (request(1), 1)], 1),
        ([(request(4), 99)], 3),
        ([(request(1), 1_000_000)], 3),
    ],
)
def test_the_fewest_nodes_hold_who_asks_up_to_the_most_there_may_be(asks, nodes):
    assert nodes_for(NODE, [GrowthRequest(asked, jobs, f"j{number}") for number, (asked, jobs) in enumerate(asks)], 3) == nodes


def growing(**more: object) -> Site:
    site = Site(pools=(pool(burst=BURST), pool("still")))
    if more:
        site.append_facts(f.GrowthRequestedV1(pool="hall", **more), by="allocator")
    return site


def test_a_pool_grows_up_to_its_limit_one_growth_at_a_time():
    site = growing()
    state, hall, still = site.state, site.state.pools["hall"], site.state.pools["still"]
    assert (creatable_nodes(state, hall, site.now), creatable_nodes(state, still, site.now)) == (3, 0)
    site.node("n1")
    assert creatable_nodes(state, hall, site.now) == 2
    site.append_facts(f.GrowthRequestedV1(pool="hall", nodes=2), by="allocator")
    assert (creatable_nodes(state, hall, site.now), open_growth(state, "hall").nodes) == (0, 2)
    assert due_at(hall, open_growth(state, "hall")) == site.now + 4 * MINUTE


def test_nodes_that_come_for_the_first_time_are_counted():
    site = growing(nodes=2)
    site.node("n1")
    site.node("n1")
    site.node("m1", pool="still")
    assert open_growth(site.state, "hall").joined == 1
    site.append_facts(f.GrowthEndedV1(pool="hall", outcome="grown", nodes=1), by="allocator")
    site.node("n2")
    assert (open_growth(site.state, "hall"), site.state.terms.growths["hall"].joined) == (None, 1)


def test_growth_that_fails_closes_the_pool_for_longer_each_time_until_it_succeeds():
    site = growing()
    hall = site.state.pools["hall"]
    for minutes in (10, 20, 40):
        site.append_facts(f.GrowthRequestedV1(pool="hall", nodes=1), by="allocator")
        growth = open_growth(site.state, "hall")
        assert closed_for(growth) == minutes * MINUTE
        until = site.now + closed_for(growth)
        site.append_facts(f.GrowthEndedV1(pool="hall", outcome="late", closed_until=until), by="allocator")
        assert (creatable_nodes(site.state, hall, until - 1), creatable_nodes(site.state, hall, until)) == (0, 3)
    site.append_facts(
        f.GrowthRequestedV1(pool="hall", nodes=1), f.GrowthEndedV1(pool="hall", outcome="grown", nodes=1), by="allocator"
    )
    site.append_facts(f.GrowthRequestedV1(pool="hall", nodes=1), by="allocator")
    assert closed_for(open_growth(site.state, "hall")) == 10 * MINUTE


def test_growth_survives_snapshots_and_goes_with_its_pool():
    site = growing(nodes=2)
    for state in (load(dump(site.state)), copy_of(site.state)):
        assert (open_growth(state, "hall").nodes, open_growth(state, "hall").asked_at) == (2, site.now)
    site.append_facts(f.PoolDeletedV1(author="a.b", name="hall"))
    site.append_facts(f.GrowthRequestedV1(pool="gone", nodes=1), f.GrowthEndedV1(pool="gone", outcome="late"), by="allocator")
    assert site.state.terms.growths == {}


CUT = d.BurstNode(gpus=1, gpu_model="H100-80GB", mig=True)


def slices(name: str):
    return make_request({GPU: 1}, 1, d.Profile(name="x", request={}, mig=name, pools=()), name)


def test_slices_grow_nodes_in_mig_mode_only_by_their_geometry():  # R4, R38
    small, half = slices("1g.10gb"), slices("3g.40gb")
    assert (may_hold(CUT, small.shape), may_hold(CUT, request(1).shape), may_hold(CUT, request(0.5).shape)) == (
        True,
        False,
        False,
    )
    assert may_hold(NODE, small.shape) is False
    assert may_hold(NODE, small.shape, level=2) is True, "ledgers of release 0.2.0 were decided so"
    asks = [GrowthRequest(half, 2, "a"), GrowthRequest(small, 8, "b")]
    assert [nodes_for(CUT, asks[:1], 9), nodes_for(CUT, asks[1:], 9), nodes_for(CUT, asks, 9)] == [1, 2, 3]


def test_isolation_and_images_count_as_the_document_promises_them():  # R38
    driver = d.BurstNode(gpus=4, gpu_model="H100", isolation="driver", containers=False)
    least = make_request({GPU: GPU_UNITS}, 1, d.Profile(name="x", request={}, isolation="kernel", pools=()))
    image = make_request({GPU: GPU_UNITS}, 1, None, contained=True)
    assert [may_hold(driver, one.shape) for one in (least, image, request(1))] == [False, False, True]
    assert [may_hold(NODE, one.shape) for one in (least, image)] == [True, True]


def test_instances_that_live_count_for_the_most_there_may_be():
    site = growing(nodes=2)
    site.append_facts(f.GrowthEndedV1(pool="hall", outcome="late", nodes=0), by="allocator")
    order = {"pool": "hall", "provider": "local", "offer": OfferTaken(name="default"), "token": "t", "expires": 1}
    site.append_facts(f.InstanceOrderedV1(instance="hall-1", **order), by="provisioner")
    hall = site.state.pools["hall"]
    assert creatable_nodes(site.state, hall, site.now) == 2
    site.append_facts(f.InstanceRefusedV1(instance="hall-1", code="CAPACITY", closed_until=site.now + 5), by="provisioner")
    assert (creatable_nodes(site.state, hall, site.now), creatable_nodes(site.state, hall, site.now + 5)) == (0, 3)


def test_how_far_growth_is_says_who_brings_the_nodes():
    site = growing(nodes=2)
    hall = site.state.pools["hall"]
    sequence = open_growth(site.state, "hall").sequence
    order = {"pool": "hall", "provider": "local", "offer": OfferTaken(name="default"), "token": "t", "expires": 1}
    site.append_facts(f.InstanceOrderedV1(instance="hall-1", growth=sequence, **order), by="provisioner")
    site.append_facts(f.InstanceOrderedV1(instance="hall-2", growth=sequence, **order), by="provisioner")
    site.append_facts(f.InstanceCreatedV1(instance="hall-2", provider_id="p", at=1), by="provisioner")
    asked = request(1)
    assert growing_for(site.state, [hall], asked) == "0 of 2 nodes have come to pool hall (1 ordered, 1 booting)"
    site.append_facts(f.InstanceOrderedV1(instance="hall-3", growth=sequence, price=2_500_000, **order), by="provisioner")
    assert growing_for(site.state, [hall], asked) == (
        "0 of 2 nodes have come to pool hall (2 ordered, 1 booting); the nodes cost 2.50 an hour"
    )
    site.law(pool(burst=d.Burst(provider="none", node=NODE, max_nodes=3)))
    assert growing_for(site.state, [hall], asked) == (
        "0 of 2 nodes have come to pool hall; its provider is none: an operator adds nodes"
    )


def test_growth_is_for_a_job_of_gpu_memory_if_the_nodes_have_any_model_that_it_may_be_given():  # R42
    site = growing(nodes=1)
    hall, model = site.state.pools["hall"], NODE.gpu_model
    shares = [ModelShare(model="A100-40GB", gpu=GPU_UNITS), ModelShare(model=model, gpu=GPU_UNITS // 2)]
    for given, grows in ((shares, True), (shares[:1], False)):
        asked = make_request({GPU: given[0].gpu}, 1, None, memory=36 * 1024, shares=given)
        assert (growing_for(site.state, [hall], asked) is not None) is grows
