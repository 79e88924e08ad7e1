"""What facts of instances make true, and that a node that has left leaves nothing behind."""

from __future__ import annotations

import pytest

from headrace.allocator.job_lifecycle import due_transitions
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.domain.snapshots.snapshot import copy_of, dump, load
from tests.unit.domain.site import place, profile
from tests.unit.domain.snapshot import snapshot
from tests.unit.provisioner.cloud import Cloud, order_of


def test_an_order_a_creation_and_a_registration_are_one_instance():
    site = Cloud()
    (name,) = site.ordered()
    site.wait(5)
    site.made(name)
    site.wait(5)
    site.join(name)
    one = site.state.instances[name]
    assert (one.pool, one.offer, one.provider_id, one.stage) == ("cloud", "default", f"p/{name}", "joined")
    assert (one.created_at - one.ordered_at, one.joined_at - one.created_at, one.emptied_at) == (5, 5, site.now)
    assert site.pool.nodes.keys() == {name}


def test_a_refusal_closes_the_offer_and_a_node_that_joins_opens_it():
    site = Cloud()
    (name,) = site.ordered()
    site.refused(name, "QUOTA", MINUTE)
    assert site.state.instances[name].stage == "refused"
    offer = site.state.offers["cloud", "default"]
    assert (offer.failures, offer.closed_until, offer.code) == (1, site.now + MINUTE, "QUOTA")

    site.wait(MINUTE)
    (other,) = [fact.instance for fact in site.decide()]
    site.made(other)
    site.join(other)
    assert site.state.offers == {}


def test_orders_that_are_refused_together_close_their_offer_once():
    site = Cloud()
    first, second = site.ordered(2)
    site.refused(first, "CAPACITY", MINUTE)
    site.refused(second, "CAPACITY", 2 * MINUTE)
    offer = site.state.offers["cloud", "default"]
    assert (offer.failures, offer.closed_until) == (1, site.now + MINUTE)


def test_an_instance_is_there_from_when_to_when_its_provider_says_between_the_order_and_the_record():
    site = Cloud()
    (name,) = site.ordered()
    began = site.now
    site.wait(60)
    site.append_facts(f.InstanceCreatedV1(instance=name, provider_id="p", at=began + 10), by="provisioner")
    site.wait(60)
    site.append_facts(f.InstanceEndedV1(instance=name, cause="idle", at=began + 90), by="provisioner")
    one = site.state.instances[name]
    assert (one.created_at, one.ended_at) == (began + 10, began + 90)

    (other,) = site.ordered()
    ordered = site.now
    site.wait(60)
    site.append_facts(f.InstanceCreatedV1(instance=other, provider_id="p", at=1), by="provisioner")
    site.append_facts(f.InstanceEndedV1(instance=other, cause="idle", at=site.now + HOUR), by="provisioner")
    two = site.state.instances[other]
    assert (two.created_at, two.ended_at) == (ordered, site.now)


def test_facts_that_come_too_late_change_nothing():
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    before = snapshot(site.state)["instances"]
    site.refused(name)
    site.made(name)
    site.append_facts(order_of(name), by="provisioner")
    site.append_facts(f.InstanceCreatedV1(instance="cloud-x", provider_id="x", at=1), by="provisioner")
    site.append_facts(f.InstanceEndedV1(instance="cloud-x", cause="idle", at=1), by="provisioner")
    site.append_facts(f.InstanceReleasedV1(instance="cloud-x", cause="idle"), by="provisioner")
    site.append_facts(f.NodeRemovedV1(author="a.b", node="cloud-x"))
    assert snapshot(site.state)["instances"] == before


def test_an_idle_node_leaves_and_is_forgotten_when_its_instance_has_ended():
    site = Cloud()
    (name,) = site.joined()
    capacity = dict(site.pool.known)
    site.append_facts(f.InstanceReleasedV1(instance=name, cause="idle"), by="provisioner")
    assert site.state.nodes[name].cordoned == "its instance is to end: idle"
    site.append_facts(f.InstanceEndedV1(instance=name, provider_id=f"p/{name}", cause="idle", at=site.now), by="provisioner")
    assert (site.state.instances[name].stage, site.state.nodes, site.pool.nodes, site.state.leaving) == ("ended", {}, {}, {})
    assert site.pool.known == capacity, "what the pool may still create counts"


def test_a_job_that_came_first_keeps_an_idle_node():
    site = Cloud()
    (name,) = site.joined()
    site.run("a", place(name, 0), pool="cloud")
    site.append_facts(f.InstanceReleasedV1(instance=name, cause="idle"), by="provisioner")
    assert (site.state.instances[name].stage, site.state.nodes[name].cordoned) == ("joined", "")


def test_what_runs_on_a_node_that_has_to_go_is_drained():
    site = Cloud()
    (name,) = site.joined()
    site.run("a", place(name, 0), pool="cloud")
    site.append_facts(f.InstanceReleasedV1(instance=name, cause="operator", by="default.ann"), by="provisioner")
    node = site.state.nodes[name]
    assert (node.draining, node.cordoned_by, list(site.state.draining)) == (True, "default.ann", [name])


def test_a_node_that_registers_after_its_instance_was_given_up_takes_no_work_and_does_not_count_as_grown():
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    site.append_facts(f.InstanceReleasedV1(instance=name, cause="boot_failed"), by="provisioner")
    site.join(name)
    node, growth = site.state.nodes[name], site.state.terms.growths["cloud"]
    assert (node.cordoned, node.grantable, node.draining) == ("its instance is to end: boot_failed", False, True)
    assert (growth.joined, growth.open) == (0, True)


def test_a_node_whose_instance_is_to_end_cannot_be_uncordoned():
    site = Cloud()
    (name,) = site.joined()
    site.append_facts(f.InstanceReleasedV1(instance=name, cause="operator", by="default.ann"), by="provisioner")
    site.append_facts(f.NodeUncordonedV1(author="default.bob", node=name))
    node = load(dump(site.state)).nodes[name]
    assert (node.cordoned, node.cordoned_by, node.leaves, node.draining) == (
        *("its instance is to end: operator", "default.ann"),
        *(True, True),
    )


def test_an_instance_that_ends_under_a_lease_is_forgotten_once_the_lease_is_revoked():
    site = Cloud()
    (name,) = site.joined()
    job = site.run("a", place(name, 0), pool="cloud")
    site.append_facts(f.InstanceEndedV1(instance=name, cause="vanished", at=site.now), by="provisioner")
    node = site.state.nodes[name]
    assert (node.status, [lease.empty for lease in node.leases.values()]) == ("lost", [True])

    site.append_facts(f.LeaseRevokedV1(job=job.key, attempt=1, rank=0, cause="confirmed_empty"), by="allocator")
    assert (name in site.state.nodes, site.pool.nodes, site.pool.use.get(GPU, 0)) == (False, {}, 0)


def leaves(site: Cloud, name: str, cause: str) -> None:
    """The node of an instance is gone, or is to go."""
    if cause == "vanished":
        fact = f.InstanceEndedV1(instance=name, cause=cause, at=site.now)
    else:
        fact = f.InstanceReleasedV1(instance=name, cause=cause)
    site.append_facts(fact, by="provisioner")


@pytest.mark.parametrize("cause", ["vanished", "idle", "mismatch", "operator"])
def test_a_grant_that_was_on_its_way_to_a_node_that_is_gone_or_has_to_go_has_no_effect(cause):
    site = Cloud()
    (name,) = site.joined()
    job = site.admit("a")
    leaves(site, name, cause)
    site.grant(job, place(name, 0), pool="cloud")
    assert (job.state, job.leases) == ("pending", {})


@pytest.mark.parametrize("cause", ["vanished", "idle"])
@pytest.mark.parametrize("gone", [0, 1])
def test_a_gang_one_of_whose_nodes_left_while_the_grant_was_on_its_way_is_stopped_and_waits_again(gone, cause):
    site = Cloud()
    site.law(profile("gang", replicas=2, pools=("hall", "cloud")))
    names = site.joined(2)
    job = site.admit("a", "dev/gang")
    leaves(site, names[gone], cause)
    site.grant(job, *(place(name, 0) for name in names), pool="cloud")
    assert (job.state, list(job.leases)) == ("starting", [1 - gone])

    facts = [fact for unit in due_transitions(site.state, site.now) for fact in unit]
    assert [(type(fact), fact.ladder.cause) for fact in facts] == [(f.StopOrderedV1, "gang_broken")]
    site.append_facts(*facts, by="allocator")
    end = {"outcome": "exited", "exit_code": 143, "stopping": True, "exited_at": site.now, "at": site.now}
    ended = f.LeaseEndedV1(job=job.key, attempt=1, rank=1 - gone, **end)
    site.append_facts(ended, by=f"node.{names[1 - gone]}")
    (requeued,) = [fact for unit in due_transitions(site.state, site.now) for fact in unit]
    assert (requeued.job, requeued.cause, requeued.may_overlap) == (job.key, "node_stopped", False)


@pytest.mark.parametrize("cause", ["boot_failed", "no_answer", "mismatch"])
def test_an_offer_whose_instances_do_not_join_is_closed(cause):
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    site.append_facts(f.InstanceReleasedV1(instance=name, cause=cause, closed_until=site.now + MINUTE), by="provisioner")
    offer = site.state.offers["cloud", "default"]
    assert (offer.failures, offer.closed_until, offer.code) == (1, site.now + MINUTE, cause.upper())


def test_a_node_that_never_ran_anything_closes_its_pool_for_growth():
    site = Cloud()
    (name,) = site.joined()
    site.append_facts(f.InstanceReleasedV1(instance=name, cause="unused", closed_until=site.now + HOUR), by="provisioner")
    growth = site.state.terms.growths["cloud"]
    assert (growth.failures, growth.closed_until) == (1, site.now + HOUR)


def test_a_removed_node_is_forgotten_with_all_that_was_known_of_it():
    site = Cloud()
    site.node("n9")
    site.append_facts(f.NodeApprovedV1(author="a.b", node="n9", labels={"pool": "hall"}, gpus=2, isolation="hardware"))
    site.append_facts(f.NodeRemovedV1(author="a.b", node="n9"))
    state = site.state
    assert ("n9" in state.nodes, "n9" in state.approvals, "n9" in state.terms.executors) == (False, False, False)
    assert state.pools["hall"].known.get(GPU, 0) == 0


def test_a_notice_is_kept_with_its_deadline():
    site = Cloud()
    (name,) = site.joined()
    notice = f.InstanceInterruptedV1(node=name, kind="spot", deadline=site.now + MINUTE, at=site.now)
    site.append_facts(notice, by=f"node.{name}")
    one = site.state.instances[name]
    assert (one.interrupted, one.deadline) == ("spot", site.now + MINUTE)


def test_an_observed_price_is_kept():
    site = Cloud()
    site.append_facts(f.PriceObservedV1(pool="cloud", offer="default", price=7, source="local"), by="provisioner")
    site.append_facts(f.InstanceOrphanEndedV1(provider="local", provider_id="p", instance="cloud-x"), by="provisioner")
    assert [(key, offer.price, offer.code) for key, offer in site.state.offers.items()] == [(("cloud", "default"), 7, "")]


def test_instances_survive_snapshots_and_are_forgotten_an_hour_after_their_end():
    site = Cloud()
    (name,) = site.ordered()
    site.refused(name)
    for state in (copy_of(site.state), load(dump(site.state))):
        assert snapshot(state) == snapshot(site.state)
    site.wait(HOUR + 1)
    site.append_facts(order_of("cloud-next"), by="provisioner")
    assert list(site.state.instances) == ["cloud-next"]


@pytest.mark.parametrize(("market", "spot"), [("spot", 1), ("on_demand", 0)])
def test_a_node_of_a_spot_instance_is_known_as_one(market, spot):
    site = Cloud(offers=(d.Offer(name="only", market=market),))
    (name,) = site.joined()
    assert site.state.nodes[name].levels.spot == spot
