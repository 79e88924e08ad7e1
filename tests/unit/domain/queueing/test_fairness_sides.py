"""The accounts that a reclaim compares (R23, R24)."""

from __future__ import annotations

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.queueing.fairness_sides import lends, lends_as, share_side, side_below, stays_within
from tests.unit.domain.site import Site, place, policy


def test_in_one_tenant_the_policies_are_the_sides_and_across_tenants_shares_that_reserve_something():
    share = d.Share(pool="hall", reservation={GPU: GPU_UNITS}, limit={})
    site = Site(policy("dev", reservation={GPU: GPU_UNITS}), policy("ops"))
    site.law(d.Tenant(name="default", shares=(share,)), d.Tenant(name="acme"), policy("far", tenant="acme"))
    dev, ops, far = (site.state.policies[key] for key in (("default", "dev"), ("default", "ops"), ("acme", "far")))
    hall, mine = site.state.pools["hall"], site.state.shares["default", "hall"]

    assert side_below(site.state, dev, ops, hall) == lends_as(site.state, dev, ops, hall) == (dev.wide,)
    assert side_below(site.state, dev, far, hall) == lends_as(site.state, dev, far, hall) == (mine,)
    assert (share_side(site.state, dev, hall), share_side(site.state, far, hall)) == ((mine,), ())


def test_a_side_stays_within_on_every_key_of_the_request_and_lends_what_is_above():
    site = Site(policy("dev", reservation={GPU: GPU_UNITS}), policy("ops"))
    site.node("n1", 4)
    dev, ops, hall = site.state.policies["default", "dev"], site.state.policies["default", "ops"], site.state.pools["hall"]
    one, two = site.admit("a", "dev/one"), site.admit("b", "dev/two")

    assert [stays_within((dev.wide,), job, hall) for job in (one, two)] == [True, False]
    assert not lends(site.state, dev, ops, hall)
    site.run("c", place("n1", 0), queue="dev/one")
    assert not lends(site.state, dev, ops, hall)
    site.run("e", place("n1", 1), queue="dev/one")
    assert (lends(site.state, dev, ops, hall), lends(site.state, dev, dev, hall)) == (True, False)
