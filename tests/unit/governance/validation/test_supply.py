from __future__ import annotations

import pytest

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.domain.state.supply import capacity_of
from headrace.governance.validation.supply import pools_reached
from tests.unit.governance.validation.sentences import NOT_YET


@pytest.mark.parametrize(
    ("pool", "nodes", "key", "expected"),
    [
        ("{}", 0, "gpu", None),
        ("{}", 2, "gpu", 16 * GPU_UNITS),
        ("{}", 2, "cpu", 128_000),
        ("{}", 2, "memory", 2 * 1_048_576),
        ("{}", 2, "job", None),
        ("{}", 2, "license", 0),
        ("{capacity: {gpu: 4}}", 0, "gpu", 4 * GPU_UNITS),
        ("{capacity: {gpu: 4}}", 2, "gpu", 4 * GPU_UNITS),
        ("{capacity: {gpu: 99}}", 2, "gpu", 16 * GPU_UNITS),
        ("{capacity: {license: 3, job: 7}}", 0, "license", 3),
        ("{capacity: {license: 3, job: 7}}", 2, "job", 7),
        ("{burst: {provider: local, max_nodes: 3, node: {gpus: 4, gpu_model: A}}}", 0, "gpu", 12 * GPU_UNITS),
        ("{burst: {provider: local, max_nodes: 3, node: {gpus: 4, gpu_model: A}}}", 2, "gpu", 20 * GPU_UNITS),
        ("{burst: {provider: local, max_nodes: 1, node: {gpus: 4, gpu_model: A}}}", 2, "gpu", 16 * GPU_UNITS),
        (
            "{capacity: {gpu: 9}, burst: {provider: local, max_nodes: 3, node: {gpus: 4, gpu_model: A}}}",
            0,
            "gpu",
            9 * GPU_UNITS,
        ),
    ],
)
def test_known_capacity(installation, pool, nodes, key, expected):
    installation.write("pools: [{name: west, selector: {site: west}, " + pool[1:] + "]")
    for number in range(nodes):
        installation.node(f"w{number}", 8, site="west")
    assert capacity_of(installation.state.pools["west"], key) == expected


def test_pools_are_reached_through_the_profiles_that_exist_each_once(site):
    site.write("policies: [{name: a, group: all, profiles: [one, both, three]}, {name: b, group: all, profiles: [gone]}]")
    state = site.state
    assert pools_reached(state, state.policies["default", "a"].document) == ("west", "east")
    assert pools_reached(state, state.policies["default", "b"].document) == ()


WAY_OUT = "a node belongs to one: add a label that tells them apart"


@pytest.mark.parametrize(
    ("pools", "errors"),
    [
        pytest.param("[{name: north, selector: {site: north}}]", (), id="another site"),
        pytest.param("[{name: red, selector: {rack: red}}]", (), id="no node has both labels yet"),
        pytest.param(
            "[{name: twin, selector: {site: west}}]",
            (f"pools[0].selector: every node of pool west would belong to pools twin and west; {WAY_OUT}",),
            id="the same selector",
        ),
        pytest.param(
            "[{name: inner, selector: {site: west, rack: r9}}]",
            (f"pools[0].selector: every node of pool inner would belong to pools inner and west; {WAY_OUT}",),
            id="a part of another pool",
        ),
        pytest.param(
            "[{name: racked, selector: {rack: r1}}]",
            (f"pools[0].selector: node w1 would belong to pools racked and west; {WAY_OUT}",),
            id="a node that is there",
        ),
        pytest.param(
            "[{name: a, selector: {site: x}}, {name: b, selector: {site: x}}]",
            (f"pools[0].selector: every node of pool b would belong to pools a and b; {WAY_OUT}",),
            id="two new ones are told once",
        ),
        pytest.param("[{name: west, selector: {site: west}, price: {gpu: 2.50}}]", (), id="a pool does not overlap itself"),
    ],
)
def test_a_node_belongs_to_one_pool(installation, pools, errors):
    installation.write("pools: [{name: west, selector: {site: west}}]")
    installation.node("w1", site="west", rack="r1")
    assert installation.plan(f"pools: {pools}").errors == errors


def test_selectors_that_overlap_already_block_nothing_else(installation):
    installation.write("pools: [{name: west, selector: {site: west}}, {name: racked, selector: {rack: r1}}]")
    installation.node("w1", site="west", rack="r1")
    assert installation.plan("pools: [{name: west, selector: {site: west}, backfill_for: 5m}]").errors == ()


@pytest.mark.parametrize(
    ("burst", "keys"),
    [
        ("provider: local, node: {gpus: 1, gpu_model: A}, idle: 5m", []),
        ("provider: local, node: {gpus: 1, gpu_model: A}, offers: [{name: o}], min_life: 1h", ["offers", "min_life"]),
        ("provider: local, node: {gpus: 1, gpu_model: A, containers: false}", ["node.containers"]),
    ],
)
def test_keys_that_older_releases_cannot_read_wait_for_the_level(installation, burst, keys):
    installation.state.terms.level = 2
    message = NOT_YET
    errors = installation.plan(f"pools: [{{name: a, selector: {{x: y}}, burst: {{{burst}}}}}]").errors
    assert errors == tuple(f"pools[0].burst.{key}: {message}" for key in keys)


def test_keys_of_a_policy_that_older_releases_cannot_read_wait_for_the_level(installation):
    installation.state.terms.level = 2
    message = NOT_YET
    text = "groups: [{name: g}]\npolicies: [{name: p, group: g, profiles: [], fair_among: users, per_user: {max_pending: 3}}]"
    found = installation.plan(text).errors
    assert found == tuple(f"policies[0].{key}: {message}" for key in ("fair_among", "per_user"))
    text = "groups: [{name: g}]\npolicies: [{name: p, group: g, profiles: [], idle_after: 30m, idle: yield}]"
    assert installation.plan(text).errors == tuple(f"policies[0].{key}: {message}" for key in ("idle_after", "idle"))
    text = "groups: [{name: g}]\npolicies: [{name: p, group: g, profiles: [], preemption: {on_preempt: requeue_last}}]"
    assert installation.plan(text).errors == (f"policies[0].preemption.on_preempt: {message}",)


def test_the_network_of_containers_waits_for_the_level(installation):
    installation.state.terms.level = 2
    text = (
        "pools: [{name: a, selector: {x: y}}]\n"
        "profiles: [{name: open, request: {gpu: 1}, pools: [a], network: private}, {name: silent, request: {gpu: 1}, pools: [a]}]"
    )
    assert installation.plan(text).errors == (f"profiles[0].network: {NOT_YET}",)
