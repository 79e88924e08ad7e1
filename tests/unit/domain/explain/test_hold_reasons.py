"""What is kept for whom, until when and behind whom, in sentences (R16, R22)."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.domain.explain.explain import explain
from tests.unit.domain.site import Site, place, policy, pool

UNKNOWN = "since nothing says when what is in its way ends; behind default.ann.r"


def notes(site: Site, job) -> tuple[str, ...]:
    return explain(site.state, job, site.now).notes


def waiting(*policies, keep_for: int = HOUR, **running: object) -> tuple[Site, object]:
    """A job that waits for two GPUs; another job holds one."""
    site = Site(*policies, policy("busy"), pools=(pool(keep_for=keep_for),))
    site.node("n1", 2)
    site.run("r", place("n1", 0), queue="busy/one", **running)
    job = site.admit("w", "dev/two")
    site.now += 11 * MINUTE
    return site, job


def place_hold(site: Site, job) -> None:
    site.append_facts(f.HoldPlacedV1(job=job.key, pool="hall", places=(place("n1", 0, 1),)), by="allocator")


def test_who_waits_is_told_until_when_units_are_kept_for_it_and_who_does_not_get_them_too():
    site, job = waiting(policy("dev"))
    place_hold(site, job)
    other = site.admit("o", "busy/one")

    assert notes(site, job) == (f"units are kept for it in pool hall until 1970-01-12T14:56:40.000Z, {UNKNOWN}",)
    assert explain(site.state, other, site.now).reason == "KEPT_FOR_LARGER_JOB"
    assert notes(site, other) == (f"units are kept for default.ann.w until 1970-01-12T14:56:40.000Z, {UNKNOWN}",)


def test_behind_a_time_limit_it_is_told_when_it_starts_at_the_latest():
    site, job = waiting(policy("dev"), time_limit=HOUR)
    place_hold(site, job)

    until = "until it starts, at 1970-01-12T14:48:10.000Z at the latest by time limits"
    assert notes(site, job) == (f"units are kept for it in pool hall {until}; behind default.ann.r",)


def test_behind_what_it_may_take_nothing_says_when():
    site, job = waiting(policy("dev", reservation={GPU: 2 * GPU_UNITS}))
    place_hold(site, job)

    assert notes(site, job) == ("units are kept for it in pool hall until it starts; behind default.ann.r",)


def test_while_nothing_is_kept_it_is_told_when_something_is_again():
    site, job = waiting(policy("dev"))
    assert notes(site, job) == ()
    site.now += HOUR
    unknown = "nothing says when what is in its way ends"
    assert notes(site, job) == (f"{unknown}: units are kept for it from 1970-01-12T15:56:40.000Z on, for 1h",)

    site, job = waiting(policy("dev"), keep_for=0)
    assert notes(site, job) == (f"{unknown}, and pool hall keeps no units for it then",)
