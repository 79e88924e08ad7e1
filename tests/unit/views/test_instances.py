from __future__ import annotations

from headrace.contracts.messages.burst import PlanRequest
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.views.instances import instances_of, offers_shown, plan_of
from tests.unit.provisioner.cloud import OFFERS, Cloud


def test_an_instance_is_shown_with_what_it_has_cost_from_its_creation_to_its_end():
    site = Cloud(offers=OFFERS)
    (name,) = site.joined()
    site.wait(HOUR)
    (shown,) = instances_of(site.state, site.now)
    assert (shown.instance, shown.stage, shown.offer, shown.market, shown.price, shown.cost) == (
        *(name, "joined", "spot", "spot", "1.00", "1.00"),
    )


def test_offers_are_shown_in_the_order_in_which_they_are_asked_and_why_one_is_closed():
    site = Cloud(offers=OFFERS)
    (name,) = site.ordered()
    site.refused(name, "QUOTA", MINUTE)
    assert [(one.offer, one.price, one.closed, one.closed_until) for one in offers_shown(site.state, site.now)] == [
        ("cheap", "2.50", "", 0),
        ("dear", "4.00", "", 0),
        ("spot", "1.00", "QUOTA", site.now + MINUTE),
    ]


def test_a_plan_says_what_would_be_ordered_what_it_costs_and_what_keeps_it_back():
    site = Cloud(offers=OFFERS)
    plan = plan_of(site.state, PlanRequest(pool="cloud", nodes=5), site.now)
    assert (len(plan.instances), plan.instances[0].estimate, plan.estimate, plan.notes) == (
        *(3, "0.20", "0.60", ("max_nodes 3: 0 live, room for 3",)),
    )
    assert plan_of(Cloud().state, PlanRequest(pool="cloud"), 0).notes == (
        "offer default has no price; write one in the pool's offers, and the estimate is known",
    )


def test_a_pool_without_a_provider_has_no_plan():
    site = Cloud(provider="none")
    assert plan_of(site.state, PlanRequest(pool="cloud"), 0) == (
        "pool cloud: provider none creates no nodes: an operator adds them"
    )
    assert plan_of(site.state, PlanRequest(pool="hall"), 0) == (
        "pool 'hall' is not one that creates nodes; `headrace burst offers` lists those that are"
    )
