from __future__ import annotations

import pytest


@pytest.fixture
def busy(site):
    """rnd holds 3 in west and waits with 3; web holds 1 in west, 1 in east, and waits with 1."""
    site.write(
        """
        tenants: [{name: acme}]
        groups: [{tenant: acme, name: all, members: [ann]}]
        policies:
          - {name: rnd, group: all, profiles: [three, one], limit: {gpu: 9}}
          - {tenant: acme, name: web, group: all, profiles: [both]}
        """
    )
    site.job("rnd/three", 3, on="w1")
    site.job("rnd/three", 3)
    site.job("web/both", tenant="acme", on="w1")
    site.job("web/both", tenant="acme", on="e1")
    site.job("web/both", tenant="acme")
    return site


@pytest.mark.parametrize(
    ("text", "running", "pending"),
    [
        pytest.param("policies: [{name: rnd, group: all, profiles: [three, one], limit: {gpu: 8}}]", 1, 1, id="a policy"),
        pytest.param("policies: [{name: rnd, group: all, profiles: [three, one], limit: {gpu: 9}}]", 0, 0, id="kept as it is"),
        pytest.param("policies: [{name: new, group: all, profiles: [three]}]", 0, 0, id="a new policy"),
        pytest.param("profiles: [{name: both, request: {gpu: 1}, pools: [east]}]", 2, 1, id="a profile"),
        pytest.param("profiles: [{name: one, request: {gpu: 2}, pools: [west]}]", 0, 0, id="a profile nobody uses now"),
        pytest.param("pools: [{name: west, selector: {site: west}, backfill_for: 5m}]", 3, 2, id="a pool"),
        pytest.param("pools: [{name: north, selector: {site: north}}]", 0, 0, id="a new pool"),
        pytest.param("tenants: [{name: acme, shares: [{pool: east}]}]", 2, 1, id="a new share"),
        pytest.param("tenants: [{name: acme, display_name: Acme}]", 0, 0, id="a name to show"),
        pytest.param("groups: [{name: all, members: []}]", 0, 0, id="a group"),
        pytest.param("users: [{handle: ann}]", 0, 0, id="a user"),
    ],
)
def test_jobs_under_what_changes_are_counted(busy, text, running, pending):
    plan = busy.plan(text)
    assert plan.errors == ()
    assert (plan.running, plan.pending) == (running, pending)


def test_a_profile_that_leads_elsewhere_still_touches_what_holds_its_old_pool(busy):
    busy.write("profiles: [{name: both, request: {gpu: 1}, pools: [east]}]")
    plan = busy.plan("pools: [{name: west, selector: {site: west}, backfill_for: 5m}]")
    assert (plan.running, plan.pending) == (2, 1)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "policies: [{name: rnd, group: all, profiles: [one], limit: {gpu: 9}}]",
            "queue default/rnd/three: PENDING_REJECTED: 1 pending job can then never run: QUEUE_DELETED: the queue is gone",
        ),
        (
            "policies: [{name: rnd, group: all, profiles: [three, one], limit: {gpu: 2}}]",
            (
                "queue default/rnd/three: PENDING_REJECTED: 1 pending job can then never run: EXCEEDS_POLICY_LIMIT: "
                "it asks for 3 gpu, the limit of policy default/rnd is 2"
            ),
        ),
        (
            "pools: [{name: west, selector: {site: west}, capacity: {gpu: 2}}]",
            (
                "queue default/rnd/three: PENDING_REJECTED: 1 pending job can then never run: EXCEEDS_POOL_CAPACITY: "
                "it asks for 3 gpu, pool west has 2"
            ),
        ),
        (
            "tenants: [{name: acme, shares: [{pool: west, limit: {gpu: 0}}, {pool: east, limit: {gpu: 0}}]}]",
            (
                "queue acme/web/both: PENDING_REJECTED: 1 pending job can then never run: EXCEEDS_TENANT_LIMIT: "
                "it asks for 1 gpu, the limit of tenant acme in pool west is 0"
            ),
        ),
    ],
)
def test_pending_jobs_that_will_be_rejected_are_told_of(busy, text, warning):
    plan = busy.plan(text)
    assert plan.errors == ()
    assert [line for line in plan.warnings if "PENDING_REJECTED" in line] == [warning]


def test_several_are_one_line(busy):
    busy.job("rnd/three", 3)
    plan = busy.plan("policies: [{name: rnd, group: all, profiles: [one], limit: {gpu: 9}}]")
    assert plan.warnings == (
        "queue default/rnd/three: PENDING_REJECTED: 2 pending jobs can then never run: QUEUE_DELETED: the queue is gone",
    )
