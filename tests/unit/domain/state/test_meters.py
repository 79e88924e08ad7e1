from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Budget
from headrace.contracts.facts.levels import FIRST, LEVEL, RELEASES
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import DAY, HOUR, SECOND, parse_time
from headrace.domain.snapshots.snapshot import copy_of, dump, load
from headrace.domain.state.meters import ceiling, hours, name_of, used
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
    return hours(meter.key, used(meter, site.now))


def started(site, job, rank):
    site.append_facts(f.LeaseStartedV1(job=job.key, attempt=job.attempt, rank=rank, at=site.now), by="node.n1")


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
    assert used(dev.meters["gpu per day"], site.now) == 5 * HOUR * 126_000 + 2 * 126_000


def test_what_is_granted_is_charged_when_all_replicas_have_started_and_not_before(site):
    gang = site.admit("gang", queue="dev/gang")
    site.grant(gang, place("n1", 0), place("n1", 1))
    site.now += HOUR
    assert spent(site) == "0.000"
    started(site, gang, 0)
    site.now += HOUR
    assert spent(site) == "0.000"
    started(site, gang, 1)
    site.now += HOUR
    assert spent(site) == "2.000"


def test_a_start_that_never_came_is_not_charged(site):
    for outcome in ("refused", "never_started", "lost"):
        job = site.admit(outcome)
        site.grant(job, place("n1", 0))
        site.now += HOUR
        ending = {"outcome": outcome, "exited_at": site.now, "at": site.now}
        site.append_facts(f.LeaseEndedV1(job=job.key, attempt=1, **ending), by="node.n1")
    assert spent(site) == "0.000"


def test_a_resumption_is_charged_from_when_the_node_says_that_it_runs(site):
    job = site.run("a", place("n1", 0))
    site.now += HOUR
    site.append_facts(f.LeaseSuspendedV1(job=job.key, attempt=1, at=site.now), by="node.n1")
    site.now += HOUR
    site.append_facts(f.ResumeOrderedV1(job=job.key, attempt=1), by="allocator")
    site.now += HOUR
    assert spent(site) == "1.000"
    site.append_facts(f.LeaseResumedV1(job=job.key, attempt=1, at=site.now), by="node.n1")
    site.now += HOUR
    assert spent(site) == "2.000"


def test_what_was_granted_before_rules_were_amended_is_charged_from_its_grant(site):
    site.state.terms.level = FIRST
    early = site.admit("early")
    site.grant(early, place("n1", 0))
    site.now += HOUR
    site.append_facts(f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]))
    late = site.admit("late")
    site.grant(late, place("n1", 1))
    site.now += HOUR
    assert spent(site) == "2.000"
    site.start(early)
    site.start(late)
    site.now += HOUR
    assert spent(site) == "4.000"


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
    site.append_facts(f.PolicyDeletedV1(author="a.b", tenant="default", name="dev"))
    site.now = parse_time("2026-11-22T03:00Z")
    site.law(policy(budgets=(DAILY,)))
    assert spent(site) == "3.000"


def test_use_survives_snapshots(site):
    site.run("a", place("n1", 0))
    site.now += HOUR
    for state in (load(dump(site.state)), copy_of(site.state)):
        dev = state.policies["default", "dev"]
        assert used(dev.meters["gpu per day"], site.now) == HOUR * 126_000
        assert state.terms.timed == {("default", "dev"): dev}
        assert state.terms.period_ends == MORNING - 6 * HOUR + DAY


def test_budgets_are_in_hours_of_what_people_name():
    keys = {"gpu": 126_000, "cpu": 1_000, "memory": 1_024, "license/abaqus": 1}
    for key, units in keys.items():
        assert ceiling(Budget(key=key, hours=3)) == 3 * HOUR * units
        assert hours(key, 3 * HOUR * units - 1) == "2.999"
    assert name_of(Budget(key="gpu", hours=1, per="week")) == "gpu per week"
