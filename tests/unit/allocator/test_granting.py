from __future__ import annotations

import msgspec
import pytest

from headrace.allocator import granting
from headrace.allocator.candidate_index import CandidateIndex
from headrace.allocator.feasibility_cache import FeasibilityCache
from headrace.allocator.granting import GRANTS_MAX, grant, leases
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.domain.fold.record_size import RecordRoom
from headrace.domain.indexes.pending import group_key
from headrace.domain.state.pools import FailedSearch
from tests.unit.allocator.history import HALL, History, gpus, granted, place, policy, profile, stopped, terms
from tests.unit.domain.snapshot import differences, snapshot


def round_of(told: History, *, skip: frozenset[str] = frozenset(), room: RecordRoom | None = None) -> list[object]:
    """One round, by an allocator without a memory; it leaves the state as it found it."""
    told.state.pass_time(told.now)
    before = snapshot(told.state)
    facts = grant(told.state, CandidateIndex(told.state), told.now, skip, room or RecordRoom())
    assert differences(snapshot(told.state), before) == []
    return facts


def order(facts: list[object]) -> list[tuple[str, str]]:
    """Who is granted where, in order."""
    return [(fact.job, fact.pool) for fact in facts if isinstance(fact, f.LeaseGrantedV1)]


def opened(job, cause: str = "reclaim", pool: str = "hall") -> f.ReclaimOpenedV1:
    return f.ReclaimOpenedV1(job=job.key, pool=pool, cause=cause)


def hall(*policies: d.Policy, count: int = 4, **more: object) -> History:
    told = History(*policies, **more)
    told.node("n1", count)
    return told


def test_without_waiting_jobs_nothing_is_looked_at(monkeypatch):
    told = hall(policy("ml"))
    told.run("ml/one")
    monkeypatch.setattr(granting, "_Round", None)

    assert round_of(told) == []


def test_no_victim_is_looked_for_once_all_waiting_jobs_have_been_granted_something(monkeypatch):
    told, looks, best = hall(policy("ml")), [], FeasibilityCache.best
    jobs = [told.admit("ml/one"), told.admit("ml/half")]
    monkeypatch.setattr(
        FeasibilityCache,
        "best",
        lambda feasibility, queue, allowed: looks.append(queue.name) or best(feasibility, queue, allowed),
    )

    assert order(round_of(told)) == [(job.key, "hall") for job in jobs]
    assert looks == ["hall", "hall"]


def test_a_grant_names_the_devices_the_amounts_and_the_checkpoint_to_resume_from():
    told = hall(policy("ml", 1))
    job = told.run("ml/one")
    told.say(f.CheckpointRegisteredV1(job=job.key, attempt=1, uri="file:///c/1", at=told.now), by="node.n1")
    told.stop(job, "drain")
    told.end(job, 143)
    told.allocate()

    assert round_of(told) == [granted(job, place("n1", 0), attempt=2, inside=True, resume_from="file:///c/1")]


def test_each_replica_gets_a_lease_and_the_first_carries_the_job():
    told = hall(policy("ml"))
    job = told.admit("ml/gang")

    places = (place("n1", 0), place("n1", 1, job=False))
    assert leases(job, told.state.pools["hall"], places, inside=False, rule="R27") == [
        granted(job, places[0], rule="R27"),
        granted(job, places[1], rank=1, rule="R27"),
    ]
    assert round_of(told) == [granted(job, places[0]), granted(job, places[1], rank=1)]


def test_who_fits_in_the_unused_reservation_goes_before_who_borrows():
    told = hall(policy("rich", 0, priority=9), policy("ml", 2))
    borrower, insiders = told.admit("rich/one", priority=5), [told.admit("ml/one") for _ in range(3)]

    assert round_of(told) == [
        granted(insiders[0], place("n1", 0), inside=True),
        granted(insiders[1], place("n1", 1), inside=True),
        granted(borrower, place("n1", 2)),
        granted(insiders[2], place("n1", 3)),
    ]


def test_the_order_of_profiles_and_of_policies_goes_before_the_priority_of_policies():
    ordered = d.Documents(
        pools=(d.Pool(name="hall", selector={"site": "hall"}, profile_order=("two", "one")),),
        profiles=(profile("one", policy_order=("a", "default/b")), profile("two", 2)),
    )
    told = hall(policy("a"), policy("b", priority=1), policy("c", priority=2), count=8)
    told.law(ordered)
    first = {name: told.admit(f"{name}/one") for name in ("c", "b", "a")}
    large = told.admit("a/two")

    assert order(round_of(told)) == [(job.key, "hall") for job in (large, first["a"], first["b"], first["c"])]


def test_of_borrowers_who_has_borrowed_less_for_its_weight_goes_first():
    told = hall(policy("a"), policy("b", weight=3), count=6)
    jobs = {name: [told.admit(f"{name}/one") for _ in range(4)] for name in ("a", "b")}
    a, b = jobs["a"], jobs["b"]

    assert order(round_of(told)) == [(job.key, "hall") for job in (a[0], b[0], b[1], b[2], a[1], b[3])]


def test_inside_a_queue_priority_decides_then_age_then_the_order_of_submission():
    told = hall(policy("ml"))
    old = told.admit("ml/one")
    told.wait(SECOND)
    young, last = told.admit("ml/one"), told.admit("ml/one")
    urgent = told.admit("ml/one", priority=1)

    assert order(round_of(told)) == [(job.key, "hall") for job in (urgent, old, young, last)]


def test_a_queue_that_does_not_borrow_starts_jobs_inside_its_reservation_only():
    told = hall(policy("ml", 2, unborrowed=("one",)))
    jobs = [told.admit("ml/one") for _ in range(3)]

    assert order(round_of(told)) == [(job.key, "hall") for job in jobs[:2]]


def test_jobs_that_may_not_be_preempted_start_inside_the_reservation_only():
    told = hall(policy("ml", 2))
    jobs = [told.admit("ml/one", preemptible=False) for _ in range(3)]

    assert order(round_of(told)) == [(job.key, "hall") for job in jobs[:2]]


@pytest.mark.parametrize(
    ("limits", "started"),
    [
        ({"limit": gpus(2)}, 2),
        ({"limit": {JOB: 1}}, 1),
        ({"per_pool": {"hall": d.Scope(limit=gpus(3))}}, 3),
        ({"limit": gpus(2), "beyond_limit": ("ann",)}, 4),
        ({"limit": gpus(2), "beyond_limit": ("bob",)}, 2),
    ],
)
def test_a_limit_is_never_exceeded_save_by_members_who_may(limits, started):
    told = hall(policy("ml", **limits), pools=(d.Pool(name="hall", selector={"site": "hall"}, capacity={JOB: 99}),))
    jobs = [told.admit("ml/one") for _ in range(5)]

    assert order(round_of(told)) == [(job.key, "hall") for job in jobs[:started]]


def test_the_tenants_limit_binds_those_who_may_go_beyond_their_own():
    acme = d.Tenant(name="acme", shares=(d.Share(pool="hall", limit=gpus(2)),))
    told = hall(policy("ml", tenant="acme", limit=gpus(1), beyond_limit=("ann",)), tenants=(acme,))
    jobs = [told.admit("ml/one", tenant="acme") for _ in range(3)]

    assert order(round_of(told)) == [(job.key, "hall") for job in jobs[:2]]


def test_a_job_at_its_own_limit_blocks_no_other_and_one_without_room_may_be_overtaken():
    told = hall(policy("full", limit=gpus(1), priority=9), policy("large", priority=8), policy("small"), count=2)
    told.admit("full/two")
    told.admit("large/three")
    small = told.admit("small/one")

    assert order(round_of(told)) == [(small.key, "hall")]


def test_a_gang_starts_whole_or_not_at_all():
    told = hall(policy("ml"), count=1)
    gang = told.admit("ml/gang", priority=1)
    one = told.admit("ml/one")
    assert order(round_of(told)) == [(one.key, "hall")]

    told.node("n2", 1)

    assert order(round_of(told)) == [(gang.key, "hall")] * 2


def test_a_round_stops_at_what_a_record_holds_and_a_gang_is_never_split():
    told = hall(policy("ml"))
    first, gang, _ = told.admit("ml/one", priority=2), told.admit("ml/gang", priority=1), told.admit("ml/half")

    assert order(round_of(told, room=RecordRoom(facts=2))) == [(first.key, "hall")]
    assert order(round_of(told, room=RecordRoom(facts=3))) == [(job.key, "hall") for job in (first, gang, gang)]


def test_a_gang_that_no_record_could_hold_delays_no_other_job():
    told = hall(policy("ml"))
    told.admit("ml/gang", priority=1)
    one = told.admit("ml/one")

    assert order(round_of(told, room=RecordRoom(facts=1))) == [(one.key, "hall")]


def test_a_round_has_an_end_even_where_more_would_fit():
    told = hall(policy("ml"), count=GRANTS_MAX + 5)
    for _ in range(GRANTS_MAX + 3):
        told.admit("ml/one")
    told.learn()

    assert len(told.allocate()) == GRANTS_MAX
    assert len(told.allocate()) == 3


def test_jobs_that_this_record_settles_are_granted_nothing():
    told = hall(policy("ml"))
    jobs = [told.admit("ml/one") for _ in range(2)]

    assert order(round_of(told, skip=frozenset({jobs[0].key}))) == []
    assert order(round_of(told, skip=frozenset({jobs[1].key}))) == [(jobs[0].key, "hall")]


def two_pools(*policies: d.Policy, **more: object) -> History:
    """`one` goes to west, then east; a GPU in each."""
    told = History(
        *policies,
        pools=(d.Pool(name="west", selector={"site": "west"}), d.Pool(name="east", selector={"site": "east"})),
        profiles=(profile("one", pools=("west", "east"), **more), profile("east", pools=("east",))),
    )
    told.node("w1", 1, site="west")
    told.node("e1", 1, site="east")
    return told


def linked(name: str, reserved: int | None = None, **more: object) -> d.Policy:
    return policy(name, reserved, profiles=(d.PolicyProfile(name="one"), d.PolicyProfile(name="east")), **more)


def test_a_job_goes_to_the_first_pool_of_its_order_that_can_take_it_now():
    told = two_pools(linked("ml"))
    first, second, _ = told.admit("ml/one"), told.admit("ml/one"), told.admit("ml/one")

    assert order(round_of(told)) == [(first.key, "west"), (second.key, "east")]


def test_a_job_inside_its_reservation_reclaims_before_it_spills():
    told = two_pools(linked("ml", 1), linked("other"))
    told.run("other/one")
    job = told.admit("ml/one")

    assert round_of(told) == [opened(job, pool="west")]


def test_a_profile_may_have_its_jobs_spill_before_they_reclaim():
    told = two_pools(linked("ml", 1), linked("other"), reclaim_before_spill=False)
    told.run("other/one")
    job = told.admit("ml/one")

    assert order(round_of(told)) == [(job.key, "east")]


def test_only_the_best_ranked_of_those_without_room_opens_a_search():
    told = hall(policy("a", 1), policy("b", 1, priority=1), policy("c"), count=2)
    told.run("c/two")
    told.admit("a/one")
    best = told.admit("b/one")

    assert round_of(told) == [opened(best)]


def test_a_search_waits_for_the_answer_to_the_one_before_it():
    told = hall(policy("a", 1), policy("b", 1, priority=1), policy("c"), count=2)
    told.run("c/two")
    told.admit("a/one")
    told.admit("b/one")
    told.allocate()

    assert round_of(told) == []


def test_no_search_begins_where_nothing_is_borrowed():
    told = hall(policy("a", 1), policy("b", 2), count=2)
    told.run("b/two")
    told.admit("a/one")

    assert round_of(told) == []


def test_by_priority_a_job_beyond_its_reservation_searches_too():
    told = hall(policy("a", priority=2, preemption=terms(preempt_lower_priority=True)), policy("b"), count=1)
    told.run("b/one")
    job = told.admit("a/one")

    assert round_of(told) == [opened(job, cause="priority")]


def test_while_a_search_is_open_no_job_that_ranks_lower_takes_what_is_free():
    told = hall(policy("ml", 2), policy("other"), policy("first", 1, priority=1), count=3)
    told.run("other/two")
    reclaims = told.admit("ml/two")
    assert told.allocate() == (opened(reclaims),)

    told.admit("other/one", priority=9)
    assert round_of(told) == []
    better = told.admit("first/one")

    assert order(round_of(told)) == [(better.key, "hall")]


def test_what_is_free_is_kept_in_the_same_look_for_one_who_ranks_before_and_may_take_something_back():  # R19
    told = hall(policy("ml", 4), policy("other"), count=3)
    told.run("other/two")
    large, small, other = told.admit("ml/two"), told.admit("ml/one"), told.admit("other/one")

    assert round_of(told) == [opened(large)]

    told.state.pools["hall"].failed_searches[group_key(large)] = FailedSearch(told.state.pools["hall"].epoch, 0, None)
    assert order(round_of(told)) == [(small.key, "hall")], "whose search has found nobody keeps nothing"
    assert other.state == "pending"


def test_a_job_that_yields_counts_under_its_policys_limit_until_it_has_left():  # R17
    told = hall(policy("ml", 2), policy("other", limit=gpus(2)), count=6)
    victim, waiting = told.run("other/two"), told.admit("other/two")
    preemptor = told.admit("ml/two")
    told.say(f.ReclaimOpenedV1(job=preemptor.key, pool="hall", cause="reclaim"), by="allocator")
    ordered = f.PreemptionOrderedV1(
        preemption=told.state.pools["hall"].search.id,
        job=preemptor.key,
        pool="hall",
        cause="reclaim",
        victims=(Victim(job=victim.key, attempt=1, policy="default/other", lost=0),),
        places=(place("n1", 0, 1),),
        rule="R26",
    )
    told.say(ordered, stopped(victim, "preempted"), by="allocator")

    assert order(round_of(told)) == [(preemptor.key, "hall")], "there is room for the other too, and not under its limit"
    told.end(victim)
    assert order(round_of(told)) == [(preemptor.key, "hall"), (waiting.key, "hall")]


def test_a_search_without_victims_is_not_opened_again_before_something_has_changed():
    told = hall(policy("ml", 1), policy("other", preemption=terms(min_runtime=5 * MINUTE)), count=1)
    told.run("other/one")
    job = told.admit("ml/one")
    told.allocate()
    search = told.state.pools["hall"].search
    none = f.PreemptionNoneV1(
        preemption=search.id, job=job.key, pool="hall", why="?", protected=1, retry_at=told.now + 5 * MINUTE
    )
    told.say(none, by="preemption")
    assert round_of(told) == []

    told.wait(5 * MINUTE)

    assert round_of(told) == [opened(job)]


def nominated(told: History, job, victim, *, cause: str = "reclaim") -> f.PreemptionOrderedV1:
    """The order by which the victim makes room on the device it holds."""
    return f.PreemptionOrderedV1(
        preemption=f"{job.key}@1",
        job=job.key,
        pool="hall",
        cause=cause,
        victims=(),
        places=(place("n1", 0),),
        rule="R26",
    )


@pytest.mark.parametrize(("cause", "inside"), [("reclaim", True), ("priority", False)])
def test_what_is_nominated_goes_to_its_preemptor_before_any_other(cause, inside):
    told = hall(policy("ml", 1), policy("other", 1, priority=9), count=1)
    preemptor = told.admit("ml/one")
    told.say(nominated(told, preemptor, None, cause=cause), by="allocator")
    told.admit("other/one", priority=9)

    assert round_of(told) == [granted(preemptor, place("n1", 0), inside=inside, rule="R27")]
    assert round_of(told, skip=frozenset({preemptor.key})) == []
    assert round_of(told, room=RecordRoom(facts=0)) == []


def test_of_two_preemptors_the_one_whose_preemption_was_ordered_first_goes_first_in_whatever_order_they_are_kept():
    told = hall(policy("ml", 2), policy("other"), count=2)
    victims = [told.run("other/one"), told.run("other/one")]
    second, first = told.admit("ml/one"), told.admit("ml/one")
    for preemptor, victim in zip((first, second), victims, strict=True):
        where = place("n1", int(victim.leases[0].devices[0].device[-1]))
        yields = f.preemption.Victim(job=victim.key, attempt=1, policy="default/other", lost=0)
        order = msgspec.structs.replace(nominated(told, preemptor, victim), places=(where,), victims=(yields,))
        told.say(order, by="allocator")
    told.node("n2", 1)
    expected = [granted(first, place("n2", 0), inside=True, rule="R27")]

    assert round_of(told) == expected
    told.state.preemptions = dict(reversed(told.state.preemptions.items()))
    assert round_of(told) == expected


def test_a_preemptor_waits_while_its_victim_holds_the_place():
    told = hall(policy("ml", 1), policy("other"), count=1)
    told.run("other/one")
    preemptor = told.admit("ml/one")
    told.say(nominated(told, preemptor, None), by="allocator")

    assert round_of(told) == []


def test_fractions_fill_devices_and_whole_gpus_need_free_ones():
    told = hall(policy("ml"), count=2)
    half = told.run("ml/half")
    second, whole, third = told.admit("ml/half"), told.admit("ml/one"), told.admit("ml/half")

    share = place("n1", 0, units=GPU_UNITS // 2)
    assert (half.leases[0].devices, round_of(told)) == (
        share.devices,
        [granted(second, share), granted(whole, place("n1", 1))],
    )
    assert third.state == "pending"


def test_a_ceiling_of_the_pool_binds_before_its_nodes_do():
    told = hall(policy("ml"), pools=(d.Pool(name="hall", selector=HALL.selector, capacity={GPU: GPU_UNITS}),))
    first, _ = told.admit("ml/one"), told.admit("ml/one")

    assert order(round_of(told)) == [(first.key, "hall")]


def test_nothing_is_granted_on_a_node_that_is_cordoned():
    told = hall(policy("ml"))
    told.admit("ml/one")
    told.say(f.NodeCordonedV1(author="default.admin", node="n1", reason="smoke"))

    assert round_of(told) == []


def test_a_job_held_back_after_a_loss_is_granted_when_its_time_has_come():
    told = hall(policy("ml"))
    job = told.run("ml/one")
    told.end(job, None, outcome="lost")
    told.allocate()
    assert told.allocate() == ()

    told.wait(SECOND)

    assert round_of(told) == [granted(job, place("n1", 0), attempt=2)]


def test_a_node_on_probation_is_given_one_job_and_the_next_one_once_that_runs():
    """R36."""
    told = hall(policy("ml"))
    told.say(f.NodeSetAsideV1(node="n1", reason="it refuses", until=told.now + 600 * SECOND), by="allocator")
    told.say(f.NodeCheckOrderedV1(node="n1"), by="allocator")
    told.say(f.NodeCheckedV1(node="n1", ordered=told.state.sequence, passed=True, at=told.now), by="node.n1")
    first, second = told.admit("ml/one"), told.admit("ml/one")

    assert order(round_of(told)) == [(first.key, "hall")]
    told.allocate()
    assert order(round_of(told)) == []
    told.start(first)

    assert order(round_of(told)) == [(second.key, "hall")]
