"""What a pool has (R5, R6), and for whom it counts (R21)."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB, MEMORY
from headrace.contracts.values.durations import SECOND
from headrace.domain.state.supply import by_owner, capacity_of, is_known, is_short, known_to, new_nodes, recount, sums_bind
from tests.unit.domain.hall import Hall, gpus
from tests.unit.domain.site import GIB, HALF, Site, place, policy, pool

DEV, OPS = ("default", "dev"), ("default", "ops")
OWN = {"dedicated": (d.Dedication(selector={"rack": "ops"}, to=d.Owner(policy="default/ops")),)}
BURST = d.Burst(provider="ec2", max_nodes=3, node=d.BurstNode(gpus=4, gpu_model="A100"))


def test_usable_capacity_is_the_declared_or_what_healthy_nodes_have_whichever_is_less():
    hall = Hall(nodes=2, devices=4, capacity={**gpus(6), "license/x": 3})
    assert (hall.pool.known[GPU], hall.pool.usable[GPU], hall.pool.usable["license/x"]) == (6 * GPU_UNITS, 6 * GPU_UNITS, 3)
    hall.state.nodes["n1"].status = "lost"
    recount(hall.pool)
    assert (hall.pool.known[GPU], hall.pool.usable[GPU]) == (6 * GPU_UNITS, 4 * GPU_UNITS)
    assert hall.pool.governed == {GPU, "license/x"}


@pytest.mark.parametrize(("key", "has"), [(GPU, 8 * GPU_UNITS), (JOB, None), ("license/y", 0)])
def test_a_key_that_no_capacity_names_has_none_but_jobs_are_unlimited(key, has):
    assert capacity_of(Hall().pool, key) == has


def test_sums_bind_before_nodes_do_under_a_ceiling_and_while_leases_stand_on_nodes_that_are_away():  # R6
    def lost(*, held):
        hall = Hall(nodes=2, devices=1)
        hall.policy("dev")
        if held:
            hall.run("dev", "a", ("n1", 0, 1))
        before = sums_bind(hall.pool)
        hall.append_facts("preemption", f.NodeLostV1(node="n1", silent_for=60 * SECOND))
        return before, sums_bind(hall.pool)

    assert (sums_bind(Hall(capacity=gpus(9)).pool), lost(held=False), lost(held=True)) == (True, (False, False), (False, True))


def rack(site: Site, name: str, label: str, count: int = 2) -> None:
    """A node whose rack is labelled."""
    site.node(name, count)
    node = site.state.nodes[name]
    node.labels["rack"] = label
    pool = site.state.pools[node.pool]
    pool.index.put(node)
    recount(pool)


@pytest.mark.parametrize(
    ("written", "nodes", "known"),
    [
        pytest.param({}, 0, (False, 0, 0), id="nothing is known yet"),
        pytest.param({"burst": BURST}, 0, (True, 3, 12), id="what it may create"),
        pytest.param({"burst": BURST}, 2, (True, 1, 8), id="with what is there"),
        pytest.param({"burst": BURST, "capacity": gpus(9)}, 0, (True, 3, 9), id="under the ceiling"),
    ],
)
def test_known_capacity_counts_what_a_bursting_pool_may_create(written, nodes, known):  # R6, R38
    site = Site(pools=(pool(**written),))
    for number in range(nodes):
        site.node(f"n{number}", 2)
    hall = site.state.pools["hall"]
    assert (is_known(hall), new_nodes(hall), hall.known[GPU] // GPU_UNITS) == known
    assert hall.usable[GPU] == nodes * 2 * GPU_UNITS


def test_where_the_amount_of_a_created_node_is_unknown_nothing_bounds_a_job():
    amounts_known = d.Burst(provider="ec2", max_nodes=2, node=d.BurstNode(gpus=4, gpu_model="A100", cpus=32, memory=64 * GIB))
    halls = [Site(pools=(pool(burst=burst),)).state.pools["hall"] for burst in (BURST, amounts_known)]
    assert [[capacity_of(hall, key) for key in (CPU, MEMORY)] for hall in halls] == [
        [None, None],
        [64 * CPU_UNITS, 128 * GIB],
    ]


def test_what_is_dedicated_counts_for_its_owner_only():  # R21
    site = Site(policy("dev"), policy("ops"), pools=(pool(**OWN),))
    rack(site, "n1", "ops")
    rack(site, "n2", "dev", 3)
    hall = site.state.pools["hall"]
    assert [known_to(hall, party)[GPU] // GPU_UNITS for party in (DEV, OPS, None)] == [3, 5, 5]
    assert [capacity_of(hall, GPU, party) for party in (DEV, OPS)] == [3 * GPU_UNITS, 5 * GPU_UNITS]
    assert {owner: amounts[GPU] // GPU_UNITS for owner, amounts in by_owner(hall).items()} == {"": 3, "default/ops": 2}
    assert [most_for(hall, GPU, party) // GPU_UNITS for party in (DEV, OPS)] == [3, 5]
    site.run("a", place("n2", 0))
    site.run("b", place("n1", 0, units=HALF), queue="ops/half")
    assert [most_for(hall, GPU, party) for party in (DEV, OPS)] == [2 * GPU_UNITS, 3 * GPU_UNITS + HALF]
    assert [most_for(hall, CPU, party) for party in (DEV, OPS)] == [16 * CPU_UNITS, 32 * CPU_UNITS]


def most_for(hall, key, party, services=(False, True)) -> int:
    """The most that is not short, in steps of half a GPU or one CPU: the same whether or not nodes have to be in service."""
    step = CPU_UNITS if key == CPU else GPU_UNITS // 2
    found = {
        max(asked for asked in range(0, 200 * step, step) if not is_short(hall, key, party, asked, in_service=in_service))
        for in_service in services
    }
    assert len(found) == 1
    return found.pop()


def test_what_is_idle_on_a_cordoned_node_is_left_for_no_policy():  # R6, R24
    hall = Hall(nodes=2, devices=2)
    hall.append_facts("governance", f.NodeCordonedV1(author="a.b", node="n2"))
    found = [most_for(hall.pool, GPU, DEV, [in_service]) // GPU_UNITS for in_service in (False, True)]
    assert found == [4, 2], "before the amendment it counted while the node was healthy"


@pytest.mark.parametrize("nodes", [0, 1])
def test_a_pool_that_is_another_s_has_nothing(nodes):  # R13, R21
    site = Site(pools=(pool(dedicated_to=d.Owner(policy="default/ops"), capacity={"license/x": 4}),))
    for number in range(nodes):
        site.node(f"n{number}", 2)
    hall = site.state.pools["hall"]
    assert [capacity_of(hall, GPU, party) for party in (DEV, OPS)] == [0, 2 * GPU_UNITS if nodes else None]
    assert [capacity_of(hall, "license/x", party) for party in (DEV, OPS)] == [0, 4]


def test_what_a_pool_creates_is_its_owners():
    hall = Site(pools=(pool(burst=BURST, dedicated_to=d.Owner(policy="default/ops")),)).state.pools["hall"]
    assert [capacity_of(hall, GPU, party) for party in (DEV, OPS)] == [0, 12 * GPU_UNITS]


def test_how_the_gpus_of_a_pool_are_cut_is_known():  # R4
    hall = Hall()
    assert hall.pool.families == frozenset()


def test_a_pool_has_of_a_governed_model_what_its_nodes_have_of_it_up_to_what_it_declares():  # R43
    hall = Hall(nodes=2, devices=4, capacity={"gpu:H100-80GB": 6 * GPU_UNITS, "gpu:A100": 9 * GPU_UNITS})
    hall.node("n3", 3, model="A100")
    key, other = "gpu:H100-80GB", "gpu:A100"
    assert {name: hall.pool.known[name] // GPU_UNITS for name in (GPU, key, other)} == {GPU: 11, key: 6, other: 3}
    hall.append_facts("preemption", f.NodeLostV1(node="n1", silent_for=60 * SECOND))
    assert {name: hall.pool.usable[name] // GPU_UNITS for name in (GPU, key, other)} == {GPU: 7, key: 4, other: 3}
    assert [capacity_of(hall.pool, name) for name in ("gpu:H200", other)] == [None, 3 * GPU_UNITS]
    assert [is_short(hall.pool, key, DEV, units * GPU_UNITS, in_service=True) for units in (4, 5)] == [False, True]


def test_of_a_governed_model_only_what_is_idle_on_its_own_nodes_in_service_is_left():  # R24, R43
    hall = Hall(nodes=2, devices=2, capacity={"gpu:H100-80GB": 9 * GPU_UNITS, "gpu:A100": 9 * GPU_UNITS})
    hall.node("n3", 3, model="A100")
    hall.append_facts("governance", f.NodeCordonedV1(author="a.b", node="n2"))
    found = [most_for(hall.pool, "gpu:H100-80GB", DEV, [in_service]) // GPU_UNITS for in_service in (False, True)]
    assert found == [4, 2]


def test_nodes_that_a_pool_may_create_count_for_their_model():  # R43
    hall = Hall(nodes=1, devices=2, capacity={"gpu:A100": 9 * GPU_UNITS, "gpu:H100-80GB": 9 * GPU_UNITS}, burst=BURST)
    assert (hall.pool.known["gpu:A100"], hall.pool.known["gpu:H100-80GB"]) == (8 * GPU_UNITS, 2 * GPU_UNITS)
