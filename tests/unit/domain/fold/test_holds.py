"""What is kept for a job that has waited too long (R16), fact by fact."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.domain.state.search_backoff import is_worthwhile, note_failed_search
from headrace.domain.state.state import State
from tests.unit.domain.site import Site, place


def placed(job, *places, pool: str = "hall") -> f.HoldPlacedV1:
    return f.HoldPlacedV1(job=job.key, pool=pool, places=places)


def holds_of(state: State) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {key: (hold.pool, tuple(spot.node for spot in hold.places)) for key, hold in state.holds.items()}


def waiting() -> tuple[Site, object]:
    site = Site()
    site.node()
    return site, site.admit("j")


def test_what_is_kept_is_in_no_account_and_on_no_device():  # R37
    site, job = waiting()
    pool = site.state.pools["hall"]
    site.append_facts(placed(job, place("n1", 0)), by="allocator")

    assert holds_of(site.state) == {job.key: ("hall", ("n1",))}
    assert (pool.use, pool.leased, pool.nominated, job.policy.wide.use) == ({}, {}, {}, {})
    assert [device.nominated for device in site.state.nodes["n1"].devices] == [0] * len(site.state.nodes["n1"].devices)


def test_it_is_kept_until_it_is_lifted_in_that_pool():
    site, job = waiting()
    site.append_facts(placed(job, place("n1", 0)), by="allocator")
    site.append_facts(f.HoldLiftedV1(job=job.key, pool="annex", why="w"), by="allocator")
    assert holds_of(site.state) == {job.key: ("hall", ("n1",))}
    site.append_facts(f.HoldLiftedV1(job=job.key, pool="hall", why="w"), by="allocator")
    site.append_facts(f.HoldLiftedV1(job=job.key, pool="hall", why="w"), by="allocator")

    assert holds_of(site.state) == {}


def test_a_second_one_takes_the_place_of_the_first():
    site, job = waiting()
    site.node("n2")
    site.append_facts(placed(job, place("n1", 0)), placed(job, place("n2", 0)), by="allocator")

    assert holds_of(site.state) == {job.key: ("hall", ("n2",))}


@pytest.mark.parametrize("way", ["granted", "ended", "dismissed", "nominated"])
def test_it_ends_when_the_job_leaves_the_line(way):
    site, job = waiting()
    site.append_facts(placed(job, place("n1", 0)), by="allocator")
    if way == "granted":
        site.grant(job, place("n1", 1))
    elif way == "nominated":
        site.order(job, (), place("n1", 1))
    elif way == "ended":
        site.append_facts(f.JobEndedV1(job=job.key, attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    else:
        site.append_facts(f.JobDismissedV1(job=job.key, reason="QUEUE_DELETED", message="m"), by="allocator")

    assert holds_of(site.state) == {}


def test_for_who_waits_no_more_and_in_no_such_pool_nothing_is_kept():
    site, job = waiting()
    site.append_facts(placed(job, place("n1", 0), pool="gone"), by="allocator")
    site.grant(job, place("n1", 0))
    site.append_facts(placed(job, place("n1", 1)), by="allocator")

    assert holds_of(site.state) == {}


def searches(site: Site, job) -> bool:
    """Whether who stands next is searched for again."""
    return is_worthwhile(site.state.pools["hall"], job, site.state.now + SECOND)


@pytest.mark.parametrize("ends", ["lifted", "granted", "ended", "nominated"])
def test_a_search_without_victims_is_made_again_when_something_is_kept_and_when_it_no_longer_is(ends):  # R19
    site, job = waiting()
    other = site.admit("other")
    pool = site.state.pools["hall"]

    note_failed_search(pool, other, site.state.now)
    before = searches(site, other)
    site.append_facts(placed(job, place("n1", 0)), by="allocator")
    kept_then = searches(site, other)
    note_failed_search(pool, other, site.state.now)
    again = searches(site, other)
    if ends == "lifted":
        site.append_facts(f.HoldLiftedV1(job=job.key, pool="hall", why="w"), by="allocator")
    elif ends == "granted":
        site.grant(job, place("n1", 1))
    elif ends == "nominated":
        site.order(job, (), place("n1", 1))
    else:
        site.append_facts(f.JobEndedV1(job=job.key, attempt=0, state="cancelled", cause="cancelled"), by="allocator")

    assert (before, kept_then, again, searches(site, other)) == (False, True, False, True)
