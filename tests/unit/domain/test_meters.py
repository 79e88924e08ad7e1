from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.amounts import CPU, GPU
from headrace.contracts.documents import Budget
from headrace.contracts.durations import DAY, HOUR, SECOND, parse_time
from headrace.domain.meters import ceiling, count, hours, name_of, used
from headrace.domain.snapshot import copy_of, dump, load
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


def spent(site, name="gpu per day"):
    dev = site.state.policies["default", "dev"]
    meter = dev.meters[name]
    return hours(meter.key, used(dev, meter, site.now))


def test_use_is_what_is_held_times_how_long_to_the_microsecond(site):
    job = site.run("a", place("n1", 0))
    site.now += 90 * 60 * SECOND
    site.run("b", place("n1", 1), place("n1", 2), queue="dev/gang")
    site.now += 30 * 60 * SECOND
    assert spent(site) == "3.000"
    site.leave(job)
    site.now += HOUR
    assert spent(site) == "5.000"
    dev = site.state.policies["default", "dev"]
    site.now += 1
    assert used(dev, dev.meters["gpu per day"], site.now) == 5 * HOUR * 126_000 + 2 * 126_000


def test_a_trial_that_is_undone_leaves_no_trace(site):
    site.run("a", place("n1", 0))
    dev = site.state.policies["default", "dev"]
    meter = dev.meters["gpu per day"]
    before = (meter.seconds, meter.rest)
    site.now += 12_345_678
    count(dev, {GPU: 77, CPU: 5}, site.now, 1)
    assert (meter.seconds, meter.rest) != before
    count(dev, {GPU: 77, CPU: 5}, site.now, -1)
    assert (meter.seconds, meter.rest) == before


def test_a_new_period_begins_with_what_runs_on(site):
    site.run("a", place("n1", 0))
    site.now = parse_time("2026-11-21T23:00Z")
    assert spent(site) == "17.000"
    site.now = parse_time("2026-11-24T02:00Z")
    site.admit("b")
    assert spent(site) == "2.000"


def test_a_budget_counts_from_when_it_is_written_and_goes_on_when_it_is_written_again(site):
    site.run("a", place("n1", 0))
    site.now += HOUR
    site.law(policy(budgets=(DAILY, Budget(key=GPU, hours=5, per="month"))))
    site.now += HOUR
    assert (spent(site), spent(site, "gpu per month")) == ("2.000", "1.000")
    site.law(policy(budgets=(Budget(key=GPU, hours=99, per="day"),)))
    assert spent(site) == "2.000"
    assert list(site.state.policies["default", "dev"].meters) == ["gpu per day"]


def test_what_was_counted_before_a_policy_was_deleted_belongs_to_its_period(site):
    site.run("a", place("n1", 0))
    site.now += HOUR
    site.say(f.PolicyDeletedV1(author="a.b", tenant="default", name="dev"))
    site.now = parse_time("2026-11-22T03:00Z")
    site.law(policy(budgets=(DAILY,)))
    assert spent(site) == "3.000"


def test_use_survives_snapshots(site):
    site.run("a", place("n1", 0))
    site.now += HOUR
    for state in (load(dump(site.state)), copy_of(site.state)):
        dev = state.policies["default", "dev"]
        assert used(dev, dev.meters["gpu per day"], site.now) == HOUR * 126_000
        assert state.terms.timed == {("default", "dev"): dev}
        assert state.terms.period_ends == MORNING - 6 * HOUR + DAY


def test_budgets_are_in_hours_of_what_people_name():
    keys = {"gpu": 126_000, "cpu": 1_000, "memory": 1_024, "license/abaqus": 1}
    for key, units in keys.items():
        assert ceiling(Budget(key=key, hours=3)) == 3 * HOUR * units
        assert hours(key, 3 * HOUR * units - 1) == "2.999"
    assert name_of(Budget(key="gpu", hours=1, per="week")) == "gpu per week"
