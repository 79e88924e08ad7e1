"""What is tried on the state, and taken back."""

from __future__ import annotations

import pytest

from headrace.domain.state.trial import JobHolding, Trial, holding_of
from tests.unit.domain.fold.suspension_scene import Scene
from tests.unit.domain.site import Site, gpus, place, policy
from tests.unit.domain.snapshot import differences, snapshot


def free(site):
    return [device.open for device in site.state.nodes["n1"].devices]


def test_a_job_without_leases_holds_nothing():
    site = Site()
    assert holding_of(site.state, site.admit("a")) is None


def test_what_is_let_go_is_free_until_the_trial_ends():
    site = Site()
    site.node(count=2)
    job = site.run("a", place("n1", 0))
    before = snapshot(site.state)
    with Trial(site.state) as trial:
        trial.release(holding_of(site.state, job))
        assert (free(site), job.policy.wide.use) == ([126_000, 126_000], {})
    assert differences(before, snapshot(site.state)) == []


def test_use_that_yields_is_out_of_the_accounts_once_and_what_is_kept_is_held_too():  # R17, R27
    site = Site(policy("dev"), policy("ops", reservation=gpus(1)))
    site.node(count=1)
    victim = site.run("a", place("n1", 0))
    preemptor = site.admit("b", "ops/one")
    site.order(preemptor, (victim,), place("n1", 0))
    before = snapshot(site.state)
    with Trial(site.state) as trial:
        trial.release(holding_of(site.state, victim))
        trial.release(JobHolding(preemptor, site.state.pools["hall"], (), preemptor.nomination))
        assert (free(site), victim.policy.wide.use, preemptor.policy.wide.use) == ([126_000], {}, {})
    assert differences(before, snapshot(site.state)) == []


def test_of_a_gang_that_is_to_be_suspended_the_part_that_is_yields_no_more():  # R29
    hall = Scene(replicas=2)
    hall.policy("high", size=2, priority=5)
    hall.order(hall.admit("high", "p"), [hall.job], ("n1", 0, 2))
    hall.stop_it()
    hall.suspend(0)
    before = snapshot(hall.state)
    with Trial(hall.state) as trial:
        trial.release(holding_of(hall.state, hall.job))
        assert (hall.job.policy.wide.use, hall.job.policy.wide.leased_minus_use) == ({}, {})
    assert differences(before, snapshot(hall.state)) == []


def test_a_trial_is_undone_up_to_a_mark_and_then_as_a_whole():
    site = Site()
    site.node(count=2)
    job, hall = site.admit("a"), site.state.pools["hall"]
    before, seen = snapshot(site.state), []
    trial = Trial(site.state)
    trial.take(job, hall, place("n1", 0))
    mark = trial.mark
    trial.keep((place("n1", 1),))
    trial.count(hall, place("n1", 1))
    trial.avoid(job, ("n1",))
    for _ in range(2):
        seen.append((free(site), dict(hall.use), job.avoiding))
        trial.undo(mark)
    trial.undo()

    assert seen == [([0, 0], {**gpus(2), "job": 2}, ("n1",)), ([0, 126_000], {**gpus(1), "job": 1}, ())]
    assert differences(before, snapshot(site.state)) == []


def test_a_trial_that_ends_in_an_error_is_undone_too():
    site = Site()
    site.node()
    job, before = site.admit("a"), snapshot(site.state)

    def fails() -> None:
        with Trial(site.state) as trial:
            trial.take(job, site.state.pools["hall"], place("n1", 0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert differences(before, snapshot(site.state)) == []


def test_of_a_lease_no_more_is_counted_than_is_said():
    site = Site()
    site.node()
    job, hall = site.admit("a"), site.state.pools["hall"]
    with Trial(site.state) as trial:
        trial.take(job, hall, place("n1", 0), gpus(1))
        assert (free(site)[0], hall.use, job.policy.wide.use) == (0, gpus(1), gpus(1))
