"""Why a gang waits that requires a topology domain (R22, R40)."""

from __future__ import annotations

import pytest

from headrace.contracts.values.reasons import RejectReason
from headrace.domain.explain.explain import explain
from headrace.domain.explain.topology_reasons import where_it_fails
from headrace.domain.queueing.admissible import never_fits
from tests.unit.domain.racks import racked, together
from tests.unit.domain.site import place


def test_the_answer_names_the_domain_with_the_most_room():
    site = racked(together(3, require="rack"))
    site.run("a", place("n4", 0))
    job = site.admit("j", "dev/together")

    view = explain(site.state, job, site.now)

    assert (view.reason, view.pools[0].fit) == ("FRAGMENTED", "domain")
    assert view.message == (
        "enough is free in total, but not together on a node, a device or in a topology domain: "
        "no rack of pool hall has room for its 3 replicas; b1/r1 has room for 2"
    )


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ({"require": "row"}, "pool hall has no topology level row"),
        ({"prefer": "rack"}, ""),
    ],
)
def test_a_level_that_the_pool_lacks_is_named_and_a_preference_never_is(topology, message):
    site = racked(together(2, **topology))
    job = site.admit("j", "dev/together")
    assert where_it_fails(site.state, job, site.state.pools["hall"], site.now) == message


def test_labels_that_no_node_has_are_named():
    site = racked(together(2, require="rack"), nodes={})
    site.node("n1", 2)
    job = site.admit("j", "dev/together")
    assert (
        where_it_fails(site.state, job, site.state.pools["hall"], site.now) == "no node of pool hall has the labels block, rack"
    )


def test_what_no_domain_could_hold_if_it_were_empty_never_runs():  # R13
    profile = together(4, require="rack")
    site = racked(profile)
    job = site.admit("j", "dev/together")
    found = never_fits(site.state, job.policy, profile, job.request, preemptible=True, beyond=False)
    assert found == (
        RejectReason.NO_SUITABLE_NODE,
        "it needs 4 replicas within one rack (R40), of those in pool hall none holds more than 3",
    )
