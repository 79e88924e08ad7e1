"""Where a job would go if everything that may end there had ended (R16)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import MINUTE
from headrace.domain.backfill import backfill_placement
from headrace.domain.backfill.backfill_placement import awaited_places, occupants, still_awaited
from tests.unit.domain.site import HALF, Site, gpus, place, policy, pool, profile, slice_at


def spots(site: Site, job) -> list[tuple[str, list[str]]] | None:
    places = awaited_places(site.state, job, site.state.pools["hall"])
    return None if places is None else [(spot.node, [share.device for share in spot.devices]) for spot in places]


def test_what_is_free_already_is_kept_first_then_what_is_known_to_end_soonest():
    site = Site()
    site.node("n1", 4)
    for number, limit in ((0, None), (1, 30 * MINUTE), (2, 10 * MINUTE)):
        site.run(f"r{number}", place("n1", number), time_limit=limit)
    waiting = site.admit("w", "dev/two")

    assert spots(site, waiting) == [("n1", ["gpu2", "gpu3"])]


def test_the_node_with_the_least_to_wait_for_is_taken_and_of_equals_the_first_by_name():
    site = Site()
    for name in ("n2", "n1", "n3"):
        site.node(name, 4)
    for name, count in (("n1", 4), ("n2", 3), ("n3", 3)):
        for number in range(count):
            site.run(f"{name}{number}", place(name, number))

    assert spots(site, site.admit("w", "dev/two")) == [("n2", ["gpu0", "gpu3"])]


@pytest.mark.parametrize(
    ("fields", "there"),
    [
        ({"preemptible": False}, False),
        ({"preemptible": False, "time_limit": MINUTE}, True),
        ({"preemptible": True}, True),
    ],
)
def test_what_is_neither_preemptible_nor_limited_in_time_stays(fields, there):
    site = Site()
    site.node("n1", 1)
    site.run("r", place("n1", 0), **fields)

    assert spots(site, site.admit("w")) == ([("n1", ["gpu0"])] if there else None)


def test_what_is_told_to_stop_is_waited_for_whatever_it_is():
    site = Site()
    site.node("n1", 1)
    job = site.run("r", place("n1", 0), preemptible=False)
    site.stop(job, "cancelled")

    assert spots(site, site.admit("w")) == [("n1", ["gpu0"])]
    job.leases[0].overdue = True
    assert spots(site, site.admit("v")) is None


def test_the_replicas_of_a_gang_may_go_to_several_nodes_and_all_of_them_have_to():
    site = Site()
    site.node("n1", 1)
    site.node("n2", 1)
    site.run("r", place("n2", 0))
    gang = site.admit("g", "dev/gang")
    assert spots(site, gang) == [("n1", ["gpu0"]), ("n2", ["gpu0"])]
    assert [spot.amounts.get(JOB) for spot in awaited_places(site.state, gang, site.state.pools["hall"])] == [1, None]

    site.state.nodes["n1"].cordoned = "c"
    assert spots(site, gang) is None


def test_a_fraction_is_kept_where_the_least_is_missing():
    site = Site()
    site.node("n1", 2)
    site.run("r", place("n1", 0))
    site.run("h", place("n1", 1, units=HALF))
    site.run("i", place("n1", 1, units=HALF))
    assert spots(site, site.admit("w", "dev/half")) == [("n1", ["gpu0"])]
    site.leave(site.state.jobs["default.ann.i"])

    assert spots(site, site.admit("v", "dev/half")) == [("n1", ["gpu1"])]


def test_cpu_and_the_ceilings_of_the_pool_are_looked_at_too():
    site = Site(pools=(pool(capacity={GPU: gpus(1)[GPU]}),))
    site.node("n1", 2)
    assert spots(site, site.admit("w", "dev/two")) is None

    site.run("r", place("n1", 0), preemptible=False)
    assert spots(site, site.admit("v")) is None
    big = site.admit("c", "dev/cpu", request={CPU: 1_000 * CPU_UNITS})
    assert spots(site, big) is None


def test_what_is_kept_is_awaited_until_something_that_stays_is_there_or_the_node_is_not():
    site = Site()
    site.node("n1", 2)
    site.run("r", place("n1", 0))
    hall, kept = site.state.pools["hall"], (place("n1", 0), place("n1", 1))
    seen = [still_awaited(hall, kept)]
    stays = site.run("s", place("n1", 1), preemptible=False)
    seen.append(still_awaited(hall, kept))
    site.stop(stays, "cancelled")
    seen.append(still_awaited(hall, kept))
    site.state.nodes["n1"].status = "lost"
    seen += [still_awaited(hall, kept), still_awaited(hall, (place("gone", 0),))]

    assert seen == [True, False, True, False, False]


def test_what_is_nominated_on_a_device_whose_lease_is_overdue_does_not_end_what_is_kept_on_another():
    site = Site()
    site.node("n1", 3)
    stuck = site.run("s", place("n1", 0))
    site.run("r", place("n1", 1))
    site.order(site.admit("p"), (stuck,), place("n1", 0))
    site.stop(stuck)
    stuck.leases[0].overdue = True
    hall = site.state.pools["hall"]

    places = awaited_places(site.state, site.admit("w"), hall)

    assert [share.device for spot in places for share in spot.devices] == ["gpu2"]
    assert still_awaited(hall, places)


RUNNING = st.tuples(
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from([GPU_UNITS, HALF]),
    st.booleans(),
    st.sampled_from([None, MINUTE, 2 * MINUTE]),
    st.sampled_from(["runs", "runs", "stops", "overruns"]),
)


@given(st.lists(RUNNING, max_size=30), st.sampled_from(["one", "two", "half", "gang", "cpu"]), st.booleans())
def test_the_places_are_those_of_a_look_at_every_node(running, wanted, capped):  # R16, with nothing left out
    capacity = {GPU: 20 * GPU_UNITS} if capped else {}
    site = Site(pools=(pool(capacity=capacity),))
    for number in range(6):
        site.node(f"n{number}", 4 - number % 2)
    for number, (node, device, units, preemptible, limit, how) in enumerate(running):
        there = site.state.nodes[f"n{node}"].devices
        if device < len(there) and there[device].free >= units:
            spot = place(f"n{node}", device, units=units)
            job = site.run(f"r{number}", spot, preemptible=preemptible, time_limit=limit)
            if how != "runs":
                site.stop(job, "cancelled")
            if how == "overruns":
                overdue = f.LeaseOverdueV1(job=job.key, attempt=job.attempt, rank=0, node=spot.node)
                site.append_facts(overdue, by="preemption")
    waiting, hall = site.admit("w", f"dev/{wanted}"), site.state.pools["hall"]

    assert awaited_places(site.state, waiting, hall) == by_looking_at_all(waiting, hall)


def by_looking_at_all(job, hall):
    """The same, all nodes one by one, and best first after each replica."""
    stays = backfill_placement.Stays(hall, occupants)
    offers = {
        node.name: backfill_placement.Prospect(node, job.request.shape, tuple(occupants(node)))
        for node in hall.nodes.values()
        if backfill_placement.may_hold(hall, node, job)
    }
    places = []
    for rank in range(job.request.replicas):
        fitting = [(offer.wait, name) for name, offer in offers.items() if offer.wait is not None]
        if not fitting or not stays.allows(job.request.total, sliced=False):
            return None
        _, name = min(fitting)
        amounts = job.request.lease_amounts(rank)
        places.append(Place(node=name, devices=offers[name].take(amounts.get(GPU, 0)), amounts=amounts))
    return tuple(places)


def test_only_nodes_are_looked_at_that_may_need_the_least_to_come_free(monkeypatch):  # P3
    site = Site()
    for number in range(40):
        site.node(f"n{number:02}", 4)
        for device in range(3 if number in (7, 23) else 4):
            site.run(f"r{number}-{device}", place(f"n{number:02}", device))
    looked_at = []
    monkeypatch.setattr(
        backfill_placement, "Prospect", lambda node, *rest: looked_at.append(node.name) or prospect(node, *rest)
    )

    assert spots(site, site.admit("w", "dev/two")) == [("n07", ["gpu0", "gpu3"])]
    assert looked_at == ["n07"]


prospect = backfill_placement.Prospect


ONE, SEVENTH = "1g.10gb", GPU_UNITS // 7


def cut(count: int = 1, **fields: object) -> Site:
    """GPUs in slices, and profiles of a seventh and a half of one."""
    site = Site(**fields)
    site.law(profile("seventh", {GPU: SEVENTH}, mig=ONE), profile("part", {GPU: HALF}, mig="3g.40gb"))
    site.law(policy("dev", profiles=(d.PolicyProfile(name="seventh"), d.PolicyProfile(name="part"))))
    site.node("n1", count, model="H100-80GB", mig=True)
    return site


def lie(site: Site, name: str, start: int, device: int = 0, kind: str = ONE, units: int = SEVENTH, **fields: object):
    return site.run(name, slice_at("n1", kind, start, units, device), queue="dev/seventh", mig=kind, **fields)


def parts(site: Site, job) -> list[tuple[str, int]] | None:
    places = awaited_places(site.state, job, site.state.pools["hall"])
    return None if places is None else [(share.device, share.start) for spot in places for share in spot.devices]


def test_a_slice_is_kept_where_the_least_lies_in_its_run_and_then_where_that_ends_first():  # R4
    site = cut(count=2)
    for device, start, limit in ((0, 0, None), (0, 1, None), (0, 4, 10), (1, 0, None), (1, 5, 5)):
        lie(site, f"s{device}{start}", start, device, time_limit=limit and limit * MINUTE)
    assert parts(site, site.admit("a", "dev/part", mig="3g.40gb")) == [("gpu1", 4)]

    lie(site, "s16", 6, 1, time_limit=5 * MINUTE)
    assert parts(site, site.admit("b", "dev/part", mig="3g.40gb")) == [("gpu0", 4)]


def test_a_slice_that_stays_is_in_the_way_of_all_that_would_lie_over_it():
    site = cut()
    lie(site, "firm", 5, preemptible=False)
    lie(site, "lent", 0)
    assert parts(site, site.admit("a", "dev/part", mig="3g.40gb")) == [("gpu0", 0)]

    lie(site, "other", 1, preemptible=False)
    assert parts(site, site.admit("b", "dev/part", mig="3g.40gb")) is None


def test_where_not_the_room_but_the_engine_is_taken_its_holder_is_waited_for():
    site = cut()
    lie(site, "me", 0, kind=f"{ONE}+me")
    places = awaited_places(site.state, site.admit("a", "dev/seventh", mig=f"{ONE}+me"), site.state.pools["hall"])

    assert [(share.device, share.start) for spot in places for share in spot.devices] == [("gpu0", 6)]


def test_the_replicas_of_a_gang_of_slices_lie_beside_each_other():
    site = cut(count=2)
    lie(site, "s", 0)
    lie(site, "t", 0, 1)
    gang = site.admit("g", "dev/part", mig="3g.40gb", replicas=3)

    assert parts(site, gang) == [("gpu0", 4), ("gpu1", 4), ("gpu0", 0)]


def test_a_cut_gpu_counts_once_in_the_pools_sum_whatever_its_slices_are_charged():  # R4
    for ceiling, found in ((GPU_UNITS, [("gpu0", 4)]), (GPU_UNITS - 1, None)):
        site = cut(pools=(pool(capacity={GPU: ceiling}),))
        lie(site, "four", 0, kind="4g.40gb", units=4 * SEVENTH, preemptible=False)
        assert parts(site, site.admit("a", "dev/part", mig="3g.40gb")) == found


def test_a_slice_that_is_kept_is_awaited_until_one_that_stays_lies_over_it():
    site = cut()
    hall, kept = site.state.pools["hall"], (slice_at("n1", "3g.40gb", 4, HALF),)
    lie(site, "lent", 5)
    seen = [still_awaited(hall, kept), still_awaited(hall, (slice_at("n1", "3g.40gb", 4, HALF, 3),))]
    lie(site, "firm", 6, preemptible=False)
    seen.append(still_awaited(hall, kept))

    assert seen == [True, False, False]
