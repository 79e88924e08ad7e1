from __future__ import annotations

from headrace.contracts.documents import model as d
from headrace.contracts.documents.model import SubmitRate
from headrace.domain.snapshots.snapshot import dump, load
from headrace.domain.state.rate_limit import JOB, left, rate_of, wait_for
from tests.unit.domain.site import Site

RATE = SubmitRate(per_second=3, burst=4)


def site_with(rate: SubmitRate | None) -> Site:
    site = Site()
    site.law(d.Tenant(name="default", submit_rate=rate))
    return site


def test_without_a_rate_nothing_is_counted():
    site = site_with(None)
    site.admit("a")
    assert (rate_of(site.state, "default"), rate_of(site.state, "nobody")) == (None, None)
    assert site.state.terms.allowances == {}


def test_the_bucket_empties_with_each_job_and_fills_to_the_microsecond():
    site = site_with(RATE)
    assert left(site.state, "default", RATE, site.now) == 4 * JOB
    for name in "abcd":
        site.admit(name)
    assert left(site.state, "default", RATE, site.now) == 0
    assert left(site.state, "default", RATE, site.now + 333_333) == JOB - 1
    assert left(site.state, "default", RATE, site.now + 333_334) == JOB + 2
    assert left(site.state, "default", RATE, site.now + 99_000_000) == 4 * JOB
    site.admit("one-too-many-in-flight")
    assert left(site.state, "default", RATE, site.now) == 0
    assert left(load(dump(site.state)), "default", RATE, site.now + 1) == 3


def test_the_wait_is_the_least_after_which_there_is_enough():
    assert [wait_for(RATE, drops) for drops in (0, 1, JOB - 1, JOB, -JOB)] == [333_334, 333_333, 1, 0, 666_667]


def test_without_a_burst_it_holds_a_second_of_jobs():
    rate = SubmitRate(per_second=7)
    assert left(site_with(rate).state, "default", rate, 0) == 7 * JOB
