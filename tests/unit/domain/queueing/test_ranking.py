"""Who goes first (R15): each criterion decides only where all before it are equal."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.documents import model as d
from headrace.contracts.facts.levels import FIRST
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB
from headrace.domain.model.jobs import JobRecord
from headrace.domain.queueing.queue_position import GroupRanks
from headrace.domain.queueing.ranking import (
    SHARE_STEPS,
    Rank,
    deal,
    dominant_share,
    is_inside,
    may_hold_inside,
    rank,
    user_share,
)
from tests.unit.domain.site import PROFILES, Site, gpus, place, policy, pool, profile

WHOLE = 1 << SHARE_STEPS


def rank_of(site: Site, job: JobRecord, name: str = "hall") -> Rank:
    hall, group = site.state.pools[name], site.state.pending.group_of(job)
    return rank(site.state, group, job, hall, inside=is_inside(site.state, group, hall))


def ranked(site: Site, *jobs: JobRecord) -> list[str]:
    """The names of pending jobs, best first."""
    return [job.key.rpartition(".")[2] for job in sorted(jobs, key=lambda job: rank_of(site, job))]


def test_a_rank_is_its_eight_criteria_in_order():
    site = Site(
        policy("dev", priority=3, reservation=gpus(1)),
        pools=(pool(profile_order=("two", "one")),),
    )
    site.law(profile("one", policy_order=("ops", "dev")))
    site.node(count=4)
    site.run("a", place("n1", 0))
    site.now += 5
    job = site.admit("b", priority=7)
    # One of four GPUs would be borrowed, but dominant share looks at what is borrowed now: nothing.
    assert rank_of(site, job) == (1, 1, 1, -3, 0, -7, site.now, job.order, "default.ann.b")


def test_1_inside_the_reservation_goes_before_everything_else():
    site = Site(
        policy("dev", reservation=gpus(1)),
        policy("ops", priority=9),
        pools=(pool(profile_order=("two", "one")),),
    )
    site.node(count=4)
    borrower = site.admit("borrower", "ops/two", priority=9)
    inside = site.admit("inside")
    assert ranked(site, borrower, inside) == ["inside", "borrower"]


def test_2_the_profile_order_of_the_pool_and_unlisted_ones_share_the_last_rank():
    site = Site(pools=(pool(profile_order=("half", "two")),))
    jobs = [site.admit(name, f"dev/{name}") for name in ("gang", "one", "two", "half")]
    assert [rank_of(site, job)[1] for job in jobs] == [2, 2, 1, 0]
    assert ranked(site, *jobs) == ["half", "two", "gang", "one"], "within a rank the next criteria decide, here time"


def test_2_each_pool_has_its_own_profile_order():
    site = Site(pools=(pool("hall", profile_order=("one", "two")), pool("annex", profile_order=("two", "one"))))
    jobs = [site.admit(name, f"dev/{name}") for name in ("one", "two")]
    assert [[rank_of(site, job, name)[1] for job in jobs] for name in ("hall", "annex")] == [[0, 1], [1, 0]]


def test_3_the_policy_order_of_the_profile_by_name_or_with_the_tenant():
    names = ("late", "other", "full", "plain")
    site = Site(*map(policy, names))
    site.law(profile("one", policy_order=("plain", "default/full", "acme/other")))
    jobs = [site.admit(name, f"{name}/one") for name in names]
    assert ranked(site, *jobs) == ["plain", "full", "late", "other"]


def test_4_policy_priority_higher_first():
    site = Site(policy("low"), policy("high", priority=1), policy("below", priority=-1))
    jobs = [site.admit(name, f"{name}/one", priority=9 if name == "below" else 0) for name in ("below", "low", "high")]
    assert ranked(site, *jobs) == ["high", "low", "below"]


def test_5_among_borrowers_the_smaller_dominant_share_of_borrowed_use():
    site = Site(policy("much"), policy("little"))
    site.node(count=8)
    site.run("x", place("n1", 0, 1), queue="much/two")
    site.run("y", place("n1", 2), queue="little/one")
    jobs = [site.admit(name, f"{name}/one", priority=9 if name == "much" else 0) for name in ("much", "little")]
    assert ranked(site, *jobs) == ["little", "much"]


def test_5_who_is_inside_is_not_asked_what_it_borrows():
    site = Site(policy("dev", reservation={GPU: GPU_UNITS, CPU: 0}), pools=(pool(capacity={CPU: 8 * CPU_UNITS}),))
    site.node(count=8)
    site.run("x", place("n1", **{CPU: 4 * CPU_UNITS}), queue="dev/cpu", request={CPU: 4 * CPU_UNITS})
    job = site.admit("b")
    assert (dominant_share(site.state, job.policy), rank_of(site, job)[4]) == (WHOLE // 2, 0)


def test_6_job_priority_then_7_time_admitted_then_8_order_of_submission():
    site = Site()
    first = site.admit("first")
    second = site.admit("second")
    site.now += 1
    third, urgent = site.admit("third"), site.admit("urgent", priority=1)
    assert ranked(site, third, urgent, second, first) == ["urgent", "first", "second", "third"]


def test_7_a_job_that_was_requeued_keeps_its_time():  # R29
    site = Site()
    site.node(count=2)
    early = site.run("early", place("n1", 0))
    site.now += 1
    late = site.admit("late")
    site.leave(early, requeue="preempted")
    assert ranked(site, late, early) == ["early", "late"]


@pytest.mark.parametrize(
    ("written", "queue", "fields", "inside"),
    [
        pytest.param({"reservation": gpus(2)}, "dev/one", {}, True, id="equality is inside"),
        pytest.param({"reservation": gpus(2)}, "dev/two", {}, False, id="two more than one are three"),
        pytest.param({"reservation": gpus(1)}, "dev/one", {}, False, id="it is used up"),
        pytest.param({"reservation": gpus(1)}, "dev/one", {"preemptible": False}, False, id="for firm work all use counts"),
        pytest.param({}, "dev/one", {}, False, id="no block is a reservation of 0"),
        pytest.param({"per_pool": {"hall": d.Scope(reservation=gpus(2))}}, "dev/one", {}, True, id="in the pool"),
        pytest.param({"per_pool": {"annex": d.Scope(reservation=gpus(2))}}, "dev/one", {}, False, id="in another pool"),
        pytest.param(
            {"reservation": gpus(2), "per_pool": {"hall": d.Scope(reservation=gpus(1))}}, "dev/one", {}, False, id="both hold"
        ),
        pytest.param({"reservation": gpus(2)}, "dev/gang", {}, False, id="a gang with all its replicas"),
        pytest.param({"reservation": gpus(3)}, "dev/gang", {}, True, id="which fit together"),
    ],
)
def test_whether_one_more_job_fits_in_the_unused_reservation(written, queue, fields, inside):  # R7, R15 (1), R17
    site = Site(policy("dev", **written))
    site.node(count=8)
    site.run("first", place("n1", 0))
    group = site.state.pending.group_of(site.admit("more", queue, **fields))
    assert is_inside(site.state, group, site.state.pools["hall"]) is inside


def test_firm_work_may_start_where_it_does_not_rank_inside_the_reservation():  # R15 (1), R17
    site = Site(policy("dev", reservation=gpus(1)))
    site.node(count=8)
    site.run("first", place("n1", 0))
    hall, group = site.state.pools["hall"], site.state.pending.group_of(site.admit("firm", preemptible=False))
    assert (is_inside(site.state, group, hall), may_hold_inside(site.state, group, hall)) == (False, True)
    site.state.terms.level = FIRST
    assert is_inside(site.state, group, hall), "as release 0.1.0 ranked it"


def test_the_share_of_the_tenant_has_to_have_room_as_well():  # R7
    shares = (d.Share(pool="hall", reservation=gpus(1)),)
    site = Site(
        policy("dev", reservation=gpus(1)),
        policy("ops", reservation=gpus(1)),
        tenants=(d.Tenant(name="default", shares=shares),),
    )
    site.node()
    group, hall = site.state.pending.group_of(site.admit("a")), site.state.pools["hall"]
    seen = [is_inside(site.state, group, hall)]
    site.run("b", place("n1", 0), queue="ops/one")
    seen.append(is_inside(site.state, group, hall))
    assert seen == [True, False]


@pytest.mark.parametrize(
    ("written", "share"),
    [
        pytest.param({}, WHOLE * 3 // 8, id="without a reservation all use is borrowed"),
        pytest.param({"reservation": gpus(1)}, WHOLE * 2 // 8, id="above the policy-wide reservation"),
        pytest.param({"reservation": gpus(3)}, 0, id="nothing above it"),
        pytest.param({"reservation": gpus(9)}, 0, id="far below it"),
        pytest.param({"weight": 2}, WHOLE * 3 // 16, id="divided by the weight"),
        pytest.param({"weight": 7}, WHOLE * 3 // 56, id="rounded down"),
        pytest.param(
            {"per_pool": {"hall": d.Scope(reservation=gpus(1)), "annex": d.Scope(reservation=gpus(1))}},
            WHOLE // 8,
            id="per-pool reservations are summed up",
        ),
        pytest.param({"profiles": ()}, 0, id="of no capacity at all"),
    ],
)
def test_the_dominant_share_of_what_is_borrowed(written, share):
    links = tuple(d.PolicyProfile(name=link.name) for link in PROFILES)
    site = Site(policy("dev", profiles=links), pools=(pool(), pool("annex")))
    site.node(count=8)
    site.node("n2", 8, pool="annex")
    site.run("a", place("n1", 0, 1, 2), request=gpus(3))
    site.law(policy("dev", **written))
    assert dominant_share(site.state, site.state.policies["default", "dev"]) == share


def test_the_most_borrowed_key_dominates():
    site = Site(policy("dev"), pools=(pool(capacity={CPU: 8 * CPU_UNITS, JOB: 100}),))
    site.node(count=8)
    site.run("a", place("n1", 0, **{CPU: 4 * CPU_UNITS}), request=gpus(1, **{CPU: 4 * CPU_UNITS}))
    assert dominant_share(site.state, site.state.policies["default", "dev"]) == WHOLE // 2


def test_the_capacity_is_that_of_all_pools_reached_each_once_and_follows_what_changes():
    site = Site(pools=(pool(), pool("annex"), pool("elsewhere")))
    site.node("n1", 2)
    site.node("n2", 6, pool="annex")
    site.node("n3", 8, pool="elsewhere")
    site.run("a", place("n1", 0))
    dev, seen = site.state.policies["default", "dev"], []
    seen.append(dominant_share(site.state, dev))
    site.law(profile("one", pools=("annex", "hall", "nowhere")))
    seen.append(dominant_share(site.state, dev))
    site.node("n4", 8, pool="annex")
    seen.append(dominant_share(site.state, dev))
    assert seen == [WHOLE // 2, WHOLE // 8, WHOLE // 16]


SITE = Site()
AMOUNTS = st.dictionaries(st.sampled_from([GPU, CPU, JOB]), st.integers(0, 2**40))


@given(AMOUNTS, AMOUNTS, st.dictionaries(st.sampled_from([GPU, CPU]), st.integers(0, 2**40), min_size=1), st.integers(1, 100))
def test_a_dominant_share_is_the_exact_fraction_rounded_down(use, reservation, base, weight):
    dev = SITE.state.policies["default", "dev"]
    SITE.law(policy("dev", weight=weight, reservation=reservation))
    dev.wide.use, dev.share_base = use, base
    exact = [
        Fraction(use.get(key, 0) - reservation.get(key, 0), capacity * weight) for key, capacity in base.items() if capacity
    ]
    assert dominant_share(SITE.state, dev) == max(0, *(share * WHOLE for share in exact), 0) // 1


def test_the_places_of_equal_candidates_are_dealt_by_the_use_of_their_users():
    """R15: the user ann holds most and has the older jobs; bob's job gets the best of these places, and ann's jobs get the others."""
    ann = [(0, 1, (1, 0), "a1"), (0, 2, (2, 0), "a2"), (1, 0, (0, 0), "later")]
    bob = [(0, 5, (5, 0), "b")]
    lines = [(700, ann), (100, bob)]
    assert deal(bob[0], 100, lines) == ann[0]
    assert [deal(place, 700, lines) for place in ann] == [ann[1], bob[0], ann[2]]
    assert deal(bob[0], 700, [(700, ann), (700, bob)]) == bob[0]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 30)), min_size=1, max_size=12))
def test_dealing_is_a_new_order_of_the_same_places(jobs):
    """Dealing for one job at a time gives each place once, by use and then by age, priority by priority."""
    places = [(-priority, at, (number, 0), f"j{number}") for number, (priority, _, at) in enumerate(jobs)]
    uses = [use for _, use, _ in jobs]
    lines = [(use, sorted(p for p, other in zip(places, uses, strict=True) if other == use)) for use in sorted(set(uses))]
    dealt = [deal(place, use, lines) for place, use in zip(places, uses, strict=True)]
    assert sorted(dealt) == sorted(places)
    by_use = [place for _, _, place in sorted((place[0], use, place) for place, use in zip(places, uses, strict=True))]
    assert [place for _, place in sorted(zip(dealt, places, strict=True))] == by_use


def test_what_a_user_uses_is_measured_against_all_that_the_policy_reaches():
    site = Site(policy("dev", fair_among="users"))
    site.node(count=4)
    site.run("a", place("n1", 0))
    dev = site.state.policies["default", "dev"]
    assert [user_share(site.state, dev, user) for user in ("ann", "bob")] == [WHOLE // 4, 0]


def test_one_by_one_or_all_at_once_the_same_places_are_dealt():
    site = Site(policy("dev", fair_among="users"))
    site.node(count=4)
    site.run("a", place("n1", 0))
    jobs = [site.admit(f"j{number}", f"dev/{'one' if number % 3 else 'half'}", user="abc"[number % 2]) for number in range(7)]
    jobs += [site.admit(f"k{number}") for number in range(3)]
    ranks, dev = GroupRanks(site.state, site.state.pools["hall"]), site.state.policies["default", "dev"]
    one_by_one = {job.key: ranks.place(site.state.pending.group_of(job), job) for job in jobs}
    assert one_by_one == ranks.places(dev)
    assert max(one_by_one, key=one_by_one.get) == "default.ann.k2"
