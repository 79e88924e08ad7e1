"""When a waiting job may start, by the time limits of those who run; looking ahead changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.values.durations import SECOND
from headrace.domain.explain import forecast as module
from headrace.domain.explain.forecast import (
    BY_GRACE,
    BY_GROWTH,
    BY_HISTORY,
    IN_TURN,
    NEVER_OPENS,
    NO_LIMIT,
    NO_NEW_JOB,
    OVERDUE,
    OVERTAKEN,
    UNKNOWN_DEPENDENCY,
    expected_start,
)
from headrace.domain.explain.forecast import BY_LIMITS as LIMITS
from headrace.domain.model.jobs import JobRecord
from tests.unit.domain.site import START, Site, gpus, place, policy, pool, profile
from tests.unit.domain.snapshot import differences, kept, naive, snapshot

BY_LIMITS = f"{LIMITS}, {NO_NEW_JOB}"
BEHIND_OTHERS = f"{LIMITS}, {IN_TURN}, {NO_NEW_JOB}"


@pytest.fixture
def site() -> Site:
    """A node of two GPUs, under two policies."""
    made = Site(policy("dev"), policy("ops", reservation=gpus(1)))
    made.node(count=2)
    return made


def start_of(site: Site, job: JobRecord, *, later: int = 0) -> tuple[int | None, str]:
    """The expected start in seconds after the beginning, `later` seconds from now."""
    before = snapshot(site.state)
    pools = list(site.state.pools.values())
    moment, assumption, _ = expected_start(site.state, job, pools, site.now + later * SECOND)
    assert differences(before, snapshot(site.state)) == []
    return None if moment is None else (moment - START) // SECOND, assumption


def test_without_a_running_job_no_limit_tells(site):
    assert start_of(site, site.admit("a", request=gpus(3))) == (None, NO_LIMIT)


def test_the_first_end_that_makes_room(site):
    site.run("late", place("n1", 0), time_limit=90 * SECOND)
    site.run("soon", place("n1", 1), time_limit=60 * SECOND)
    two = start_of(site, site.admit("two", "dev/two"))
    assert [two, start_of(site, site.admit("one", priority=1))] == [(90, BY_LIMITS), (60, BY_LIMITS)]


def test_a_limit_counts_from_the_real_start(site):
    job = site.admit("a", time_limit=60 * SECOND)
    site.admit("b")
    site.grant(job, place("n1", 0, 1))
    waiting = site.admit("c")
    seen = [start_of(site, waiting)]
    site.now += 10 * SECOND
    site.start(job)
    assert [*seen, start_of(site, waiting)] == [(None, NO_LIMIT), (70, BEHIND_OTHERS)]


def test_one_without_a_limit_may_be_in_the_way_for_ever(site):
    site.run("a", place("n1", 0))
    site.run("b", place("n1", 1), time_limit=60 * SECOND)
    assert [start_of(site, site.admit(name, f"dev/{name}")) for name in ("one", "two")] == [(60, BY_LIMITS), (None, NO_LIMIT)]


def test_one_that_is_past_its_limit_ends_now_and_not_in_the_past(site):
    site.run("a", place("n1", 0, 1), time_limit=60 * SECOND)
    assert start_of(site, site.admit("b"), later=100) == (100, BY_LIMITS)


def test_one_that_is_being_stopped_ends_with_its_grace_whatever_its_limit(site):  # R28
    job = site.run("a", place("n1", 0, 1), time_limit=999 * SECOND)
    site.stop(job, "cancelled", callback=20 * SECOND, term=5 * SECOND)
    assert start_of(site, site.admit("b")) == (25, BY_LIMITS)


def test_the_end_of_an_overdue_job_is_unknown(site):  # R28
    job = site.run("a", place("n1", 0, 1))
    site.stop(job, "cancelled")
    site.append_facts(f.LeaseOverdueV1(job=job.key, attempt=1, node="n1"), by="preemption")
    assert start_of(site, site.admit("b")) == (None, NO_LIMIT)


def test_a_gang_ends_on_all_its_nodes_at_once():
    site = Site()
    for name in ("n1", "n2"):
        site.node(name, 1)
    site.run("gang", place("n1", 0), place("n2", 0, job=False), queue="dev/gang", time_limit=60 * SECOND)
    assert start_of(site, site.admit("more", "dev/gang")) == (60, BY_LIMITS)


def test_its_own_limit_has_to_allow_it_as_well():
    site = Site(policy("dev", limit=gpus(1)), policy("ops"))
    site.node(count=3)
    site.run("mine", place("n1", 0), time_limit=90 * SECOND)
    site.run("theirs", place("n1", 1, 2), queue="ops/two", time_limit=60 * SECOND)
    waits, exceeds = site.admit("a"), site.admit("b", "dev/two")
    assert [start_of(site, job) for job in (waits, exceeds)] == [(90, BY_LIMITS), (None, NO_LIMIT)]


def test_a_member_who_may_exceed_the_limit_starts_earlier():  # R12
    site = Site(policy("dev", limit=gpus(1), beyond_limit=("eve",)))
    site.node(count=2)
    site.run("a", place("n1", 0), time_limit=90 * SECOND)
    site.run("b", place("n1", 1), user="eve", time_limit=60 * SECOND)
    assert start_of(site, site.admit("c", user="eve")) == (60, BY_LIMITS)


def test_the_capacity_of_the_pool_has_to_allow_it_as_well():  # R6
    site = Site(pools=(pool(capacity=gpus(1)),))
    site.node(count=2)
    site.run("a", place("n1", 0), time_limit=60 * SECOND)
    assert start_of(site, site.admit("b")) == (60, BY_LIMITS)


def test_ends_in_another_pool_do_not_help_here():
    site = Site(pools=(pool(), pool("annex")))
    site.node("n1", 1)
    site.node("n2", 1, pool="annex")
    site.run("here", place("n1", 0), time_limit=90 * SECOND)
    site.run("there", place("n2", 0), pool="annex", time_limit=60 * SECOND)
    assert start_of(site, site.admit("c")) == (90, BY_LIMITS)


def test_what_is_kept_for_a_preemptor_is_not_free_for_others_when_its_victim_leaves(site):  # R27
    victim = site.run("victim", place("n1", 0))
    site.run("other", place("n1", 1), time_limit=300 * SECOND)
    site.order(site.admit("preemptor", "ops/one"), (victim,), place("n1", 0))
    site.stop(victim)
    assert start_of(site, site.admit("a")) == (300, BY_LIMITS)


def test_use_that_yields_is_out_of_the_accounts_once_and_not_twice():  # R17
    site = Site(policy("dev", limit=gpus(2)), policy("ops", reservation=gpus(1)))
    site.node(count=4)
    victim = site.run("victim", place("n1", 0))
    site.run("other", place("n1", 1), time_limit=300 * SECOND)
    site.order(site.admit("preemptor", "ops/one"), (victim,), place("n1", 0))
    site.stop(victim)
    assert start_of(site, site.admit("a", "dev/two")) == (300, BY_LIMITS), "the limit of two has room when the other ends"


def test_a_preemptor_starts_when_the_last_of_those_that_make_room_is_gone(site):  # R27
    victims = [site.run(name, place("n1", number)) for number, name in enumerate("ab")]
    preemptor = site.admit("preemptor", "ops/two")
    site.order(preemptor, tuple(victims), place("n1", 0, 1))
    for number, victim in enumerate(victims):
        site.stop(victim, callback=(10 + number) * SECOND, term=SECOND)
    seen = [start_of(site, preemptor)]
    for victim in reversed(victims):
        site.leave(victim)
        seen.append(start_of(site, preemptor))
    assert seen == [(12, BY_GRACE), (11, BY_GRACE), (0, BY_GRACE)]


def test_a_preemptor_does_not_know_when_one_that_is_overdue_will_make_room(site):  # R28
    victim = site.run("victim", place("n1", 0))
    preemptor = site.admit("preemptor", "ops/one")
    site.order(preemptor, (victim,), place("n1", 0))
    site.stop(victim)
    site.append_facts(f.LeaseOverdueV1(job=victim.key, attempt=1, node="n1"), by="preemption")
    assert start_of(site, preemptor) == (None, OVERDUE)


def test_jobs_that_rank_before_it_go_first_and_end_in_their_turn(site):  # R15
    site.run("a", place("n1", 0, 1), time_limit=60 * SECOND)
    site.admit("first", "dev/two", time_limit=30 * SECOND)
    site.admit("second", "dev/two", time_limit=20 * SECOND)
    assert start_of(site, site.admit("third", "dev/two")) == (110, BEHIND_OTHERS)


def test_jobs_that_rank_behind_it_take_what_it_has_no_room_for(site):  # R16
    site.run("a", place("n1", 0), time_limit=60 * SECOND)
    site.run("b", place("n1", 1), time_limit=90 * SECOND)
    site.admit("small", time_limit=40 * SECOND)
    assert start_of(site, site.admit("large", "dev/two", priority=1)) == (100, f"{LIMITS}, {OVERTAKEN}, {NO_NEW_JOB}")


def test_until_it_has_waited_so_long_that_what_it_needs_is_kept_for_it(site):  # R16
    site.law(pool(backfill_for=50 * SECOND))
    site.run("a", place("n1", 0), time_limit=60 * SECOND)
    site.run("b", place("n1", 1), time_limit=90 * SECOND)
    site.admit("small", time_limit=40 * SECOND)
    assert start_of(site, site.admit("large", "dev/two", priority=1)) == (90, BY_LIMITS)


def test_what_is_kept_for_others_is_kept_from_it_until_they_have_started(site):  # R16
    site.run("a", place("n1", 0), time_limit=60 * SECOND)
    site.run("b", place("n1", 1), time_limit=90 * SECOND)
    large = site.admit("large", "dev/two", priority=1, time_limit=30 * SECOND)
    small = site.admit("small")
    assert start_of(site, small) == (60, BY_LIMITS)

    site.append_facts(f.HoldPlacedV1(job=large.key, pool="hall", places=(place("n1", 0, 1),)), by="allocator")
    assert start_of(site, small) == (120, BEHIND_OTHERS)


def test_what_is_kept_for_one_that_can_never_start_there_any_more_is_kept_no_longer(site):  # R16
    site.run("a", place("n1", 0), time_limit=60 * SECOND)
    site.run("b", place("n1", 1), preemptible=False)
    large, small = site.admit("large", "dev/two", priority=1), site.admit("small")
    site.append_facts(f.HoldPlacedV1(job=large.key, pool="hall", places=(place("n1", 0, 1),)), by="allocator")
    assert start_of(site, small) == (60, BY_LIMITS)


def clouds(*, max_nodes: int = 2, profile_name: str = "one") -> tuple[Site, JobRecord]:
    """A hall of one GPU, which is taken, before a cloud that can grow by nodes of two; the job that has asked for one."""
    burst = d.Burst(provider="x", node=d.BurstNode(gpus=2, gpu_model="H100"), max_nodes=max_nodes, boot=60 * SECOND)
    site = Site(pools=(pool(), pool("cloud", burst=burst)))
    site.law(*(profile(name, gpus(count), pools=("hall", "cloud")) for name, count in (("one", 1), ("two", 2))))
    site.node(count=1)
    site.run("a", place("n1", 0), time_limit=600 * SECOND)
    job = site.admit("first", f"dev/{profile_name}", time_limit=100 * SECOND)
    site.append_facts(f.GrowthRequestedV1(pool="cloud", nodes=1, jobs=(job.key,)), by="allocator")
    return site, job


GROWN = f"{LIMITS}, {BY_GROWTH}, {NO_NEW_JOB}"


def test_nodes_that_were_asked_for_are_there_when_they_have_booted():  # R38
    site, job = clouds()
    assert start_of(site, job, later=20) == (60, GROWN)
    assert start_of(site, job, later=70) == (70, GROWN)


def test_a_pool_that_has_grown_for_others_is_asked_again_when_those_have_started():  # R38
    site, _ = clouds(profile_name="two")
    second = site.admit("second", "dev/two")
    assert start_of(site, second) == (120, f"{LIMITS}, {BY_GROWTH}, {IN_TURN}, {NO_NEW_JOB}")

    site, _ = clouds(profile_name="two", max_nodes=1)
    assert start_of(site, site.admit("second", "dev/two"))[0] == 160


def test_a_pool_that_is_closed_for_growth_is_asked_when_it_is_opened():  # R38
    site, job = clouds()
    closed = site.now + 300 * SECOND
    site.append_facts(f.GrowthEndedV1(pool="cloud", outcome="late", nodes=0, closed_until=closed), by="allocator")
    assert start_of(site, job) == (360, GROWN)


def test_one_that_its_own_limit_keeps_out_asks_for_no_nodes():  # R38
    site, job = clouds()
    site.append_facts(f.GrowthEndedV1(pool="cloud", outcome="failed", nodes=0), by="allocator")
    site.law(policy("dev", limit=gpus(1), profiles=(d.PolicyProfile(name="one"),)))
    assert start_of(site, job) == (600, BY_LIMITS)


def test_those_of_another_policy_go_first_while_they_are_inside_their_reservation_and_no_longer():  # R15 (1)
    site = Site(policy("dev"), policy("ops", reservation=gpus(1)))
    site.node(count=1)
    site.run("a", place("n1", 0), time_limit=60 * SECOND)
    mine = site.admit("mine")
    for name in ("o1", "o2"):
        site.admit(name, "ops/one", time_limit=30 * SECOND)
    assert start_of(site, mine) == (120, BEHIND_OTHERS), "each of them is inside when it is its turn"
    site.append_facts(f.PolicyAppliedV1(author="a.b", policy=policy("ops")), by="governance")
    assert start_of(site, mine) == (60, BY_LIMITS)


def test_one_that_its_own_limit_keeps_out_is_before_no_other():  # R16
    site = Site(policy("dev"), policy("ops", limit=gpus(1)))
    site.node(count=2)
    site.run("o", place("n1", 0), queue="ops/one")
    site.run("a", place("n1", 1), time_limit=60 * SECOND)
    site.admit("blocked", "ops/one", priority=9)
    assert start_of(site, site.admit("mine")) == (60, BY_LIMITS)


def test_without_a_limit_the_runs_of_its_queue_tell_how_long_one_takes(site):
    by_history = f"{LIMITS}, {BY_HISTORY}, {NO_NEW_JOB}"
    for number, seconds in enumerate((20, 40, 90)):
        run = site.run(f"past-{number}", place("n1", 0))
        site.now += seconds * SECOND
        site.leave(run)
        site.append_facts(f.JobEndedV1(job=run.key, attempt=1, state="succeeded", cause="exited", exit_code=0), by="allocator")
    began = (site.now - START) // SECOND
    site.run("a", place("n1", 0, 1))
    waiting = site.admit("b")
    assert start_of(site, waiting) == (began + 50, by_history)
    assert start_of(site, waiting, later=45) == (began + 90, by_history), "of those that ran longer than it has by now"
    assert start_of(site, waiting, later=95) == (None, NO_LIMIT)


def test_a_job_with_a_dependency_starts_behind_its_end(site):
    first = site.run("first", place("n1", 0), time_limit=60 * SECOND)
    second = site.run("second", place("n1", 1))
    waits = site.admit("waits", after=(Dependency(job=first.key),))
    unknown = site.admit("unknown", after=(Dependency(job=second.key),))
    assert [start_of(site, job) for job in (waits, unknown)] == [(60, BY_LIMITS), (None, UNKNOWN_DEPENDENCY)]


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def gated_site(gate, **terms):
    """`dev` has a gate; of its two GPUs one is free, the other will be."""
    site = Site(policy("dev", **terms), policy("ops"))
    site.node(count=2)
    site.run("a", place("n1", 0), queue="ops/one", time_limit=60 * SECOND)
    site.append_facts(f.PolicyGatedV1(tenant="default", policy="dev", **gate), by="allocator")
    return site


def test_outside_its_window_a_job_starts_when_the_next_opens_behind_those_who_wait_for_it_too():  # R33
    site = gated_site({"shut": True}, windows=(d.Window(days=DAYS, opens=14 * 60, closes=15 * 60),))
    opens = 14 * 3_600 - (START // SECOND) % 86_400
    site.admit("first", "dev/two", time_limit=60 * SECOND)
    start, assumption = start_of(site, site.admit("second", "dev/two"))
    assert (start, assumption.partition(" from ")[0]) == (opens + 60, "its policy's windows and budgets let it start")
    assert start_of(site, site.admit("other", "ops/one"))[0] == 0, "those of other policies need not wait"


def test_without_its_budget_a_job_starts_when_the_next_period_begins():  # R33
    site = gated_site({"spent": ("gpu per day",)}, budgets=(d.Budget(key="gpu", hours=0, per="day"),))
    assert start_of(site, site.admit("b"))[0] == 86_400 - (START // SECOND) % 86_400


def test_a_window_that_never_opens_again_is_told():
    site = gated_site({"shut": True})
    assert start_of(site, site.admit("b")) == (None, NEVER_OPENS)


def test_what_is_too_far_ahead_is_told_by_the_pace_up_to_there(site, monkeypatch):
    site.run("a", place("n1", 0, 1), time_limit=60 * SECOND)
    for number in range(20):
        site.admit(f"j{number}", "dev/two", time_limit=10 * SECOND)
    job = site.admit("last", "dev/two")
    assert start_of(site, job) == (260, BEHIND_OTHERS)
    monkeypatch.setattr(module, "EFFORT_MAX", 25)
    start, assumption = start_of(site, job)
    assert (start, assumption.partition(" until ")[0]) == (250, "at the pace at which those before it start")


def test_without_a_start_up_to_there_no_pace_tells(site, monkeypatch):
    monkeypatch.setattr(module, "EFFORT_MAX", 0)
    for number in (0, 1):
        site.run(f"a{number}", place("n1", number), time_limit=(60 + number) * SECOND)
    start, assumption = start_of(site, site.admit("two", "dev/two"))
    assert (start, assumption.partition(": ")[0]) == (None, "more happens before it than is looked ahead")


@given(
    st.lists(st.tuples(st.sampled_from([1, 1, 2]), st.none() | st.integers(1, 5), st.booleans()), max_size=5),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_the_forecast_comes_true_if_all_jobs_end_as_assumed(running, wanted, limit):
    site = Site(policy("dev", limit=gpus(limit)), policy("ops"))
    site.node(count=4)
    opened, jobs = 0, []
    for number, (count, seconds, ours) in enumerate(running):
        if opened + count <= 4 and (not ours or site.state.policies["default", "dev"].wide.use.get("gpu", 0) == 0):
            devices = range(opened, opened + count)
            fields = {"queue": "dev/one" if ours else "ops/one", "time_limit": seconds and seconds * SECOND}
            jobs.append((seconds, site.run(f"j{number}", place("n1", *devices), request=gpus(count), **fields)))
            opened += count
    job = site.admit("waits", request=gpus(wanted))
    forecast = start_of(site, job)
    assert kept(site.state) == naive(site.state)
    free = sum(device.open for device in site.state.nodes["n1"].devices)
    held = job.policy.wide.use.get("gpu", 0)
    fits_now = free >= gpus(wanted)["gpu"] and held + gpus(wanted)["gpu"] <= gpus(limit)["gpu"]
    expected = 0 if fits_now else None
    for seconds, one in sorted((pair for pair in jobs if pair[0]), key=lambda pair: pair[0]):
        site.leave(one)
        ours = job.policy.wide.use.get("gpu", 0)
        free = sum(device.open for device in site.state.nodes["n1"].devices)
        if expected is None and free >= gpus(wanted)["gpu"] and ours + gpus(wanted)["gpu"] <= gpus(limit)["gpu"]:
            expected = seconds
    assert forecast == ((None, NO_LIMIT) if expected is None else (expected, BY_LIMITS))
