"""When asking again for victims is worth two records (R19): after a change, after a back-off, or when a protection has ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.facts import LeaseOverdueV1
from headrace.contracts.values.durations import MILLISECOND, SECOND
from headrace.domain.indexes.pending import group_key
from headrace.domain.model.jobs import JobRecord
from headrace.domain.state import search_backoff
from headrace.domain.state.pools import PoolState
from tests.unit.domain.site import Site, place, policy, pool

MS = MILLISECOND


@pytest.fixture
def site() -> Site:
    return Site(policy("dev"), policy("ops"))


def hall_of(site: Site) -> PoolState:
    hall = site.state.pools["hall"]
    hall.epoch = 7
    return hall


def asked(hall: PoolState, job: JobRecord, now: int) -> tuple[bool, int | None]:
    """Whether a search is worthwhile, and when some search in the pool will be by time alone."""
    return search_backoff.is_worthwhile(hall, job, now), search_backoff.next_worthwhile(hall, now)


def test_a_request_that_was_never_searched_for_is_worth_a_search_even_in_a_pool_at_rest(site):
    hall, job, other = hall_of(site), site.admit("a"), site.admit("b", "dev/two")
    search_backoff.note_failed_search(hall, other, 0)
    assert (search_backoff.was_searched(hall, job), *asked(hall, job, 0)) == (False, True, None)
    assert (search_backoff.was_searched(hall, other), *asked(hall, other, 0)) == (True, False, None)


def test_jobs_of_one_group_get_the_same_answer(site):
    jobs = {
        "same": site.admit("a"),
        "another user": site.admit("b", user="bob", priority=9),
        "another promise": site.admit("e", preemptible=False),
        "another request": site.admit("c", "dev/two"),
        "another policy": site.admit("d", "ops/one"),
    }
    hall = hall_of(site)
    search_backoff.note_failed_search(hall, jobs["same"], 0)
    assert {name: search_backoff.was_searched(hall, job) for name, job in jobs.items()} == {
        "same": True,
        "another user": True,
        "another promise": False,
        "another request": False,
        "another policy": False,
    }


def test_a_member_beyond_the_limits_and_a_job_that_avoids_nodes_are_asked_for_by_themselves(site):
    hall, job = hall_of(site), site.admit("a")
    search_backoff.note_failed_search(hall, job, 0)
    job.beyond = True
    assert not search_backoff.was_searched(hall, job)
    job.beyond, job.avoiding = False, ("n1",)
    assert not search_backoff.was_searched(hall, job)


def test_what_changes_in_one_pool_is_looked_at_in_all_because_sides_are_counted_over_all(site):
    site.law(pool("annex"))
    hall, job = site.state.pools["hall"], site.admit("a")
    site.node()
    site.node("far", pool="annex")
    search_backoff.note_failed_search(hall, job, site.now)
    assert not search_backoff.is_worthwhile(hall, job, site.now + SECOND)
    site.run("b", place("far", 0), queue="ops/one", pool="annex")
    assert search_backoff.is_worthwhile(hall, job, site.now + SECOND)


def test_who_is_overdue_is_no_longer_counted_on_so_others_are_looked_for(site):
    site.node()
    victim, hall, job = site.run("v", place("n1", 0)), site.state.pools["hall"], site.admit("a", "ops/one")
    site.stop(victim)
    search_backoff.note_failed_search(hall, job, site.now)
    site.append_facts(LeaseOverdueV1(job=victim.key, attempt=1, node="n1"), by="preemption")
    assert search_backoff.is_worthwhile(hall, job, site.now + SECOND)


def test_while_nothing_has_changed_it_is_not_asked_again_however_long_it_takes(site):
    hall, job = hall_of(site), site.admit("a")
    search_backoff.note_failed_search(hall, job, 0)
    assert asked(hall, job, 3600 * SECOND) == (False, None)


def test_after_a_change_it_is_asked_again_once_its_backoff_is_over(site):
    hall, job = hall_of(site), site.admit("a")
    search_backoff.note_failed_search(hall, job, 0)
    hall.epoch += 1
    assert [asked(hall, job, now) for now in (0, 10 * MS - 1, 10 * MS)] == [(False, 10 * MS), (False, 10 * MS), (True, None)]


def test_the_backoff_doubles_with_every_failed_search_up_to_a_second_and_ends_when_victims_are_found(site):
    hall, job, backoffs = hall_of(site), site.admit("a"), []
    for now in range(0, 90, 10):
        search_backoff.note_failed_search(hall, job, now)
        backoffs.append((hall.backoff_until - now) // MS)
    assert backoffs == [10, 20, 40, 80, 160, 320, 640, 1000, 1000]
    search_backoff.note_found_victims(hall)
    assert (hall.backoff, hall.backoff_until) == (0, 0)
    search_backoff.note_failed_search(hall, job, SECOND)
    assert hall.backoff_until == SECOND + 10 * MS


def test_the_end_of_a_protection_makes_a_search_worthwhile_at_once(site):  # R25
    hall, job = hall_of(site), site.admit("a")
    search_backoff.note_failed_search(hall, job, 0, protected=2, retry_at=5 * MS)
    last = hall.failed_searches[group_key(job)]
    assert (last.epoch, last.protected, last.retry_at) == (7, 2, 5 * MS)
    assert [asked(hall, job, now) for now in (0, 5 * MS)] == [(False, 5 * MS), (True, 10 * MS)]
    hall.epoch += 1
    assert [asked(hall, job, now) for now in (0, 5 * MS)] == [(False, 5 * MS), (True, 10 * MS)]


def test_the_earlier_end_of_backoff_and_protection_is_returned(site):
    hall, job = hall_of(site), site.admit("a")
    search_backoff.note_failed_search(hall, job, 0, retry_at=SECOND)
    hall.epoch += 1
    assert [asked(hall, job, now) for now in (0, 10 * MS, SECOND)] == [(False, 10 * MS), (True, SECOND), (True, None)]


def test_the_next_retry_is_the_first_that_lies_ahead_of_all_requests(site):
    hall, seen = hall_of(site), []
    for queue, retry_at in {"dev/one": 30 * MS, "dev/two": 20 * MS, "dev/half": None, "dev/gang": 5 * MS}.items():
        search_backoff.note_failed_search(hall, site.admit(queue[4:], queue), 10 * MS, retry_at=retry_at)
        seen.append(hall.next_retry // MS)
    assert seen == [30, 20, 20, 20]


def test_a_protection_that_ended_while_another_was_searched_for_is_searched_for_after_the_backoff(site):
    hall, job, other = hall_of(site), site.admit("a"), site.admit("b", "dev/two")
    search_backoff.note_failed_search(hall, job, 0, protected=1, retry_at=5 * MS)
    search_backoff.note_failed_search(hall, other, 6 * MS)
    assert (search_backoff.is_backing_off(hall, 6 * MS), hall.backoff_until) == (True, 26 * MS)
    assert [asked(hall, job, now) for now in (6 * MS, 26 * MS)] == [(True, 26 * MS), (True, None)]


@pytest.mark.parametrize(
    ("backoff_until", "next_retry", "backing_off"),
    [
        pytest.param(0, 0, False, id="never searched"),
        pytest.param(10, 0, False, id="the back-off is over at its end"),
        pytest.param(11, 0, True, id="within the back-off"),
        pytest.param(11, 11, True, id="a protection ends later"),
        pytest.param(11, 10, False, id="a protection has ended"),
        pytest.param(0, 9, False, id="no back-off"),
    ],
)
def test_whether_a_pool_is_backing_off(site, backoff_until, next_retry, backing_off):
    hall = hall_of(site)
    hall.backoff_until, hall.next_retry = backoff_until, next_retry
    assert search_backoff.is_backing_off(hall, 10) is backing_off


MOVES = st.lists(
    st.tuples(st.just("none"), st.integers(0, 2), st.none() | st.integers(1, 40))
    | st.tuples(st.just("change"))
    | st.tuples(st.just("ordered"))
    | st.tuples(st.just("wait"), st.integers(1, 30)),
    max_size=12,
)

SITE = Site()
JOBS = [SITE.admit(name, f"dev/{name}") for name in ("one", "two", "half")]


@given(MOVES)
def test_a_search_is_worthwhile_when_it_was_said_to_be_and_the_cheap_look_hides_none_beyond_the_rest(moves):
    hall, now = PoolState(pool(), 1), 0
    for move in moves:
        match move:
            case "none", number, after:
                search_backoff.note_failed_search(hall, JOBS[number], now, retry_at=after and now + after * MS)
            case ("change",):
                hall.epoch += 1
            case ("ordered",):
                search_backoff.note_found_victims(hall)
            case "wait", span:
                now += span * MS
        moment = search_backoff.next_worthwhile(hall, now)
        assert moment is None or (moment > now and any(search_backoff.is_worthwhile(hall, job, moment) for job in JOBS))
        for job in JOBS:
            worthwhile = search_backoff.is_worthwhile(hall, job, now)
            if worthwhile and search_backoff.is_backing_off(hall, now) and search_backoff.was_searched(hall, job):
                assert (moment or hall.backoff_until + 1) <= hall.backoff_until
            if not worthwhile:
                assert not search_backoff.is_worthwhile(hall, job, (moment or now + 3600 * SECOND) - 1)
