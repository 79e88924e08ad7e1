"""Whose a node is, and who may use it (R21)."""

from __future__ import annotations

import pytest

from headrace.contracts.documents import model as d
from headrace.domain.model.dedication import COMMON, has_owners, may_use, owner_of, owner_of_new, reach, reach_in
from tests.unit.domain.site import Site, policy, pool

INFERENCE = d.Owner(policy="acme/inference")
ACME = d.Owner(tenant="acme")
RACK = d.Dedication(selector={"rack": "r7"}, to=INFERENCE)
SITE = d.Dedication(selector={"site": "hq"}, to=ACME)


@pytest.mark.parametrize(
    ("written", "labels", "owner"),
    [
        pytest.param({}, {"rack": "r7"}, COMMON, id="nobody's"),
        pytest.param({"dedicated_to": INFERENCE}, {}, "acme/inference", id="the pool is a policy's"),
        pytest.param({"dedicated_to": ACME}, {}, "acme", id="or a tenant's"),
        pytest.param({"dedicated": (RACK,)}, {"rack": "r7", "site": "hq"}, "acme/inference", id="by label"),
        pytest.param({"dedicated": (RACK,)}, {"rack": "r8"}, COMMON, id="another label"),
        pytest.param({"dedicated": (SITE, RACK)}, {"rack": "r7", "site": "hq"}, "acme", id="the first that picks it"),
        pytest.param(
            {"dedicated_to": ACME, "dedicated": (RACK,)}, {"rack": "r7"}, "acme/inference", id="labels before the pool"
        ),
    ],
)
def test_whose_a_node_is(written, labels, owner):
    document = pool(**written)
    assert (owner_of(document, labels), has_owners(document)) == (owner, bool(written))


@pytest.mark.parametrize(
    ("party", "open_to"),
    [
        (("acme", "inference"), ["acme/inference", "acme", COMMON]),
        (("acme", "research"), ["acme", COMMON]),
        (("bcme", "inference"), [COMMON]),
    ],
)
def test_a_policy_uses_its_own_then_its_tenants_then_what_is_open_to_all(party, open_to):
    document = pool(dedicated=(RACK, SITE))
    assert list(reach_in(document, party)) == open_to
    assert [owner for owner in reach(*party) if owner in ("acme/inference", "acme", COMMON)] == open_to
    assert reach_in(pool(), party) == (COMMON,)


def test_a_node_that_is_created_bears_the_labels_by_which_its_pool_selects():  # R38
    by_label = d.Dedication(selector={"pool": "hall"}, to=ACME)
    assert [owner_of_new(pool(**written)) for written in ({}, {"dedicated": (by_label,)}, {"dedicated_to": INFERENCE})] == [
        COMMON,
        "acme",
        "acme/inference",
    ]


def test_who_may_use_a_node_is_asked_of_the_document_and_not_remembered():
    site = Site(policy("dev"))
    site.node("n1", 1)
    node = site.state.nodes["n1"]
    parties = [("acme", "inference"), ("acme", "research"), ("default", "dev")]
    assert [may_use(pool(), node, party) for party in parties] == [True, True, True]
    assert [may_use(pool(dedicated_to=ACME), node, party) for party in parties] == [True, True, False]
    assert [may_use(pool(dedicated_to=INFERENCE), node, party) for party in parties] == [True, False, False]
