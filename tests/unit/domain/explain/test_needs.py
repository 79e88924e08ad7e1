"""What is missing, who goes before, who holds it; of other tenants one entry without a name (R22)."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Share, Tenant
from headrace.contracts.messages.explanation import Holder, KeyNeed, PoolNeed, Waiter
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.domain.explain.expected_ends import ExpectedEnds
from headrace.domain.explain.needs import SHOWN_MAX, holders, pool_need, waiters
from headrace.domain.explain.wait_reasons import wait_of
from tests.unit.domain.site import HALF, Site, gpus, place, policy, pool

ONE = {GPU: GPU_UNITS}


def need(site, job, name="hall"):
    return pool_need(site.state, job, site.state.pools[name], site.now)


def who(site, job):
    state, hall = site.state, site.state.pools["hall"]
    return holders(state, job, hall, wait_of(state, job, site.now), ExpectedEnds(state, site.now))


def test_each_key_is_told_with_what_is_free_and_what_is_missing():
    site = Site()
    site.node(count=2, cpu=2)
    site.run("a", place("n1", 0, 1, cpu=CPU_UNITS))
    assert need(site, site.admit("b", request=gpus(1, cpu=CPU_UNITS))) == PoolNeed(
        pool="hall",
        reason="NO_FREE_CAPACITY",
        message="not enough is free: it asks for cpu 1, gpu 1; gpu 0 free in pool hall",
        fit="sum",
        keys=(
            KeyNeed(key=GPU, asked=GPU_UNITS, free=0, missing=GPU_UNITS, used=2 * GPU_UNITS, capacity=2 * GPU_UNITS),
            KeyNeed(key=CPU, asked=1000, free=1000, used=1000, capacity=2000),
        ),
    )


def test_the_account_that_has_no_room_is_named():
    site = Site(policy(limit=gpus(1)))
    site.node(count=2)
    site.run("a", place("n1", 0))
    found = need(site, site.admit("b"))
    assert (found.reason, found.scope, found.fit) == ("AT_POLICY_LIMIT", "policy default/dev", "yes")


@pytest.mark.parametrize(
    ("queue", "request_", "fit"),
    [
        ("dev/one", gpus(1), "device"),
        ("dev/two", gpus(2), "sum"),
        ("dev/half", {GPU: HALF}, "yes"),
        ("dev/half", {GPU: HALF, CPU: 9 * CPU_UNITS}, "node"),
        ("dev/gang", {GPU: HALF + 1_000}, "sum"),
    ],
)
def test_it_fails_at_the_sum_at_every_node_or_at_every_device(queue, request_, fit):
    site = Site()
    for name in ("n1", "n2"):
        site.node(name, 1, cpu=8)
        site.run(name, place(name, 0, units=HALF), queue="dev/half")
    assert need(site, site.admit("j", queue, request=request_)).fit == fit


def test_own_jobs_before_it_are_listed_best_first_and_others_are_one_entry():
    site = Site(policy(), policy("theirs", tenant="rival", priority=9))
    site.node(count=1)
    site.run("runs", place("n1", 0))
    for number in range(SHOWN_MAX + 2):
        site.admit(f"j{number:02}", priority=number)
    for name in ("x", "y"):
        site.admit(name, "theirs/two", tenant="rival", user="eve")
    listed, more = waiters(site.state, site.admit("last", priority=-1), site.state.pools["hall"])
    own = [Waiter(job=f"default.ann.j{number:02}", request=ONE) for number in range(SHOWN_MAX + 1, 1, -1)]
    assert (listed, more) == ((*own, Waiter(request={GPU: 4 * GPU_UNITS})), 2)


def test_at_a_limit_those_of_the_account_hold_it_wherever_they_run():
    site = Site(policy(limit=gpus(2)), policy("ops"), pools=(pool(), pool("annex")))
    site.node(count=4)
    site.node("n2", 1, pool="annex")
    site.run("a", place("n1", 0))
    site.run("b", place("n2", 0), pool="annex", time_limit=60 * SECOND)
    site.run("other", place("n1", 1), queue="ops/one")
    listed, more = who(site, site.admit("c"))
    assert ([(one.job, one.pool, one.until) for one in listed], more) == (
        [("default.ann.b", "annex", site.now + 60 * SECOND), ("default.ann.a", "hall", None)],
        0,
    )


def test_at_a_tenants_limit_all_its_policies_hold_it():
    share = Share(pool="hall", limit=gpus(1))
    site = Site(policy(), policy("ops"), tenants=(Tenant(name="default", shares=(share,)),))
    site.node(count=4)
    site.run("a", place("n1", 0), queue="ops/one")
    assert [one.job for one in who(site, site.admit("b"))[0]] == ["default.ann.a"]


def test_in_a_full_pool_all_hold_it_and_others_are_one_entry_without_how_many_they_are():
    site = Site(policy(), policy("theirs", tenant="rival"))
    site.node(count=3)
    site.run("a", place("n1", 0))
    for number in (1, 2):
        site.run(f"x{number}", place("n1", number), queue="theirs/one", tenant="rival", user="eve")
    listed, _ = who(site, site.admit("b"))
    assert listed == (
        Holder(job="default.ann.a", request=ONE, pool="hall", nodes=("n1",)),
        Holder(request={GPU: 2 * GPU_UNITS}),
    )


def test_outside_its_window_no_job_holds_what_it_needs():  # R33
    site = Site()
    site.node(count=2)
    site.run("a", place("n1", 0))
    site.append_facts(f.PolicyGatedV1(tenant="default", policy="dev", shut=True), by="allocator")
    assert who(site, site.admit("b")) == ((), 0)
