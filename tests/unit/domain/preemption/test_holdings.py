"""What a job holds, out of the state on trial, and back."""

from __future__ import annotations

from headrace.domain.preemption.holdings import JobHolding, hold, holding_of, let_go
from tests.unit.domain.fold.suspension_scene import Scene
from tests.unit.domain.site import Site, gpus, place, policy
from tests.unit.domain.snapshot import differences, snapshot


def free(site):
    return [device.open for device in site.state.nodes["n1"].devices]


def test_a_job_without_leases_holds_nothing():
    site = Site()
    assert holding_of(site.state, site.admit("a")) is None


def test_what_is_let_go_is_free_and_what_is_held_again_is_as_it_was():
    site = Site()
    site.node(count=2)
    job = site.run("a", place("n1", 0))
    before = snapshot(site.state)
    holding = holding_of(site.state, job)
    let_go(site.state, holding)
    assert (free(site), job.policy.wide.use) == ([126_000, 126_000], {})
    hold(site.state, holding)
    assert differences(before, snapshot(site.state)) == []


def test_use_that_yields_is_out_of_the_accounts_once_and_what_is_kept_is_held_too():  # R17, R27
    site = Site(policy("dev"), policy("ops", reservation=gpus(1)))
    site.node(count=1)
    victim = site.run("a", place("n1", 0))
    preemptor = site.admit("b", "ops/one")
    site.order(preemptor, (victim,), place("n1", 0))
    before = snapshot(site.state)
    both = (holding_of(site.state, victim), JobHolding(preemptor, site.state.pools["hall"], (), preemptor.nomination))
    for holding in both:
        let_go(site.state, holding)
    assert (free(site), victim.policy.wide.use, preemptor.policy.wide.use) == ([126_000], {}, {})
    for holding in reversed(both):
        hold(site.state, holding)
    assert differences(before, snapshot(site.state)) == []


def test_of_a_gang_that_is_to_be_suspended_the_part_that_is_yields_no_more():  # R29
    hall = Scene(replicas=2)
    hall.policy("high", size=2, priority=5)
    hall.order(hall.admit("high", "p"), [hall.job], ("n1", 0, 2))
    hall.stop_it()
    hall.suspend(0)
    before = snapshot(hall.state)
    holding = holding_of(hall.state, hall.job)
    let_go(hall.state, holding)
    assert (hall.job.policy.wide.use, hall.job.policy.wide.apart) == ({}, {})
    hold(hall.state, holding)
    assert differences(before, snapshot(hall.state)) == []
