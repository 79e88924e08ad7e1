from __future__ import annotations

import pytest

from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.governance.objects import applied, placed
from headrace.governance.preview import preview


def after(installation, text):
    facts = [applied(document, "default.admin") for _, document, _ in placed(read_documents(read_tree(text)))]
    return preview(installation.state, facts)


def test_what_is_written_anew_lies_over_what_stays(site):
    site.write("policies: [{name: a, group: all, profiles: [one]}, {name: b, group: all, profiles: [one]}]")
    state = after(site, "policies: [{name: a, group: all, profiles: [three], limit: {gpu: 2}}]")
    assert state.policies["default", "a"].wide.limit == {"gpu": 2 * GPU_UNITS}
    assert state.policies["default", "b"] is site.state.policies["default", "b"]
    assert site.state.policies["default", "a"].wide.limit == {}


def test_a_tenants_shares_are_replaced_as_a_whole(site):
    site.write("tenants: [{name: x, shares: [{pool: west}, {pool: east}]}, {name: y, shares: [{pool: west}]}]")
    assert sorted(after(site, "tenants: [{name: x, shares: [{pool: east}]}]").shares) == [("x", "east"), ("y", "west")]
    assert sorted(site.state.shares) == [("x", "east"), ("x", "west"), ("y", "west")]


@pytest.mark.parametrize(
    ("text", "nodes", "known"),
    [
        ("pools: []", {"west": ["w1"], "east": ["e1"]}, {"west": 10, "east": 4}),
        (
            "pools: [{name: west, selector: {site: west}, capacity: {gpu: 6}}]",
            {"west": ["w1"], "east": ["e1"]},
            {"west": 6, "east": 4},
        ),
        ("pools: [{name: west, selector: {site: east}}]", {"west": [], "east": ["e1"]}, {"west": 0, "east": 4}),
        (
            "pools: [{name: a, selector: {site: west}}]",
            {"a": ["w1"], "west": [], "east": ["e1"]},
            {"a": 10, "west": 0, "east": 4},
        ),
    ],
)
def test_nodes_go_where_the_selectors_lead_them(site, text, nodes, known):
    state = after(site, text)
    assert {name: sorted(pool.nodes) for name, pool in state.pools.items()} == nodes
    assert {name: pool.known["gpu"] // GPU_UNITS for name, pool in state.pools.items()} == known


def test_a_node_that_holds_leases_stays(site):
    site.write("policies: [{name: a, group: all, profiles: [one]}]")
    site.job("a/one", on="w1")
    assert sorted(after(site, "pools: [{name: a, selector: {site: west}}]").pools["west"].nodes) == ["w1"]


@pytest.mark.parametrize(
    "text",
    [
        "pools: [{name: west, selector: {site: west}, capacity: {gpu: 6}}, {name: a, selector: {site: west}}]",
        "pools: [{name: west, selector: {site: east}}, {name: z, selector: {site: west}}]",
        "tenants: [{name: x, shares: [{pool: west, reservation: {gpu: 2}}]}]",
        "policies: [{name: a, group: all, profiles: [one], per_pool: {west: {limit: {gpu: 3}}}}]",
    ],
)
def test_it_is_what_the_fold_makes_of_the_same_documents(site, text):
    foreseen = after(site, text)
    site.write(text)
    state = site.state
    assert {name: sorted(pool.nodes) for name, pool in foreseen.pools.items()} == {
        name: sorted(pool.nodes) for name, pool in state.pools.items()
    }
    assert {name: (pool.known, pool.usable, pool.governed) for name, pool in foreseen.pools.items()} == {
        name: (pool.known, pool.usable, pool.governed) for name, pool in state.pools.items()
    }
    assert {place: (share.reservation, share.limit) for place, share in foreseen.shares.items()} == {
        place: (share.reservation, share.limit) for place, share in state.shares.items()
    }
    assert {key: policy.document for key, policy in foreseen.policies.items()} == {
        key: policy.document for key, policy in state.policies.items()
    }
