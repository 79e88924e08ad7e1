from __future__ import annotations

from functools import partial

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.facts.levels import MAINTENANCE
from headrace.contracts.facts.provisioning import OfferTaken
from headrace.contracts.messages.queries import NodeRequest
from headrace.contracts.values.durations import DAY, HOUR, SECOND
from headrace.governance.nodes import confirming_empty, cordoning, draining, removing_node

ADMIN = "default.admin"


@pytest.fixture
def hall(site):
    """Two nodes; `ann` runs a job on the first."""
    site.write("policies: [{name: q, group: all, profiles: [one]}]")
    site.node("w1", site="west")
    site.node("w2", site="west")
    return site


def carried_out(site, make, node, reason="", begins=0):
    """The facts, and what changes, or the code of the refusal; what was stated is law."""
    decision = make(NodeRequest(node=node, reason=reason, begins=begins), ADMIN)(site.state, 0)
    if decision.facts:
        site.append_facts(*decision.facts)
    return decision.facts, decision.code or [line.fields or line.action for line in decision.answer.changes]


def overdue(site, job):
    """Its ladder is over and it is still there."""
    ladder = Ladder(cause="cancelled", callback_grace=0, term_grace=SECOND)
    site.append_facts(f.StopOrderedV1(job=job, attempt=1, ladder=ladder), by="allocator")
    site.append_facts(f.LeaseOverdueV1(job=job, attempt=1, node="w1"), by="preemption")


def test_a_node_is_set_aside_and_taken_back_each_once(hall):
    cordon, uncordon = partial(cordoning, cordon=True), partial(cordoning, cordon=False)
    cordoned = f.NodeCordonedV1(author=ADMIN, reason="fan", node="w1")
    assert carried_out(hall, cordon, "w1", "fan") == ((cordoned,), [("cordoned: no -> fan",)])
    assert carried_out(hall, cordon, "w1", "fan") == ((), ["keep"])
    assert carried_out(hall, uncordon, "w1") == ((f.NodeUncordonedV1(author=ADMIN, node="w1"),), [("cordoned: fan -> no",)])
    assert carried_out(hall, uncordon, "w1") == ((), ["keep"])


def test_a_node_whose_instance_is_to_end_takes_no_work_again(hall):  # R38
    order = {"pool": "hall", "provider": "local", "offer": OfferTaken(name="default"), "token": "t", "expires": 1}
    released = f.InstanceReleasedV1(instance="w1", cause="idle")
    hall.append_facts(f.InstanceOrderedV1(instance="w1", **order), released, by="provisioner")
    decision = cordoning(NodeRequest(node="w1"), ADMIN, cordon=False)(hall.state, 0)
    assert (decision.facts, decision.code) == ((), "INVALID")
    assert decision.error == "node w1 is about to leave (its instance is to end: idle); it takes no work any more"
    assert carried_out(hall, partial(cordoning, cordon=True), "w1", "fan") == ((), ["keep"])
    warned = [cordoning(NodeRequest(node="w1", reason=reason), ADMIN, cordon=True)(hall.state, 0) for reason in ("fan", "")]
    assert [decision.answer.warnings for decision in warned] == [
        ("node w1 takes no work for good (its instance is to end: idle); the reason 'fan' is not kept",),
        (),
    ]


def test_a_cordon_without_a_reason_names_who_did_it(hall):
    cordon = partial(cordoning, cordon=True)
    assert carried_out(hall, cordon, "w1")[1] == [("cordoned: no -> cordoned by default.admin",)]
    assert hall.state.nodes["w1"].cordoned == "cordoned by default.admin"
    assert carried_out(hall, cordon, "w1") == ((), ["keep"])


def test_a_drain_says_how_many_have_to_leave_and_uncordoning_ends_it(hall):
    hall.job("q/one", on="w1")
    drained = f.NodeDrainOrderedV1(author=ADMIN, reason="firmware", node="w1")
    assert carried_out(hall, draining, "w1", "firmware") == ((drained,), [("draining: no -> yes, 1 jobs have to leave",)])
    assert carried_out(hall, draining, "w1") == ((), ["keep"])
    node = hall.state.nodes["w1"]
    assert (node.draining, node.cordoned, hall.state.draining) == (True, "firmware", {"w1": node})
    carried_out(hall, partial(cordoning, cordon=False), "w1")
    assert (node.draining, node.cordoned, hall.state.draining) == (False, "", {})


def test_a_node_whose_leases_are_in_order_is_not_called_empty(hall):
    hall.job("q/one", on="w1")
    decision = confirming_empty(NodeRequest(node="w1"), ADMIN)(hall.state, 0)
    assert (decision.facts, decision.code) == ((), "REFUSED")
    assert decision.error == "w1 is there and has 1 leases in order; `headrace node drain w1` empties it"


def test_what_is_overdue_is_confirmed_to_be_gone_and_nothing_else(hall):
    late, well = hall.job("q/one", on="w1"), hall.job("q/one", on="w1")
    overdue(hall, late)
    confirmed = f.NodeConfirmedEmptyV1(author=ADMIN, node="w1")
    assert carried_out(hall, confirming_empty, "w1") == ((confirmed,), [("confirmed empty of 1 leases",)])
    assert [hall.state.jobs[job].leases[0].empty for job in (late, well)] == [True, False]


def test_of_a_node_that_is_away_everything_is_confirmed_to_be_gone_once(hall):
    job = hall.job("q/one", on="w1")
    hall.append_facts(f.NodeLostV1(node="w1", silent_for=60 * SECOND), by="preemption")
    assert carried_out(hall, confirming_empty, "w1")[1] == [("confirmed empty of 1 leases",)]
    assert hall.state.jobs[job].leases[0].empty
    assert carried_out(hall, confirming_empty, "w1") == ((), ["keep"])


def test_a_node_with_nothing_on_it_is_empty_already(hall):
    assert carried_out(hall, confirming_empty, "w2") == ((), ["keep"])


@pytest.mark.parametrize("make", [partial(cordoning, cordon=True), draining, confirming_empty])
def test_an_unknown_node_is_not_found(hall, make):
    assert carried_out(hall, make, "w9") == ((), "NOT_FOUND")


def test_a_node_is_removed_when_it_is_away_and_empty_with_its_tokens(hall):
    hall.state.terms.level = 3
    token = {"role": "node", "tenant": "", "handle": "w2", "expires_at": 1 << 60}
    hall.append_facts(f.TokenCreatedV1(author=ADMIN, token="t1", **token))
    refused = removing_node(NodeRequest(node="w2"), ADMIN)(hall.state, 0)
    assert (refused.code, refused.error) == ("REFUSED", "w2 is there; stop its executor first, and remove it then")
    hall.append_facts(f.NodeStoppedV1(node="w2", at=1), by="node.w2")
    removed = f.NodeRemovedV1(author=ADMIN, reason="sold", node="w2")
    revoked = f.TokenRevokedV1(author=ADMIN, reason="sold", token="t1")
    assert carried_out(hall, removing_node, "w2", "sold") == ((removed, revoked), ["delete"])
    assert "w2" not in hall.state.nodes
    assert carried_out(hall, removing_node, "w2") == ((), "NOT_FOUND")


def test_a_node_with_leases_an_instance_and_one_below_level_3_stay(hall):
    hall.state.terms.level = 3
    job = hall.job("q/one", on="w1")
    hall.append_facts(f.NodeLostV1(node="w1", silent_for=1), by="preemption")
    assert removing_node(NodeRequest(node="w1"), ADMIN)(hall.state, 0).error == (
        "w1 holds 1 leases; `headrace node drain w1` empties it, or, if it is lost, `confirm-empty`"
    )
    assert job
    order = f.InstanceOrderedV1(instance="w2", pool="west", provider="local", offer=OfferTaken(name="o"), token="t", expires=1)
    hall.append_facts(order, by="provisioner")
    assert "`headrace burst end w2` ends it" in removing_node(NodeRequest(node="w2"), ADMIN)(hall.state, 0).error
    hall.state.terms.level = 2
    assert removing_node(NodeRequest(node="w2"), ADMIN)(hall.state, 0).error.startswith("nodes are removed from level 3")


def test_a_drain_is_scheduled_moved_and_cancelled(hall):
    hall.state.terms.level = MAINTENANCE
    uncordon = partial(cordoning, cordon=False)
    scheduled = f.NodeDrainScheduledV1(author=ADMIN, reason="fan", node="w1", begins=HOUR)
    later = f.NodeDrainScheduledV1(author=ADMIN, reason="fan", node="w1", begins=2 * HOUR)
    first, second = "1970-01-01T01:00:00.000Z", "1970-01-01T02:00:00.000Z"
    assert carried_out(hall, draining, "w1", "fan", HOUR) == ((scheduled,), [(f"drain: no -> at {first}",)])
    assert carried_out(hall, draining, "w1", "fan", HOUR) == ((), ["keep"])
    assert carried_out(hall, draining, "w1", "fan", 2 * HOUR) == ((later,), [(f"drain: at {first} -> at {second}",)])
    assert carried_out(hall, uncordon, "w1") == (
        (f.NodeUncordonedV1(author=ADMIN, node="w1"),),
        [(f"drain: at {second} -> no",)],
    )
    assert carried_out(hall, uncordon, "w1") == ((), ["keep"])


@pytest.mark.parametrize(
    ("begins", "error"),
    [
        (-1, "at: 1969-12-31T23:59:59.999Z is in the past; name a time to come, or leave it out to drain w1 now"),
        (367 * DAY, "at: 1971-01-03T00:00:00.000Z is too far ahead; name a time within 366 days"),
    ],
)
def test_a_drain_is_scheduled_for_a_time_to_come_within_a_year(hall, begins, error):
    hall.state.terms.level = MAINTENANCE
    assert draining(NodeRequest(node="w1", begins=begins), ADMIN)(hall.state, 0).error == error


def test_a_node_that_is_drained_already_is_not_drained_later(hall):
    hall.state.terms.level = MAINTENANCE
    carried_out(hall, draining, "w1")
    decision = draining(NodeRequest(node="w1", begins=HOUR), ADMIN)(hall.state, 0)
    assert (decision.code, decision.error) == ("INVALID", "w1 is drained already; `headrace node uncordon w1` ends that")


def test_below_level_3_no_drain_is_scheduled(hall):
    hall.state.terms.level = 2
    error = (
        "drains are scheduled from level 3 of the installation on, and it is at 2; `headrace status` says what keeps it there"
    )
    assert draining(NodeRequest(node="w1", begins=HOUR), ADMIN)(hall.state, 0).error == error
