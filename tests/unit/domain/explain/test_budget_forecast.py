"""R33: budgets warn before they bite."""

from __future__ import annotations

import pytest

from headrace.contracts.documents.model import Budget
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import HOUR, MINUTE, parse_time
from headrace.domain.explain.budget_forecast import runs_out, warning, warnings
from tests.unit.domain.site import Site, place, policy

DAILY = Budget(key=GPU, hours=10, per="day")
MORNING = parse_time("2026-11-21T06:00Z")


@pytest.fixture
def site():
    site = Site(policy(budgets=(DAILY,)))
    site.now = MORNING
    site.law(policy(budgets=(DAILY,)))
    site.node("n1", 4)
    return site


def dev(site):
    return site.state.policies["default", "dev"]


def test_it_runs_out_when_what_is_held_now_has_used_the_rest(site):
    assert runs_out(dev(site), DAILY, site.now) is None
    assert warning(dev(site), DAILY, site.now) == ""
    site.run("a", place("n1", 0))
    assert runs_out(dev(site), DAILY, site.now) == MORNING + 10 * HOUR
    site.run("b", place("n1", 1), place("n1", 2), queue="dev/gang")
    site.now += HOUR
    assert runs_out(dev(site), DAILY, site.now) == MORNING + 200 * MINUTE
    assert warning(dev(site), DAILY, site.now) == (
        "3.000 of 10 hours of gpu are used this day, and what runs now uses it up at 2026-11-21T09:20:00.000Z; then new jobs wait"
    )


def test_what_lasts_beyond_the_period_is_not_a_reason_to_warn(site):
    site.now = parse_time("2026-11-21T20:00Z")
    site.run("a", place("n1", 0))
    assert runs_out(dev(site), DAILY, site.now) is None
    assert list(warnings(dev(site), site.now)) == []


def test_one_that_is_nearly_used_up_is_said_though_nothing_runs(site):
    job = site.run("a", place("n1", 0))
    site.now += 8 * HOUR
    site.leave(job)
    assert list(warnings(dev(site), site.now)) == [
        "budget gpu per day of policy dev: 8.000 of 10 hours of gpu are used this day; the next begins at 2026-11-22T00:00:00.000Z"
    ]


def test_one_that_is_used_up_says_what_happens_meanwhile(site):
    site.run("a", place("n1", 0))
    site.now += 10 * HOUR + MINUTE
    assert runs_out(dev(site), DAILY, site.now) == site.now
    line = warning(dev(site), DAILY, site.now)
    assert line.endswith("are used this day: used up until 2026-11-22T00:00:00.000Z, new jobs wait meanwhile")


def test_a_period_that_has_ended_says_nothing(site):
    site.run("a", place("n1", 0))
    meter = dev(site).meters["gpu per day"]
    assert runs_out(dev(site), DAILY, meter.ends) is None
    assert warning(dev(site), DAILY, meter.ends) == ""
