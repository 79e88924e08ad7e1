"""How long units are kept, behind whom, and to whom they are lent (R16)."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import DAY, HOUR, MINUTE, SECOND
from headrace.domain.backfill.backfill_placement import awaited_places
from headrace.domain.backfill.hold_policy import (
    NOT_LENT,
    HoldTurn,
    Keep,
    ends_at,
    is_lent_to,
    is_still_kept,
    keep_of,
    next_turn,
    places_to_keep,
    takes_of,
    turn_of,
)
from headrace.domain.model.preemption_state import Hold
from headrace.domain.model.time_rules import TimeRules
from tests.unit.domain.site import START, Site, place, policy, pool

GRACE = 90 * SECOND


def turns_until(document: d.Pool, end: int) -> list[tuple[int, int]]:
    """(begin, end) of every keep up to a moment, each worked out from the one before."""
    found, start, rest = [], document.backfill_for, min(document.keep_for, DAY)
    while document.keep_for and start < end:
        found.append((start, start + document.keep_for))
        start += document.keep_for + rest
        rest = min(2 * rest, DAY)
    return found


@pytest.mark.parametrize("keep_for", [0, MINUTE, 7 * MINUTE, HOUR, 13 * HOUR, DAY, 3 * DAY])
def test_turns_are_those_that_follow_one_after_the_other(keep_for):
    document = pool(backfill_for=10 * MINUTE, keep_for=keep_for)
    kept = turns_until(document, 12 * DAY)
    for moment in range(0, 11 * DAY, 37 * MINUTE):
        keeps = next((end for begin, end in kept if begin <= moment < end), None)
        begins = next((begin for begin, _ in kept if begin > moment), None)
        until = document.backfill_for if moment < document.backfill_for else keeps or begins
        assert turn_of(document, 5, 5 + moment) == HoldTurn(keeps is not None, None if until is None else 5 + until)


def half_held(*policies: d.Policy, pools: tuple[d.Pool, ...] = (), **running: object) -> tuple[Site, object, object]:
    """A hall of two GPUs; a job of another policy runs on one of them, and a job that waits for both."""
    site = Site(*policies, policy("busy"), pools=pools)
    site.node("n1", 2)
    there = site.run("r", place("n1", 0), queue="busy/one", **running)
    return site, there, site.admit("w", "dev/two")


def kept_for(site: Site, job) -> Hold:
    site.append_facts(f.HoldPlacedV1(job=job.key, pool="hall", places=(place("n1", 0, 1),)), by="allocator")
    return site.state.holds[job.key]


def test_behind_a_time_limit_units_are_kept_without_end_and_lent_until_it_and_its_grace_are_over():
    site, _, job = half_held(policy("dev"), time_limit=9 * HOUR)
    hold = kept_for(site, job)

    for moment in (START + 10 * MINUTE, START + 2 * HOUR):
        assert is_still_kept(site.state, hold, moment)
        assert keep_of(site.state, hold, moment) == Keep(START + 9 * HOUR + GRACE, None)


def test_behind_a_ladder_too():
    site, there, job = half_held(policy("dev"))
    site.stop(there, "cancelled")

    assert is_still_kept(site.state, kept_for(site, job), START + 2 * HOUR)


def test_behind_what_nothing_is_known_of_they_are_kept_and_lent_for_a_turn():
    site, _, job = half_held(policy("dev"))
    hold, hall, over = kept_for(site, job), site.state.pools["hall"], START + 70 * MINUTE

    assert places_to_keep(site.state, job, hall, over - 1) == awaited_places(site.state, job, hall)
    assert places_to_keep(site.state, job, hall, over) is None
    assert [is_still_kept(site.state, hold, moment) for moment in (over - 1, over)] == [True, False]
    assert keep_of(site.state, hold, over - 1) == Keep(over, over)
    assert next_turn(site.state, hold, over - 1) == over


def test_behind_what_the_job_may_take_they_are_kept_without_end_and_not_lent():
    site, there, job = half_held(policy("dev", reservation={GPU: 2 * GPU_UNITS}))
    hold, hall = kept_for(site, job), site.state.pools["hall"]

    assert takes_of(site.state, job, hall) == {there.policy: (GPU,)}
    assert is_still_kept(site.state, hold, START + 2 * HOUR)
    assert keep_of(site.state, hold, START + 11 * MINUTE) == Keep(NOT_LENT, None)


@pytest.mark.parametrize(
    ("mine", "theirs", "takes"),
    [
        ({"preempt": True, "priority": 1}, {}, True),
        ({"preempt": True}, {}, False),
        ({"reservation": {GPU: GPU_UNITS}}, {}, False),
        ({"reservation": {GPU: 2 * GPU_UNITS}}, {"reservation": {GPU: GPU_UNITS}}, False),
    ],
    ids=["a lower priority", "the same priority", "beyond its reservation", "inside theirs"],
)
def test_what_it_may_take_is_what_reclaim_and_priority_allow(mine, theirs, takes):  # R23, R24
    terms = d.PreemptionTerms(preempt_lower_priority=mine.pop("preempt", False))
    site = Site(policy("dev", preemption=terms, **mine), policy("busy", **theirs))
    site.node("n1", 2)
    site.run("r", place("n1", 0), queue="busy/one")

    assert bool(takes_of(site.state, site.admit("w", "dev/two"), site.state.pools["hall"])) is takes


def test_what_surely_comes_free_is_kept_before_what_needs_less():
    site, _, job = half_held(policy("dev"))
    site.node("n2", 2)
    for device in (0, 1):
        site.run(f"limited-{device}", place("n2", device), queue="busy/one", time_limit=9 * HOUR)

    assert places_to_keep(site.state, job, site.state.pools["hall"], START + 11 * MINUTE) == (place("n2", 0, 1),)


def test_a_ceiling_that_something_unknown_holds_is_in_the_way_as_well():
    site = Site(policy("dev"), pools=(pool(capacity={GPU: 3 * GPU_UNITS}),))
    site.node("n1", 2)
    site.node("n2", 2)
    site.run("l", place("n1", 0), time_limit=HOUR)
    job, over = site.admit("w", "dev/two"), START + 70 * MINUTE
    hold = kept_for(site, job)
    assert is_still_kept(site.state, hold, over)

    for device in (0, 1):
        site.run(f"r{device}", place("n2", device))
    assert not is_still_kept(site.state, hold, over)
    assert keep_of(site.state, hold, over - 1) == Keep(over, over)


def test_only_who_has_a_time_limit_that_ends_in_time_with_its_grace_is_lent_something():
    site, _, job = half_held(policy("dev"), time_limit=HOUR)
    hold, span = kept_for(site, job), HOUR
    limits = (None, span, span + 1)
    others = [site.admit(f"o{number}", time_limit=limit) for number, limit in enumerate(limits)]

    assert [ends_at(site.state, other, START) for other in others] == [None, START + span + GRACE, START + span + 1 + GRACE]
    assert [is_lent_to(site.state, hold, other, START) for other in others] == [False, True, False]


def test_below_the_amended_level_units_are_kept_without_end_and_never_lent():
    site, _, job = half_held(policy("dev"))
    hold, short = kept_for(site, job), site.admit("s", time_limit=SECOND)
    site.state.terms = TimeRules(level=1)

    assert is_still_kept(site.state, hold, START + 9 * DAY)
    assert (next_turn(site.state, hold, START), keep_of(site.state, hold, START)) == (None, Keep(NOT_LENT, None))
    assert not is_lent_to(site.state, hold, short, START)
