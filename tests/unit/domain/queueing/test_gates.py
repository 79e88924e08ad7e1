from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.documents.model import Budget, PolicyProfile, Window
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import HOUR, MINUTE, parse_time
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.queueing.gates import gate_at, gated, may_start, must_borrow, next_change, opens_at, spent_for
from tests.unit.domain.site import Site, place, policy

NOON = parse_time("2026-11-20T12:00Z")  # a Friday
DAILY, LENDING = Budget(key=GPU, hours=1, per="day"), Budget(key=GPU, hours=1, per="week", then="borrow")
MORNING = Window(days=("mon", "fri"), opens=8 * 60, closes=11 * 60, on_close="preempt")
EVENING = Window(days=("fri",), opens=18 * 60, closes=19 * 60)


def site_with(**terms: object) -> Site:
    site = Site()
    site.now = NOON
    site.law(policy(**terms))
    site.node("n1", 4)
    return site


def dev(site):
    return site.state.policies["default", "dev"]


def gate_values(site):
    gate = gate_at(site.state, dev(site), site.now)
    return gate.shut, gate.stops, gate.spent


def state_gate(site, **fields):
    site.append_facts(f.PolicyGatedV1(tenant="default", policy="dev", **fields), by="allocator")


def test_without_windows_and_budgets_there_is_nothing_to_look_at():
    site = site_with()
    assert (gate_values(site), next_change(site.state, dev(site), NOON), site.state.terms.timed) == (
        (False, False, ()),
        None,
        {},
    )


def test_a_gate_is_shut_while_no_window_is_open_and_stops_what_runs_if_the_last_to_close_says_so():
    site = site_with(windows=(MORNING, EVENING))
    assert (gate_values(site), opens_at(site.state, dev(site), NOON)) == ((True, True, ()), NOON + 6 * HOUR)
    site.now += 6 * HOUR
    assert gate_values(site) == (False, False, ())
    site.now += HOUR
    assert (gate_values(site), next_change(site.state, dev(site), site.now)) == (
        (True, False, ()),
        parse_time("2026-11-23T08:00Z"),
    )


def test_of_windows_that_close_together_the_stricter_one_stops():
    both = (MORNING, Window(days=("fri",), opens=0, closes=11 * 60))
    assert gate_values(site_with(windows=both)) == (True, True, ())


def test_a_budget_is_spent_when_its_hours_are_used_up_and_the_moment_is_known_before():
    site = site_with(budgets=(DAILY,))
    site.run("a", place("n1", 0))
    site.run("b", place("n1", 1))
    site.now += 10 * MINUTE
    assert (gate_values(site), next_change(site.state, dev(site), site.now)) == ((False, False, ()), NOON + 30 * MINUTE)
    site.now += 20 * MINUTE - 1
    assert gate_values(site) == (False, False, ())
    site.now += 1
    assert (gate_values(site), next_change(site.state, dev(site), site.now)) == (
        (False, False, ("gpu per day",)),
        NOON + 12 * HOUR,
    )
    site.now = NOON + 12 * HOUR
    assert gate_values(site) == (False, False, ())


def test_what_the_fold_says_of_a_gate_keeps_jobs_from_starting():
    site = site_with(windows=(MORNING,), budgets=(DAILY,))
    job = site.admit("a")
    assert (gated(job), may_start(site.state, job, "hall")) == (None, True)
    state_gate(site, shut=True, spent=("gpu per day",))
    assert (gated(job), may_start(site.state, job, "hall")) == (WaitReason.OUTSIDE_WINDOW, False)
    state_gate(site, spent=("gpu per day",))
    assert (gated(job), spent_for(job)) == (WaitReason.BUDGET_EXHAUSTED, DAILY)
    state_gate(site)
    assert (dev(site).gate, gated(job)) == (None, None)


@pytest.mark.parametrize(("preemptible", "borrow", "waits"), [(True, True, False), (False, True, True), (True, False, True)])
def test_a_lending_budget_lets_only_those_wait_that_may_not_borrow(preemptible, borrow, waits):
    site = site_with(budgets=(LENDING,), profiles=(PolicyProfile(name="one", borrow=borrow),))
    job = site.admit("a", preemptible=preemptible)
    state_gate(site, spent=("gpu per week",))
    assert (gated(job) is WaitReason.BUDGET_EXHAUSTED, must_borrow(dev(site))) == (waits, True)


def test_of_two_budgets_the_one_that_waits_counts():
    site = site_with(budgets=(LENDING, DAILY))
    job = site.admit("a")
    state_gate(site, spent=("gpu per week", "gpu per day"))
    assert spent_for(job) == DAILY


def test_a_policy_that_is_written_anew_is_looked_at_anew():
    site = site_with(windows=(MORNING,))
    state_gate(site, shut=True)
    site.law(policy())
    assert dev(site).gate is None


def test_what_is_closed_may_not_start_either():
    site = site_with()
    job = site.admit("a")
    site.append_facts(f.ObjectClosedV1(author="a.b", kind="pool", name="hall", mode="freeze"))
    assert not may_start(site.state, job, "hall")


def test_windows_follow_the_calendar_of_their_zone():
    berlin = d.Window(days=("fri",), opens=13 * 60, closes=14 * 60, timezone="Europe/Berlin")
    site = site_with(windows=(berlin,))
    assert gate_values(site) == (True, False, ())
    site.append_facts(f.CalendarStatedV1(zone="Europe/Berlin", offsets=((0, 3_600),), until=2 * NOON))
    assert gate_values(site) == (False, False, ())


def test_the_gate_of_a_policy_that_is_gone_has_no_owner():
    site = site_with(windows=(MORNING,))
    site.append_facts(f.PolicyDeletedV1(author="a.b", tenant="default", name="dev"))
    state_gate(site, shut=True)
    assert site.state.terms.timed == {}
