"""Victims of a gang that requires a topology domain leave one domain (R26, R40)."""

from __future__ import annotations

import pytest

from headrace.contracts.documents.model import PolicyProfile, Topology
from headrace.contracts.values.durations import SECOND
from headrace.domain.preemption.victims import NoPlan, VictimPlan, review, search
from tests.unit.domain.site import Site, gpus, place, policy, pool, profile

RACKS = {"n1": "r1", "n2": "r2", "n3": "r2", "n4": "r3", "n5": "r3"}


def lent(*nodes: str, replicas: int = 2) -> tuple[Site, object]:
    """A job of `lend` on each of these nodes, one after the other; a gang of `own` asks for its reservation within one rack."""
    gang = profile("gang", gpus(1), replicas=replicas, topology=Topology(require="rack"))
    links = (PolicyProfile(name="one"), PolicyProfile(name="gang"))
    policies = (policy("lend", profiles=links), policy("own", profiles=links, reservation=gpus(5)))
    site = Site(*policies, pools=(pool(topology=("rack",)),))
    site.law(gang)
    for name, rack in RACKS.items():
        site.node(name, 1, rack=rack)
    for name in nodes:
        site.run(f"on-{name}", place(name, 0), queue="lend/one")
        site.now += SECOND
    return site, site.admit("p", "own/gang")


def victims_of(plan: VictimPlan) -> list[str]:
    return [victim.job.rpartition(".")[2] for victim in plan.victims]


@pytest.mark.parametrize(
    ("order", "victims"),
    [
        pytest.param(("n2", "n4", "n5", "n3", "n1"), ["on-n5", "on-n4"], id="the rack whose worst victim is newest"),
        pytest.param(("n4", "n2", "n3", "n5", "n1"), ["on-n3", "on-n2"], id="whatever the newest of all stands in"),
    ],
)
def test_victims_leave_the_rack_with_the_best_set(order, victims):
    site, job = lent(*order)
    found = search(site.state, job, site.state.pools["hall"], site.now)
    assert (victims_of(found), sorted({place.node for place in found.places})) == (
        victims,
        sorted(name.removeprefix("on-") for name in victims),
    )


def test_a_job_yields_beside_a_node_of_its_rack_that_is_free():
    site, job = lent("n1", "n4", "n5", "n2")
    found = search(site.state, job, site.state.pools["hall"], site.now)
    assert (victims_of(found), [place.node for place in found.places]) == (["on-n2"], ["n2", "n3"])


def test_no_job_yields_where_no_rack_is_large_enough():
    site, job = lent("n1", "n2", "n3", "n4", "n5", replicas=3)
    found = search(site.state, job, site.state.pools["hall"], site.now)
    assert found == NoPlan("no set of borrowed units, taken together, makes room for it")


def test_a_plan_over_several_racks_is_dismissed():
    site, job = lent(*RACKS)
    hall = site.state.pools["hall"]
    plan = search(site.state, job, hall, site.now)
    assert review(site.state, job, hall, plan, site.now) == plan.places
    apart = plan._replace(places=(place("n1", 0), place("n2", 0, job=False)))
    assert review(site.state, job, hall, apart, site.now) == "it is no longer sufficient"
