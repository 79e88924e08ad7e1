"""Places that surely come free: behind time limits, ladders, and what the job may take (R16)."""

from __future__ import annotations

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.backfill.backfill_placement import awaited_places, occupants
from headrace.domain.backfill.candidate_nodes import UNKNOWN
from headrace.domain.backfill.certain_placement import Surely, free_at, surely_awaited, surely_awaited_places
from tests.unit.domain.site import HALF, START, Site, place, policy, pool, profile, slice_at

GRACE = 90 * SECOND
LATER = START + HOUR + GRACE


def test_a_job_without_a_limit_that_may_not_be_taken_is_not_counted_on():
    site = Site(policy("dev"), policy("busy"))
    site.node("n1", 4)
    for number, (queue, limit) in enumerate([("dev/one", None), ("dev/one", HOUR), ("busy/one", None), ("dev/one", None)]):
        site.run(f"r{number}", place("n1", number), queue=queue, time_limit=limit)
    site.stop(site.state.jobs["default.ann.r3"], "cancelled")
    node = site.state.nodes["n1"]

    def ends(takes) -> list[int | None]:
        return [one.end for one in Surely(occupants, takes)(node)]

    stops = START + GRACE
    assert ends({}) == [None, START + HOUR, None, stops]
    assert ends({site.state.policies["default", "busy"]: (GPU,)}) == [None, START + HOUR, UNKNOWN, stops]
    assert ends({site.state.policies["default", "busy"]: (CPU,)}) == [None, START + HOUR, None, stops]


def test_places_are_those_that_only_wait_for_what_surely_ends():
    site = Site()
    for name, limit in (("n1", None), ("n2", HOUR)):
        site.node(name, 2)
        site.run(name, place(name, 0), time_limit=limit)
    job, hall = site.admit("w", "dev/two"), site.state.pools["hall"]
    gang = site.admit("g", "dev/gang", request={GPU: 2 * GPU_UNITS})

    assert surely_awaited_places(site.state, job, hall, {}) == (place("n2", 0, 1),)
    assert surely_awaited_places(site.state, gang, hall, {}) is None
    assert [surely_awaited(job, hall, (place(name, 0, 1),), {}) for name in ("n1", "n2")] == [False, True]


def test_what_makes_room_for_a_preemptor_counts_beside_its_nomination_under_the_pools_capacity():
    site = Site(policy("dev"), policy("busy"), pools=(pool(capacity={GPU: 3 * GPU_UNITS}),))
    site.node("n1", 4)
    victim = site.run("v", place("n1", 0, 1), queue="busy/two")
    preemptor, waiting = site.admit("p", "dev/two"), site.admit("w", "dev/two")
    site.order(preemptor, (victim,), place("n1", 2, 3))
    site.stop(victim)
    hall = site.state.pools["hall"]

    assert surely_awaited_places(site.state, waiting, hall, {}) == awaited_places(site.state, waiting, hall) is None


def test_places_are_free_when_the_last_of_those_has_ended_that_have_to():
    site = Site()
    site.node("n1", 3, cpu=4)
    site.run("a", place("n1", 0, units=HALF), queue="dev/half", time_limit=HOUR)
    site.run("b", place("n1", 0, units=HALF), queue="dev/half", time_limit=9 * HOUR)
    site.run("c", place("n1", 1, cpu=3 * CPU_UNITS), time_limit=2 * HOUR)
    site.run("e", place("n1", 2))

    def when(*wanted) -> int | None:
        return free_at(site.state, wanted, {})

    assert when(place("n1", 0, units=HALF)) == LATER  # the first of the two is enough
    assert when(place("n1", 0)) == START + 9 * HOUR + GRACE
    assert when(place("n1", 0, units=HALF, cpu=2 * CPU_UNITS)) == START + 2 * HOUR + GRACE
    assert when(place("n1", 2)) is None
    assert free_at(site.state, (place("n1", 2),), {site.state.policies["default", "dev"]: (GPU,)}) == 0
    assert when(place("gone", 0)) is None


def test_a_slice_is_free_when_all_that_lies_in_its_run_has_ended():
    site = Site()
    site.law(profile("cut", {GPU: HALF}, mig="1g.10gb"), policy("dev", profiles=(d.PolicyProfile(name="cut"),)))
    site.node("n1", 1, model="H100-80GB", mig=True)
    for start, limit in ((0, HOUR), (1, 2 * HOUR), (4, None)):
        site.run(
            f"r{start}", slice_at("n1", "1g.10gb", start, GPU_UNITS // 7), queue="dev/cut", mig="1g.10gb", time_limit=limit
        )

    def when(kind: str, start: int) -> int | None:
        return free_at(site.state, (slice_at("n1", kind, start, HALF),), {})

    assert when("3g.40gb", 0) == START + 2 * HOUR + GRACE
    assert when("1g.10gb", 0) == LATER
    assert (when("3g.40gb", 4), when("1g.10gb", 6)) == (None, 0)


def test_a_late_start_makes_nothing_later():
    site = Site()
    site.node("n1", 1)
    job = site.run("a", place("n1", 0), time_limit=HOUR)
    job.started_at += 5 * MINUTE

    assert free_at(site.state, (place("n1", 0),), {}) == LATER
