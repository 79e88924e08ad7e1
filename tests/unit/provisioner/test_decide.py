"""What is ordered, by which offer, and what is let go; and that calls follow from the ledger alone."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.durations import DAY, HOUR, MINUTE
from headrace.provisioner.decide import MANY, PAUSE_EACH, Call
from tests.unit.domain.site import place
from tests.unit.provisioner.cloud import BOOT, IDLE, OFFERS, Cloud, cloud


def released(name: str, cause: str, until: int = 0, **fields: str) -> f.InstanceReleasedV1:
    return f.InstanceReleasedV1(instance=name, cause=cause, closed_until=until, **fields)


def test_a_growing_pool_orders_what_it_asked_for_by_its_best_offer():
    site = Cloud(offers=OFFERS)
    growth = site.grow(2)
    orders = site.decide()
    assert [(one.pool, one.growth, one.provider, one.offer.name, one.price) for one in orders] == [
        ("cloud", growth, "local", "spot", 1_000_000)
    ] * 2
    assert (orders[0].expires, orders[0].estimate) == (site.now + 2 * BOOT, 200_000)
    assert len({one.token for one in orders}) == len({one.instance for one in orders}) == 2
    assert all(one.instance.startswith("cloud-") for one in orders)
    assert site.decide() == ()
    assert site.provisioner.calls == tuple(Call("create", one.instance) for one in orders)


def test_below_level_3_nothing_is_stated():
    site = Cloud(min_nodes=1)
    site.state.terms.level = 2
    site.grow(2)
    site.provisioner.add_facts(f.PriceObservedV1(pool="cloud", offer="default", price=1, source="x"))
    assert (site.decide(), site.provisioner.calls, site.provisioner.next_wakeup()) == ((), (), None)


def test_the_next_offer_is_asked_in_the_same_round_in_which_one_is_refused():
    site = Cloud(offers=OFFERS)
    (name,) = site.ordered()
    site.provisioner.add_facts(f.InstanceRefusedV1(instance=name, code="CAPACITY", closed_until=site.now + MINUTE))
    site.decide()
    assert [one.offer.name for one in site.decide()] == ["cheap"]


def test_with_no_offer_open_nothing_is_ordered_until_one_is():
    site = Cloud()
    (name,) = site.ordered()
    site.refused(name, "CAPACITY", MINUTE)
    assert (site.decide(), site.provisioner.next_wakeup()) == ((), site.now + MINUTE)
    site.wait(MINUTE)
    assert len(site.decide()) == 1


def test_no_more_live_than_may():
    site = Cloud(max_nodes=2)
    site.joined(1)
    site.grow(5)
    assert len(site.decide()) == 1


def test_the_least_number_of_nodes_is_kept_without_growth():
    site = Cloud(min_nodes=2)
    orders = site.decide()
    assert [one.growth for one in orders] == [0, 0]
    site.made(*(one.instance for one in orders))
    for one in orders:
        site.join(one.instance)
    site.wait(HOUR)
    assert site.decide() == ()


def test_an_idle_node_leaves_after_its_time():
    site = Cloud()
    first, second = site.joined(2)
    job = site.run("a", place(first, 0), pool="cloud")
    site.wait(IDLE - 1)
    assert (site.decide(), site.provisioner.next_wakeup()) == ((), site.now + 1)
    site.leave(job)
    site.wait(1)
    assert site.decide() == (released(second, "unused"),)
    site.wait(IDLE - 1)
    assert site.decide() == (released(first, "idle"),)
    assert site.decide() == ()
    assert site.provisioner.calls == (Call("end", first), Call("end", second))


def test_several_nodes_that_never_ran_anything_close_their_pool_once():
    site = Cloud()
    names = site.joined(2)
    site.wait(IDLE)
    until = site.now + 10 * MINUTE
    assert site.decide() == tuple(released(name, "unused", until) for name in names)
    growth = site.state.terms.growths["cloud"]
    assert (growth.failures, growth.closed_until) == (1, until)


def test_a_node_that_never_ran_anything_closes_nothing_if_one_that_was_ordered_with_it_did():
    site = Cloud()
    first, second = site.joined(2)
    site.run("a", place(first, 0), pool="cloud")
    site.wait(IDLE)
    assert site.decide() == (released(second, "unused"),)
    growth = site.state.terms.growths["cloud"]
    assert (growth.failures, growth.closed_until) == (0, 0)


def test_a_node_on_which_something_is_kept_is_not_idle():
    site = Cloud()
    (name,) = site.joined()
    victim = site.run("a", place(name, 0), pool="cloud")
    site.order(site.admit("b"), (victim,), place(name, 0), pool="cloud")
    site.leave(victim)
    site.wait(IDLE)
    assert site.decide() == ()


def test_a_node_does_not_leave_before_its_least_life():
    site = Cloud(min_life=HOUR)
    (name,) = site.joined()
    site.wait(HOUR - 1)
    assert site.decide() == ()
    site.wait(1)
    assert [fact.instance for fact in site.decide()] == [name]


def test_at_its_greatest_age_a_node_leaves_with_what_runs_on_it():
    site = Cloud(max_life=HOUR)
    (name,) = site.joined()
    job = site.run("a", place(name, 0), pool="cloud")
    site.wait(HOUR)
    assert site.decide() == (released(name, "max_life"),)
    assert (site.decide(), site.provisioner.calls) == ((), ()), "it is not ended while it holds a lease"
    site.leave(job)
    assert (site.decide(), site.provisioner.calls) == ((), (Call("end", name),))


def test_an_instance_that_does_not_join_is_let_go_and_its_offer_closed():
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    site.wait(2 * BOOT)
    assert site.decide() == (released(name, "boot_failed", site.now + MINUTE),)


def test_an_order_without_an_answer_is_let_go_when_it_has_expired():
    site = Cloud()
    (name,) = site.ordered()
    assert (site.decide(), site.provisioner.next_wakeup()) == ((), site.now + 2 * BOOT)
    site.wait(2 * BOOT)
    assert site.decide() == (released(name, "no_answer", site.now + MINUTE),)
    site.decide()
    assert Call("end", name) in site.provisioner.calls


@pytest.mark.parametrize(("gpus", "model"), [(1, "H100"), (2, "A100")])
def test_other_hardware_than_promised_is_let_go_and_its_offer_closed(gpus, model):
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    site.join(name, gpus, model)
    assert site.decide() == (released(name, "mismatch", site.now + MINUTE),)


def test_a_node_that_is_away_for_long_is_let_go():
    site = Cloud()
    (name,) = site.joined()
    site.append_facts(f.NodeLostV1(node=name, silent_for=1), by="preemption")
    site.wait(2 * BOOT - 1)
    assert (site.decide(), site.provisioner.next_wakeup()) == ((), site.now + 1)
    site.wait(1)
    assert site.decide() == (released(name, "lost"),)


def test_a_notice_lets_the_instance_go():
    site = Cloud()
    (name,) = site.joined()
    notice = f.InstanceInterruptedV1(node=name, kind="spot", deadline=site.now + MINUTE, at=site.now)
    site.append_facts(notice, by=f"node.{name}")
    assert site.decide() == (released(name, "interrupted"),)


def test_instances_of_a_pool_that_no_longer_creates_nodes_leave():
    site = Cloud()
    (name,) = site.joined()
    site.append_facts(f.PoolDeletedV1(author="a.b", name="cloud"))
    assert site.decide() == (released(name, "pool_closed"),)
    assert (site.decide(), site.provisioner.calls) == ((), (Call("end", name),))


def test_an_order_whose_offer_was_removed_is_given_up_and_looked_for_unless_it_was_answered():
    site = Cloud(offers=(OFFERS[1], OFFERS[0]))
    first, second = site.ordered(2)
    site.made(first)
    site.end_growth()
    site.law(cloud(offers=OFFERS[:1]))
    assert site.decide() == (released(second, "offer_gone"),)
    site.decide()
    assert site.provisioner.calls == (Call("end", second),)


def test_answers_are_stated_once_and_only_while_they_say_something_new():
    site = Cloud()
    (name,) = site.ordered()
    made = f.InstanceCreatedV1(instance=name, provider_id="p", at=site.now)
    price = f.PriceObservedV1(pool="cloud", offer="default", price=5, source="x")
    orphan = f.InstanceOrphanEndedV1(provider="local", provider_id="o", instance="cloud-o")
    site.provisioner.add_facts(made, price, orphan, released("cloud-x", "operator"))
    assert site.decide() == (made, price, orphan)
    refused = f.InstanceRefusedV1(instance=name, code="CAPACITY")
    of_one_that_lives = f.InstanceOrphanEndedV1(provider="local", provider_id="p", instance=name)
    site.provisioner.add_facts(made, price, refused, of_one_that_lives, f.PoolDeletedV1(author="a.b", name="cloud"))
    assert site.decide() == ()
    freed = released(name, "operator", by="default.ann")
    site.provisioner.add_facts(freed, freed)
    assert site.decide() == (freed, freed), "the fold takes the first"
    ended = f.InstanceEndedV1(instance=name, provider_id="p", cause="operator", at=site.now)
    site.provisioner.add_facts(ended)
    assert site.decide() == (ended,)
    site.provisioner.add_facts(ended)
    assert ended not in site.decide()


def test_an_end_is_not_stated_while_the_node_holds_a_lease():
    site = Cloud()
    (name,) = site.joined()
    site.run("a", place(name, 0), pool="cloud")
    site.provisioner.add_facts(f.InstanceEndedV1(instance=name, cause="vanished", at=site.now))
    assert site.decide() == ()


CAPPED = {"offers": (d.Offer(name="only", price="6"),), "cap": "3", "max_nodes": 9}
"""An instance costs 1.20 at least: two minutes of boot and ten of idle time."""


def test_nothing_is_ordered_that_the_cap_could_not_pay():
    site = Cloud(**CAPPED)
    site.grow(5)
    assert len(site.decide()) == 2
    assert site.decide() == ()


LEAVES_AT = HOUR // 2 - 2 * MINUTE
"""When such an instance with a job has to leave: its ladder takes 90 s, and 30 s later it is gone."""


def test_instances_leave_so_early_that_the_cap_pays_for_the_ladders_of_their_jobs_and_the_next_month_begins_anew():
    site = Cloud(**CAPPED)
    (name,) = site.joined()
    began = site.now
    site.run("a", place(name, 0), pool="cloud")
    site.decide()
    assert site.provisioner.next_wakeup() <= began + LEAVES_AT + 1
    site.wait(LEAVES_AT - 1)
    assert site.decide() == ()
    site.wait(1)
    assert site.decide() == (released(name, "cap"),)
    site.append_facts(f.InstanceEndedV1(instance=name, cause="cap", at=site.now), by="provisioner")
    site.grow()
    assert site.decide() == ()
    site.wait(31 * DAY)
    assert len(site.decide()) == 1


def test_when_the_cap_is_reached_nothing_more_is_ordered_in_that_month_until_it_is_raised():
    site = Cloud(**{**CAPPED, "cap": "9"})
    (name,) = site.joined()
    job = site.run("a", place(name, 0), pool="cloud")
    site.wait(HOUR + LEAVES_AT)
    assert site.decide() == (released(name, "cap"),)
    site.leave(job)
    site.append_facts(f.InstanceEndedV1(instance=name, cause="cap", at=site.now), by="provisioner")
    site.grow()
    assert site.decide() == (), "what the ladder did not take would pay for nothing"
    site.law(cloud(**{**CAPPED, "cap": "19"}))
    assert len(site.decide()) == 1


def test_an_instance_is_ordered_only_if_the_cap_also_pays_for_its_end():
    for cap, orders in (("1.24", 0), ("1.25", 1), ("2.49", 1), ("2.5", 2)):
        site = Cloud(**{**CAPPED, "cap": cap})
        site.grow(5)
        assert len(site.decide()) == orders, cap


def test_with_very_many_instances_it_looks_after_a_pause_instead_of_at_every_record():
    site = Cloud(max_nodes=500)
    site.grow(MANY + 1)
    assert len(site.decide()) == MANY + 1
    site.grow(MANY + 2)
    pause = PAUSE_EACH * (MANY + 1)
    assert (site.decide(), site.provisioner.next_wakeup()) == ((), site.now + pause)
    site.wait(pause)
    assert len(site.decide()) > 0
