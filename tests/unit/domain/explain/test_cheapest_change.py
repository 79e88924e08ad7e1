"""The one cheapest change: each has been tried on the state, which is left as it was (R22)."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, PerUser, PolicyProfile
from headrace.contracts.messages.explanation import ChangeView
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.arrays import ArrayRange
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.cheapest_change import cheapest_change
from headrace.domain.explain.forecast import expected_start
from headrace.domain.explain.wait_reasons import pools_of, wait_of
from tests.unit.domain.site import HALF, Site, gpus, place, policy, pool, profile
from tests.unit.domain.snapshot import differences, snapshot


def cheapest(site, job):
    state, pools = site.state, pools_of(site.state, job)
    before = snapshot(state)
    forecast = expected_start(state, job, pools, site.now)
    found = cheapest_change(state, job, pools, wait_of(state, job, site.now), forecast, site.now)
    assert differences(before, snapshot(state)) == []
    return found


def test_to_wait_a_little_costs_least():
    site = Site()
    site.node(count=2)
    job = site.run("a", place("n1", 0, 1), time_limit=60 * SECOND)
    text = "wait for job default.ann.a to end"
    assert cheapest(site, site.admit("b", "dev/two")) == ChangeView(
        kind="wait", text=text, start=site.now + 60 * SECOND, job=job.key
    )


def test_then_to_ask_for_fewer_gpus_as_many_as_there_are():
    site = Site()
    site.node(count=4)
    site.run("a", place("n1", 0), time_limit=9_999 * SECOND)
    assert cheapest(site, site.admit("b", request=gpus(4))) == ChangeView(
        kind="request", text="ask for 3 gpu instead of 4", start=site.now, pool="hall", request=gpus(3)
    )


@pytest.mark.parametrize("takes_back_first", [False, True])
def test_but_not_where_it_would_take_back_its_own_in_an_earlier_pool_first(takes_back_first):  # R19
    own = policy("own", profiles=(PolicyProfile(name="wide"),), reservation=gpus(2, job=2))
    site = Site(policy(reservation=gpus(0, job=9)), own, pools=(pool(), pool("annex")))
    site.law(profile("wide", gpus(3), pools=("hall", "annex"), reclaim_before_spill=takes_back_first))
    site.node()
    site.node("n2", pool="annex")
    site.run("a", place("n1", 0, 1), queue="dev/two")
    found = cheapest(site, site.admit("b", "own/wide"))
    smaller = ChangeView(kind="request", text="ask for 2 gpu instead of 3", start=site.now, pool="annex", request=gpus(2))
    assert found == (None if takes_back_first else smaller)


def test_or_for_a_part_of_one():
    site = Site()
    site.node(count=1)
    site.run("a", place("n1", 0, units=HALF), queue="dev/half")
    assert cheapest(site, site.admit("b")).request == {GPU: HALF}


def test_then_another_profile_of_the_same_policy():
    site = Site(policy(profiles=(PolicyProfile(name="one"), PolicyProfile(name="cpu"))))
    site.node(count=1)
    site.run("a", place("n1", 0))
    assert cheapest(site, site.admit("b")) == ChangeView(
        kind="queue",
        text="submit it to queue dev/cpu, which gives cpu 2, memory 4GiB",
        start=site.now,
        pool="hall",
        queue="dev/cpu",
    )


def test_then_to_be_preemptible():
    site = Site(policy(profiles=(PolicyProfile(name="one"),), reservation=gpus(1)))
    site.node(count=2)
    site.run("a", place("n1", 0), preemptible=False)
    assert cheapest(site, site.admit("b", preemptible=False)) == ChangeView(
        kind="preemptible", text="submit it as preemptible", start=site.now, pool="hall"
    )


def queues(**other):
    """`dev` is at its limit; `ops` is not."""
    site = Site(policy(profiles=(PolicyProfile(name="one"),), limit=gpus(1)), policy("ops", **other))
    site.node(count=4)
    site.run("a", place("n1", 0))
    return site


def test_then_another_queue_that_its_user_may_use():  # R12
    site = queues()
    assert cheapest(site, site.admit("b")).queue == "ops/one"
    closed = queues(group="few")
    closed.law(Group(tenant="default", name="few", members=("bob",)))
    assert cheapest(closed, closed.admit("b")).kind == "wait"
    assert cheapest(closed, closed.admit("c", user="bob")).queue == "ops/one"


def test_or_one_in_whose_policy_it_would_be_the_first_job_of_its_user():  # R7
    own = policy(profiles=(PolicyProfile(name="gang"),), limit=gpus(2))
    site = Site(own, policy("ops", per_user=PerUser(limit=gpus(2))))
    site.node(count=6)
    site.run("a", place("n1", 0), place("n1", 1, job=False), queue="dev/gang")
    found = cheapest(site, site.admit("b", "dev/gang"))
    assert (found.queue, site.state.policies["default", "ops"].users) == ("ops/gang", {})


def test_at_last_to_wait_for_the_job_that_makes_room_when_nothing_says_when():
    site = Site(policy(profiles=(PolicyProfile(name="two"),)))
    site.node(count=2)
    job = site.run("a", place("n1", 0, 1, units=GPU_UNITS), queue="dev/two")
    site.run("b", place("n1"), queue="dev/two", request={"cpu": 1_000})
    assert cheapest(site, site.admit("c", "dev/two")) == ChangeView(
        kind="wait", text="wait for job default.ann.a to end; nothing says when", pool="hall", job=job.key
    )


def test_work_of_another_tenant_has_no_name():
    site = Site(policy(), policy("theirs", tenant="rival"))
    site.node(count=1)
    site.run("x", place("n1", 0), queue="theirs/one", tenant="rival", user="eve", time_limit=60 * SECOND)
    assert cheapest(site, site.admit("b")) == ChangeView(
        kind="wait", text="wait for work of another tenant to end", start=site.now + 60 * SECOND
    )


def hold_placed(site, job, *places):
    site.append_facts(f.HoldPlacedV1(job=job.key, pool="hall", places=places), by="allocator")


def test_what_is_kept_for_those_before_it_is_not_room_for_anything_smaller():  # R16
    site = Site(policy(profiles=(PolicyProfile(name="two"),)))
    site.node(count=2)
    site.run("r", place("n1", 0), queue="dev/two", request=gpus(1))
    first, second = site.admit("a", "dev/two"), site.admit("b", "dev/two")
    assert cheapest(site, second).request == gpus(1)
    hold_placed(site, first, place("n1", 0, 1))
    assert cheapest(site, second) is None


def test_what_is_kept_for_the_job_itself_is_room_for_the_changed_one_where_no_job_is_before_it():  # R16
    site = Site(policy(profiles=(PolicyProfile(name="two"),)))
    site.node(count=2)
    site.run("r", place("n1", 0), queue="dev/two", request=gpus(1))
    job = site.admit("a", "dev/two")
    hold_placed(site, job, place("n1", 0, 1))
    assert cheapest(site, job).request == gpus(1)
    site.admit("b", "dev/two")
    assert cheapest(site, job).kind == "wait"


def test_nor_is_it_where_a_job_may_go_on_there():  # R29
    site = Site(policy(profiles=(PolicyProfile(name="two"),)))
    site.node(count=2)
    site.run("r", place("n1", 0), queue="dev/two", request=gpus(1))
    asleep = site.run("s", place("n1", 1), queue="dev/two", request=gpus(1))
    site.append_facts(f.LeaseSuspendedV1(job=asleep.key, attempt=1, rank=0, at=site.now), by="node.n1")
    job = site.admit("a", "dev/two")
    hold_placed(site, job, place("n1", 0, 1))
    assert cheapest(site, job).kind == "wait"


def test_the_changed_job_has_no_past():  # R27, R32, R36
    site = Site(policy(profiles=(PolicyProfile(name="two"),)))
    site.node(count=2)
    site.run("r", place("n1", 0), queue="dev/two", request=gpus(1))
    job = site.admit("a", "dev/two")
    job.barred_from, job.avoids, job.avoiding = "hall", {"n1": site.now + SECOND}, ("n1",)
    assert cheapest(site, job).request == gpus(1)


def test_where_nothing_helps_no_way_out_is_named():
    site = Site(policy(profiles=(PolicyProfile(name="one"),)), policy("theirs", tenant="rival"))
    site.node(count=1)
    site.run("x", place("n1", 0), queue="theirs/one", tenant="rival", user="eve")
    assert cheapest(site, site.admit("b")) is None


def test_nothing_helps_the_next_element_of_an_array_whose_bound_is_reached_but_time():
    site = Site()
    site.node(count=4)
    key = "default.ann.01kdvdna000000000000000001"
    spec = ArrayRange(first=0, last=9, at_once=1)
    site.append_facts(f.JobAdmittedV1(job=key, policy="dev", profile="one", request=gpus(1), array=spec), by="admission")
    site.grant(site.state.jobs[f"{key}-000000"], place("n1", 0))
    job = site.state.jobs[f"{key}-000001"]
    assert wait_of(site.state, job, site.now).reason is WaitReason.AT_ARRAY_LIMIT
    assert cheapest(site, job) is None
