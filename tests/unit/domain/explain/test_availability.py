"""What of a pool's keys is used, kept, free and unusable, for what cause, by whom and since when (R6, R22)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.messages.explanation import ChangeView, UnusableView
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.availability import Stock, free_on, named, stocks, stocks_for, sums_fit
from headrace.domain.explain.explain import explain
from headrace.domain.explain.wait_reasons import wait_of
from tests.unit.domain.hall import Hall
from tests.unit.domain.site import GIB, HALF, START, Site, gpus, place, policy, pool, profile

SINCE = "1970-01-12T13:46:40.000Z"


def unusable(node: str, cause: str, gpu: int = 1, **more: object) -> UnusableView:
    """A number of GPUs of a node, since the test's start."""
    return UnusableView(**{"key": GPU, "node": node, "cause": cause, "amount": gpu * GPU_UNITS, "since": START, **more})


def has(site: Site, key: str = GPU, name: str = "hall") -> Stock:
    """What there is of a key."""
    return stocks(site.state, site.state.pools[name], [key])[key]


def whole(stock: Stock) -> tuple[int, ...]:
    """Used, kept, free, unusable and capacity in GPUs."""
    numbers = stock.used, stock.kept, stock.free, stock.unusable, stock.capacity
    assert not any(number % GPU_UNITS for number in numbers)
    return tuple(number // GPU_UNITS for number in numbers)


CORDONED = f.NodeCordonedV1(author="default.olga", reason="new fans", node="n2")
DRAINED = f.NodeDrainOrderedV1(author="default.olga", node="n2")


@pytest.mark.parametrize(
    ("by", "facts", "cause", "more"),
    [
        ("governance", (CORDONED,), "cordoned", {"by": "default.olga"}),
        ("governance", (DRAINED,), "drained", {"by": "default.olga"}),
        ("allocator", (f.NodeSetAsideV1(node="n2", reason="it refused", until=START + MINUTE),), "refusing", {}),
        ("node.n2", (f.NodeStoppedV1(node="n2", at=START),), "stopped", {}),
        ("preemption", (f.NodeLostV1(node="n2", silent_for=60 * SECOND),), "lost", {}),
    ],
)
def test_what_is_idle_on_a_node_out_of_service_is_unusable_for_one_cause(by, facts, cause, more):
    site = Site()
    site.node("n1", 2)
    site.node("n2", 3)
    site.append_facts(*facts, by=by)

    stock = has(site)

    assert whole(stock) == (0, 0, 2, 3, 5)
    assert stock.causes == (unusable("n2", cause, 3, **more),)
    assert [free_on(site.state.nodes["n2"], key) for key in (GPU, CPU, MEMORY)] == [0, 0, 0]
    assert [free_on(site.state.nodes["n1"], key) for key in (GPU, CPU, MEMORY)] == [2 * GPU_UNITS, 16 * CPU_UNITS, 64 * GIB]


def test_a_node_is_draining_while_jobs_are_on_it_and_what_they_hold_is_used():
    site = Site()
    site.node("n2", 2)
    site.run("a", place("n2", 0))
    site.append_facts(DRAINED)
    assert (whole(has(site)), has(site).causes) == ((1, 0, 0, 1, 2), (unusable("n2", "draining", by="default.olga"),))


def test_an_uncordoned_node_is_free_again():
    site = Site()
    site.node("n2", 2)
    site.append_facts(CORDONED)
    site.append_facts(f.NodeUncordonedV1(author="default.olga", node="n2"))
    assert (whole(has(site)), has(site).causes) == ((0, 0, 2, 0, 2), ())


def test_an_unfit_device_is_unusable_and_named():
    site = Site()
    site.node("n1", 2)
    site.append_facts(f.DeviceDrainedV1(node="n1", device="gpu1", cause="xid", message="Xid 79", at=START), by="node.n1")
    assert whole(has(site)) == (0, 0, 1, 1, 2)
    assert has(site).causes == (unusable("n1", "unfit", by="n1", detail="gpu1"),)
    assert free_on(site.state.nodes["n1"], GPU) == GPU_UNITS


def test_a_device_that_changed_its_mode_under_a_job_takes_nothing():
    site = Site(policy(), pools=(pool(),))
    site.node("n1", 1)
    site.run("a", place("n1", 0, units=HALF), queue="dev/half")
    site.node("n1", 1, model="A100-SXM4-80GB", mig=True)
    stock = has(site)
    assert (stock.used, stock.kept, stock.free, stock.unusable) == (HALF, 0, 0, HALF)
    assert [one.cause for one in stock.causes] == ["mig-mode"]
    assert free_on(site.state.nodes["n1"], GPU) == 0


def test_what_leases_on_a_lost_node_hold_is_used_and_as_much_is_out_of_reach_elsewhere():  # R6: assignment stays below usable capacity
    site = Site()
    site.node("n1", 2)
    site.node("n2", 2)
    site.run("a", place("n2", 0))
    site.append_facts(f.NodeLostV1(node="n2", silent_for=60 * SECOND), by="preemption")
    assert whole(has(site)) == (1, 0, 1, 2, 4)
    assert [(one.node, one.cause, one.amount // GPU_UNITS) for one in has(site).causes] == [
        ("n2", "lost", 1),
        ("n2", "lost", 1),
    ]


def test_under_a_ceiling_no_more_is_unusable_than_is_missing_from_it():
    site = Site(pools=(pool(capacity=gpus(3)),))
    site.node("n1", 2)
    site.node("n2", 2)
    site.append_facts(CORDONED)
    assert (whole(has(site)), has(site).causes) == ((0, 0, 2, 1, 3), (unusable("n2", "cordoned", by="default.olga"),))


def test_what_a_bursting_pool_may_still_create_is_not_created():
    burst = d.Burst(provider="ec2", max_nodes=3, node=d.BurstNode(gpus=4, gpu_model="H100"))
    site = Site(pools=(pool(burst=burst),))
    site.node("n1", 4)
    assert whole(has(site)) == (0, 0, 4, 8, 12)
    assert has(site).causes == (unusable("", "not-created", 8, since=0),)


def test_of_a_pool_that_was_made_smaller_more_may_be_used_than_there_is():
    site = Site()
    site.node("n1", 2)
    site.run("a", place("n1", 0, 1), queue="dev/two")
    site.law(pool(capacity=gpus(1)))
    assert whole(has(site)) == (2, 0, 0, 0, 1)


def test_what_is_nominated_is_kept_as_far_as_no_victim_holds_it():  # R27, R37
    site = Site(policy("dev"), policy("ops"))
    site.node("n1", 3)
    victim = site.run("a", place("n1", 0))
    preemptor = site.admit("b", queue="ops/two")
    site.order(preemptor, (victim,), place("n1", 0, 1))
    assert whole(has(site)) == (1, 1, 1, 0, 3)


def test_what_is_held_back_for_a_job_that_waited_long_is_kept():  # R16
    site = Site(policy("dev"), policy("ops"))
    site.node("n1", 3)
    waits = site.admit("b", queue="ops/two")
    site.append_facts(f.HoldPlacedV1(job=waits.key, pool="hall", places=(place("n1", 0, 1),)), by="allocator")
    later = site.admit("c")
    assert whole(has(site)) == (0, 2, 1, 0, 3)
    hall = site.state.pools["hall"]
    assert [stocks_for(site.state, job, hall, [GPU])[GPU].free // GPU_UNITS for job in (waits, later)] == [3, 1]


def test_slices_count_with_their_charge_and_a_key_of_no_node_is_never_unusable():
    site = Site(pools=(pool(capacity={"license/x": 3}),))
    site.law(profile("slice", {GPU: 0}, mig="3g.40gb"))
    site.node("n1", 1, model="H100-80GB", mig=True)
    site.append_facts(f.NodeCordonedV1(author="default.olga", node="n1"))
    assert (whole(has(site)), has(site, "license/x")) == ((0, 0, 0, 1, 1), Stock(3, 0, 0, 3, 0))


@pytest.mark.parametrize(
    ("owner", "cause", "detail"),
    [
        ("model", "model", "A100"),
        ("dedicated", "dedicated", ""),
        ("excluded", "excluded", "left alone until 1970-01-12T13:47:40.000Z"),
        ("isolation", "isolation", ""),
        ("container", "container", "it has no container engine, Podman or Docker"),
        ("container-gpus", "container", "its container engine cannot give them GPUs"),
    ],
)
def test_for_one_job_what_does_not_suit_it_is_unusable_as_well(owner, cause, detail):
    given = (d.Dedication(selector={"pool": "hall", "rack": "r"}, to=d.Owner(policy="default/ops")),)
    site = Site(policy(), policy("ops"), pools=(pool(dedicated=given),))
    site.law(profile("one", gpu_models=("H100",)))
    site.node("n1", 1)
    site.node("n2", 1, model="A100" if owner == "model" else "H100")
    job = site.admit("j")
    node = site.state.nodes["n2"]
    if owner == "dedicated":
        node.labels["rack"] = "r"
    elif owner == "excluded":
        job.avoids, job.avoiding = {"n2": START + MINUTE}, ("n2",)
    elif owner == "isolation":
        shape(job, isolation=9)
        site.state.nodes["n1"].levels = site.state.nodes["n1"].levels._replace(whole=9)
    elif owner.startswith("container"):
        shape(job, contained=True)
        site.state.nodes["n1"].levels = site.state.nodes["n1"].levels._replace(container_whole=0)
        node.levels = node.levels._replace(container=-1 if owner == "container" else 0, container_whole=-1)
    hall = site.state.pools["hall"]

    stock = stocks_for(site.state, job, hall, [GPU])[GPU]

    assert (stock.free // GPU_UNITS, stock.unusable // GPU_UNITS) == (1, 1)
    assert stock.causes == (unusable("n2", cause, since=0, detail=detail),)
    assert whole(has(site)) == (0, 0, 2, 0, 2), "for everybody both are free"
    assert sums_fit(site.state, job, hall)


def shape(job, **changes) -> None:
    """The job asks for more."""
    job.request = replace(job.request, shape=job.request.shape._replace(**changes))


def test_a_message_names_the_first_few_nodes():
    causes = [unusable(f"n{number}", "cordoned", by="default.olga") for number in range(1, 6)]
    assert named(causes[:1]) == f"1 gpu on n1: cordoned by default.olga since {SINCE}"
    assert named(causes).endswith("; and 2 more")
    assert named([unusable("", "not-created", 8, since=0)]) == "8 gpu: not created yet"
    assert named([]) == ""


def waiting_beside_a_cordoned_node() -> tuple[Site, object, object]:
    site = Site(policy(profiles=(d.PolicyProfile(name="one"),)))
    site.node("n1", 1)
    site.node("n2", 1)
    other = site.run("other", place("n1", 0))
    site.append_facts(CORDONED)
    return site, other, site.admit("j")


def test_a_job_beside_a_cordoned_node_is_told_who_cordoned_it_and_to_ask_for_it():
    site, other, job = waiting_beside_a_cordoned_node()
    wait = wait_of(site.state, job, site.now)
    explanation = explain(site.state, job, site.now)

    assert (wait.reason, wait.numbers) == (
        WaitReason.NO_FREE_CAPACITY,
        "it asks for gpu 1; gpu 0 free in pool hall; unusable: 1 gpu on n2: cordoned by default.olga since " + SINCE,
    )
    assert explanation.cheapest == ChangeView(
        kind="node",
        text=f"ask for node n2 to be uncordoned (cordoned by default.olga since {SINCE})",
        start=site.now,
        pool="hall",
    )
    assert [one.fit for one in explanation.pools] == ["sum"]
    assert explanation.pools[0].unusable == (unusable("n2", "cordoned", by="default.olga"),)
    assert explanation.blockers == (other.key,)


def test_who_holds_a_gpu_of_a_cordoned_node_is_in_no_ones_way():
    site = Site()
    site.node("n1", 1)
    site.node("n2", 1)
    site.run("there", place("n2", 0))
    here = site.run("here", place("n1", 0))
    site.append_facts(CORDONED)
    assert explain(site.state, site.admit("j"), site.now).blockers == (here.key,)


def test_of_a_governed_model_what_is_used_kept_free_and_unusable_is_the_capacity():  # R6, R43
    hall = Hall(nodes=2, devices=4, capacity={"gpu:H100-80GB": 8 * GPU_UNITS, "gpu:A100": GPU_UNITS})
    hall.node("other", 1, model="A100")
    hall.policy("dev")
    hall.run("dev", "before", ("n1", 0, 1))  # charged by no model: granted before the pool governed it
    hall.append_facts("governance", f.NodeCordonedV1(author="a.b", node="n2", reason="fan"))
    found = stocks(hall.state, hall.pool, ["gpu:H100-80GB", "gpu:A100"])
    assert {key: whole(stock) for key, stock in found.items()} == {
        "gpu:H100-80GB": (1, 0, 3, 4, 8),
        "gpu:A100": (0, 0, 1, 0, 1),
    }
