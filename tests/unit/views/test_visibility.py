"""Who may see what."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Access, Dedication, Owner, Pool, Profile
from headrace.views.visibility import hide_others, pool_for, profile_for, sees_node, sees_pool, tenants_of


@pytest.mark.parametrize(
    ("pool", "seen"),
    [
        ({}, True),
        ({"access": Access(allow=("acme",))}, True),
        ({"access": Access(allow=("acme/dev",))}, True),
        ({"access": Access(allow=("rival", "acme-two"))}, False),
        ({"access": Access(deny=("acme",))}, False),
        ({"access": Access(deny=("acme/dev", "rival"))}, True),
        ({"dedicated_to": Owner(tenant="acme")}, True),
        ({"dedicated_to": Owner(policy="acme/dev")}, True),
        ({"dedicated_to": Owner(tenant="rival")}, False),
        ({"dedicated_to": Owner(policy="acme-two/dev")}, False),
    ],
)
def test_a_tenant_sees_the_pools_it_may_use(pool, seen):
    assert sees_pool("acme", Pool(name="hall", selector={}, **pool)) is seen


def test_a_node_is_seen_by_who_sees_its_pool_and_without_a_pool_by_all(hall):
    node = hall.state.nodes["gpu01"]
    assert sees_node(hall.state, "acme", node)
    closed = Pool(name="hall", selector={"site": "hq"}, access=Access(allow=("rival",)))
    hall.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=closed))
    assert (sees_node(hall.state, "acme", node), sees_node(hall.state, "rival", node)) == (False, True)
    node.pool = ""
    assert sees_node(hall.state, "acme", node)


def test_all_means_the_tenants_there_are_and_the_default_one(hall):
    assert tenants_of(hall.state) == ("acme", "default", "rival")


def test_a_pool_is_shown_without_others_names(hall):
    pool = Pool(
        name="hall",
        selector={"site": "hq"},
        profile_order=("one", "secret"),
        access=Access(allow=("acme", "rival")),
        dedicated=(
            Dedication(selector={"rack": "1"}, to=Owner(tenant="rival")),
            Dedication(selector={"rack": "2"}, to=Owner(policy="acme/dev")),
        ),
        price={"gpu": "2.50"},
    )
    hall.append_facts(
        "governance",
        f.ProfileAppliedV1(author="a.b", profile=Profile(tenant="rival", name="secret", request={}, pools=("hall",))),
    )
    assert pool_for(hall.state, "acme", pool) == {
        "name": "hall",
        "selector": {"site": "hq"},
        "profile_order": ["one"],
        "dedicated": [{"selector": {"rack": "2"}, "to": {"policy": "acme/dev"}}],
        "price": {"gpu": "2.50"},
    }


def test_a_profile_is_shown_without_others_policies(hall):
    profile = Profile(name="one", request={"gpu": 1}, pools=("hall",), policy_order=("rival/dev", "acme/dev", "hidden"))
    assert profile_for(hall.state, "acme", profile) == {
        "name": "one",
        "request": {"gpu": 1},
        "pools": ("hall",),
        "policy_order": ["dev"],
    }


def test_sentences_lose_the_names_of_others_jobs(hall):
    own, other = hall.job(1), hall.job(2, tenant="rival", user="mallory")
    assert hide_others(f"for {other}, not {own}@7", "acme") == f"for a job of another tenant, not {own}@7"
    assert hide_others(f"for {hall.job(3, user='bob')}", "acme") == f"for {hall.job(3, user='bob')}"
