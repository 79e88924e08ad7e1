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
from headrace.domain.fold.record_size import RecordCapacity
from headrace.domain.indexes.pending import group_key
from headrace.domain.state.pools import FailedSearch
from tests.unit.allocator.history import HALL, History, gpus, granted, place, policy, profile, stopped, terms
from tests.unit.domain.snapshot import differences, snapshot


def round_of(history: History, *, skip: frozenset[str] = frozenset(), capacity: RecordCapacity | None = None) -> list[object]:
    """One round, by an allocator without a memory; it leaves the state as it found it."""
    history.state.pass_time(history.now)
    before = snapshot(history.state)
    facts = grant(history.state, CandidateIndex(history.state), history.now, skip, capacity or RecordCapacity())
    assert differences(snapshot(history.state), before) == []
    return facts


def order(facts: list[object]) -> list[tuple[str, str]]:
    """Who is granted where, in order."""
    return [(fact.job, fact.pool) for fact in facts if isinstance(fact, f.LeaseGrantedV1)]


def opened(job, cause: str = "reclaim", pool: str = "hall") -> f.ReclaimOpenedV1:
    return f.ReclaimOpenedV1(job=job.key, pool=pool, cause=cause)


def pool_with_one_node(*policies: d.Policy, count: int = 4, **more: object) -> History:
    history = History(*policies, **more)
    history.node("n1", count)
    return history


def test_without_waiting_jobs_nothing_is_looked_at(monkeypatch):
    history = pool_with_one_node(policy("ml"))
    history.run("ml/one")
    monkeypatch.setattr(granting, "_Round", None)

    assert round_of(history) == []


def test_no_victim_is_looked_for_once_all_waiting_jobs_have_been_granted_something(monkeypatch):
    history, looks, best = pool_with_one_node(policy("ml")), [], FeasibilityCache.best
    jobs = [history.admit("ml/one"), history.admit("ml/half")]
    monkeypatch.setattr(
        FeasibilityCache,
        "best",
        lambda feasibility, queue, allowed: looks.append(queue.name) or best(feasibility, queue, allowed),
    )

    assert order(round_of(history)) == [(job.key, "hall") for job in jobs]
    assert looks == ["hall", "hall"]


def test_a_grant_names_the_devices_the_amounts_and_the_checkpoint_to_resume_from():
    history = pool_with_one_node(policy("ml", 1))
    job = history.run("ml/one")
    history.append_facts(f.CheckpointRegisteredV1(job=job.key, attempt=1, uri="file:///c/1", at=history.now), by="node.n1")
    history.stop(job, "drain")
    history.end(job, 143)
    history.allocate()

    assert round_of(history) == [granted(job, place("n1", 0), attempt=2, inside=True, resume_from="file:///c/1")]


def test_each_replica_gets_a_lease_and_the_first_carries_the_job():
    history = pool_with_one_node(policy("ml"))
    job = history.admit("ml/gang")

    places = (place("n1", 0), place("n1", 1, job=False))
    assert leases(job, history.state.pools["hall"], places, inside=False, rule="R27") == [
        granted(job, places[0], rule="R27"),
        granted(job, places[1], rank=1, rule="R27"),
    ]
    assert round_of(history) == [granted(job, places[0]), granted(job, places[1], rank=1)]


def test_who_fits_in_the_unused_reservation_goes_before_who_borrows():
    history = pool_with_one_node(policy("rich", 0, priority=9), policy("ml", 2))
    borrower, insiders = history.admit("rich/one", priority=5), [history.admit("ml/one") for _ in range(3)]

    assert round_of(history) == [
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
    history = pool_with_one_node(policy("a"), policy("b", priority=1), policy("c", priority=2), count=8)
    history.law(ordered)
    first = {name: history.admit(f"{name}/one") for name in ("c", "b", "a")}
    large = history.admit("a/two")

    assert order(round_of(history)) == [(job.key, "hall") for job in (large, first["a"], first["b"], first["c"])]


def test_of_borrowers_who_has_borrowed_less_for_its_weight_goes_first():
    history = pool_with_one_node(policy("a"), policy("b", weight=3), count=6)
    jobs = {name: [history.admit(f"{name}/one") for _ in range(4)] for name in ("a", "b")}
    a, b = jobs["a"], jobs["b"]

    assert order(round_of(history)) == [(job.key, "hall") for job in (a[0], b[0], b[1], b[2], a[1], b[3])]


def test_inside_a_queue_priority_decides_then_age_then_the_order_of_submission():
    history = pool_with_one_node(policy("ml"))
    old = history.admit("ml/one")
    history.wait(SECOND)
    young, last = history.admit("ml/one"), history.admit("ml/one")
    urgent = history.admit("ml/one", priority=1)

    assert order(round_of(history)) == [(job.key, "hall") for job in (urgent, old, young, last)]


def test_a_queue_that_does_not_borrow_starts_jobs_inside_its_reservation_only():
    history = pool_with_one_node(policy("ml", 2, unborrowed=("one",)))
    jobs = [history.admit("ml/one") for _ in range(3)]

    assert order(round_of(history)) == [(job.key, "hall") for job in jobs[:2]]


def test_jobs_that_may_not_be_preempted_start_inside_the_reservation_only():
    history = pool_with_one_node(policy("ml", 2))
    jobs = [history.admit("ml/one", preemptible=False) for _ in range(3)]

    assert order(round_of(history)) == [(job.key, "hall") for job in jobs[:2]]


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
    history = pool_with_one_node(
        policy("ml", **limits), pools=(d.Pool(name="hall", selector={"site": "hall"}, capacity={JOB: 99}),)
    )
    jobs = [history.admit("ml/one") for _ in range(5)]

    assert order(round_of(history)) == [(job.key, "hall") for job in jobs[:started]]


def test_the_tenants_limit_binds_those_who_may_go_beyond_their_own():
    acme = d.Tenant(name="acme", shares=(d.Share(pool="hall", limit=gpus(2)),))
    history = pool_with_one_node(policy("ml", tenant="acme", limit=gpus(1), beyond_limit=("ann",)), tenants=(acme,))
    jobs = [history.admit("ml/one", tenant="acme") for _ in range(3)]

    assert order(round_of(history)) == [(job.key, "hall") for job in jobs[:2]]


def test_a_job_at_its_own_limit_blocks_no_other_and_one_without_room_may_be_overtaken():
    history = pool_with_one_node(
        policy("full", limit=gpus(1), priority=9), policy("large", priority=8), policy("small"), count=2
    )
    history.admit("full/two")
    history.admit("large/three")
    small = history.admit("small/one")

    assert order(round_of(history)) == [(small.key, "hall")]


def test_a_gang_starts_whole_or_not_at_all():
    history = pool_with_one_node(policy("ml"), count=1)
    gang = history.admit("ml/gang", priority=1)
    one = history.admit("ml/one")
    assert order(round_of(history)) == [(one.key, "hall")]

    history.node("n2", 1)

    assert order(round_of(history)) == [(gang.key, "hall")] * 2


def test_a_round_stops_at_what_a_record_holds_and_a_gang_is_never_split():
    history = pool_with_one_node(policy("ml"))
    first, gang, _ = history.admit("ml/one", priority=2), history.admit("ml/gang", priority=1), history.admit("ml/half")

    assert order(round_of(history, capacity=RecordCapacity(facts=2))) == [(first.key, "hall")]
    assert order(round_of(history, capacity=RecordCapacity(facts=3))) == [(job.key, "hall") for job in (first, gang, gang)]


def test_a_gang_that_no_record_could_hold_delays_no_other_job():
    history = pool_with_one_node(policy("ml"))
    history.admit("ml/gang", priority=1)
    one = history.admit("ml/one")

    assert order(round_of(history, capacity=RecordCapacity(facts=1))) == [(one.key, "hall")]


def test_a_round_has_an_end_even_where_more_would_fit():
    history = pool_with_one_node(policy("ml"), count=GRANTS_MAX + 5)
    for _ in range(GRANTS_MAX + 3):
        history.admit("ml/one")
    history.learn()

    assert len(history.allocate()) == GRANTS_MAX
    assert len(history.allocate()) == 3


def test_jobs_that_this_record_settles_are_granted_nothing():
    history = pool_with_one_node(policy("ml"))
    jobs = [history.admit("ml/one") for _ in range(2)]

    assert order(round_of(history, skip=frozenset({jobs[0].key}))) == []
    assert order(round_of(history, skip=frozenset({jobs[1].key}))) == [(jobs[0].key, "hall")]


def two_pools(*policies: d.Policy, **more: object) -> History:
    """`one` goes to west, then east; a GPU in each."""
    history = History(
        *policies,
        pools=(d.Pool(name="west", selector={"site": "west"}), d.Pool(name="east", selector={"site": "east"})),
        profiles=(profile("one", pools=("west", "east"), **more), profile("east", pools=("east",))),
    )
    history.node("w1", 1, site="west")
    history.node("e1", 1, site="east")
    return history


def linked(name: str, reserved: int | None = None, **more: object) -> d.Policy:
    return policy(name, reserved, profiles=(d.PolicyProfile(name="one"), d.PolicyProfile(name="east")), **more)


def test_a_job_goes_to_the_first_pool_of_its_order_that_can_take_it_now():
    history = two_pools(linked("ml"))
    first, second, _ = history.admit("ml/one"), history.admit("ml/one"), history.admit("ml/one")

    assert order(round_of(history)) == [(first.key, "west"), (second.key, "east")]


def test_a_job_inside_its_reservation_reclaims_before_it_spills():
    history = two_pools(linked("ml", 1), linked("other"))
    history.run("other/one")
    job = history.admit("ml/one")

    assert round_of(history) == [opened(job, pool="west")]


def test_a_profile_may_have_its_jobs_spill_before_they_reclaim():
    history = two_pools(linked("ml", 1), linked("other"), reclaim_before_spill=False)
    history.run("other/one")
    job = history.admit("ml/one")

    assert order(round_of(history)) == [(job.key, "east")]


def test_only_the_best_ranked_of_those_without_room_opens_a_search():
    history = pool_with_one_node(policy("a", 1), policy("b", 1, priority=1), policy("c"), count=2)
    history.run("c/two")
    history.admit("a/one")
    best = history.admit("b/one")

    assert round_of(history) == [opened(best)]


def test_a_search_waits_for_the_answer_to_the_one_before_it():
    history = pool_with_one_node(policy("a", 1), policy("b", 1, priority=1), policy("c"), count=2)
    history.run("c/two")
    history.admit("a/one")
    history.admit("b/one")
    history.allocate()

    assert round_of(history) == []


def test_no_search_begins_where_nothing_is_borrowed():
    history = pool_with_one_node(policy("a", 1), policy("b", 2), count=2)
    history.run("b/two")
    history.admit("a/one")

    assert round_of(history) == []


def test_by_priority_a_job_beyond_its_reservation_searches_too():
    history = pool_with_one_node(policy("a", priority=2, preemption=terms(preempt_lower_priority=True)), policy("b"), count=1)
    history.run("b/one")
    job = history.admit("a/one")

    assert round_of(history) == [opened(job, cause="priority")]


def test_while_a_search_is_open_no_job_that_ranks_lower_takes_what_is_free():
    history = pool_with_one_node(policy("ml", 2), policy("other"), policy("first", 1, priority=1), count=3)
    history.run("other/two")
    reclaims = history.admit("ml/two")
    assert history.allocate() == (opened(reclaims),)

    history.admit("other/one", priority=9)
    assert round_of(history) == []
    better = history.admit("first/one")

    assert order(round_of(history)) == [(better.key, "hall")]


def test_what_is_free_is_kept_in_the_same_look_for_one_who_ranks_before_and_may_take_something_back():  # R19
    history = pool_with_one_node(policy("ml", 4), policy("other"), count=3)
    history.run("other/two")
    large, small, other = history.admit("ml/two"), history.admit("ml/one"), history.admit("other/one")

    assert round_of(history) == [opened(large)]

    history.state.pools["hall"].failed_searches[group_key(large)] = FailedSearch(history.state.pools["hall"].epoch, 0, None)
    assert order(round_of(history)) == [(small.key, "hall")], "a job whose search found no victims keeps no units from others"
    assert other.state == "pending"


def test_a_job_that_yields_counts_under_its_policys_limit_until_it_has_left():  # R17
    history = pool_with_one_node(policy("ml", 2), policy("other", limit=gpus(2)), count=6)
    victim, waiting = history.run("other/two"), history.admit("other/two")
    preemptor = history.admit("ml/two")
    history.append_facts(f.ReclaimOpenedV1(job=preemptor.key, pool="hall", cause="reclaim"), by="allocator")
    ordered = f.PreemptionOrderedV1(
        preemption=history.state.pools["hall"].search.id,
        job=preemptor.key,
        pool="hall",
        cause="reclaim",
        victims=(Victim(job=victim.key, attempt=1, policy="default/other", lost=0),),
        places=(place("n1", 0, 1),),
        rule="R26",
    )
    history.append_facts(ordered, stopped(victim, "preempted"), by="allocator")

    assert order(round_of(history)) == [(preemptor.key, "hall")], "there is room for the other too, and not under its limit"
    history.end(victim)
    assert order(round_of(history)) == [(preemptor.key, "hall"), (waiting.key, "hall")]


def test_a_search_without_victims_is_not_opened_again_before_something_has_changed():
    history = pool_with_one_node(policy("ml", 1), policy("other", preemption=terms(min_runtime=5 * MINUTE)), count=1)
    history.run("other/one")
    job = history.admit("ml/one")
    history.allocate()
    search = history.state.pools["hall"].search
    none = f.PreemptionNoneV1(
        preemption=search.id, job=job.key, pool="hall", why="?", protected=1, retry_at=history.now + 5 * MINUTE
    )
    history.append_facts(none, by="preemption")
    assert round_of(history) == []

    history.wait(5 * MINUTE)

    assert round_of(history) == [opened(job)]


def nominated(history: History, job, victim, *, cause: str = "reclaim") -> f.PreemptionOrderedV1:
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
    history = pool_with_one_node(policy("ml", 1), policy("other", 1, priority=9), count=1)
    preemptor = history.admit("ml/one")
    history.append_facts(nominated(history, preemptor, None, cause=cause), by="allocator")
    history.admit("other/one", priority=9)

    assert round_of(history) == [granted(preemptor, place("n1", 0), inside=inside, rule="R27")]
    assert round_of(history, skip=frozenset({preemptor.key})) == []
    assert round_of(history, capacity=RecordCapacity(facts=0)) == []


def test_of_two_preemptors_the_one_whose_preemption_was_ordered_first_goes_first_in_whatever_order_they_are_kept():
    history = pool_with_one_node(policy("ml", 2), policy("other"), count=2)
    victims = [history.run("other/one"), history.run("other/one")]
    second, first = history.admit("ml/one"), history.admit("ml/one")
    for preemptor, victim in zip((first, second), victims, strict=True):
        where = place("n1", int(victim.leases[0].devices[0].device[-1]))
        yields = f.preemption.Victim(job=victim.key, attempt=1, policy="default/other", lost=0)
        order = msgspec.structs.replace(nominated(history, preemptor, victim), places=(where,), victims=(yields,))
        history.append_facts(order, by="allocator")
    history.node("n2", 1)
    expected = [granted(first, place("n2", 0), inside=True, rule="R27")]

    assert round_of(history) == expected
    history.state.preemptions = dict(reversed(history.state.preemptions.items()))
    assert round_of(history) == expected


def test_a_preemptor_waits_while_its_victim_holds_the_place():
    history = pool_with_one_node(policy("ml", 1), policy("other"), count=1)
    history.run("other/one")
    preemptor = history.admit("ml/one")
    history.append_facts(nominated(history, preemptor, None), by="allocator")

    assert round_of(history) == []


def test_fractions_fill_devices_and_whole_gpus_need_free_ones():
    history = pool_with_one_node(policy("ml"), count=2)
    half = history.run("ml/half")
    second, whole, third = history.admit("ml/half"), history.admit("ml/one"), history.admit("ml/half")

    share = place("n1", 0, units=GPU_UNITS // 2)
    assert (half.leases[0].devices, round_of(history)) == (
        share.devices,
        [granted(second, share), granted(whole, place("n1", 1))],
    )
    assert third.state == "pending"


def test_a_ceiling_of_the_pool_binds_before_its_nodes_do():
    history = pool_with_one_node(policy("ml"), pools=(d.Pool(name="hall", selector=HALL.selector, capacity={GPU: GPU_UNITS}),))
    first, _ = history.admit("ml/one"), history.admit("ml/one")

    assert order(round_of(history)) == [(first.key, "hall")]


def test_nothing_is_granted_on_a_node_that_is_cordoned():
    history = pool_with_one_node(policy("ml"))
    history.admit("ml/one")
    history.append_facts(f.NodeCordonedV1(author="default.admin", node="n1", reason="smoke"))

    assert round_of(history) == []


def test_a_job_held_back_after_a_loss_is_granted_when_its_time_has_come():
    history = pool_with_one_node(policy("ml"))
    job = history.run("ml/one")
    history.end(job, None, outcome="lost")
    history.allocate()
    assert history.allocate() == ()

    history.wait(SECOND)

    assert round_of(history) == [granted(job, place("n1", 0), attempt=2)]


def test_a_node_on_probation_is_given_one_job_and_the_next_one_once_that_runs():
    """R36."""
    history = pool_with_one_node(policy("ml"))
    history.append_facts(f.NodeSetAsideV1(node="n1", reason="it refuses", until=history.now + 600 * SECOND), by="allocator")
    history.append_facts(f.NodeCheckOrderedV1(node="n1"), by="allocator")
    history.append_facts(f.NodeCheckedV1(node="n1", ordered=history.state.sequence, passed=True, at=history.now), by="node.n1")
    first, second = history.admit("ml/one"), history.admit("ml/one")

    assert order(round_of(history)) == [(first.key, "hall")]
    history.allocate()
    assert order(round_of(history)) == []
    history.start(first)

    assert order(round_of(history)) == [(second.key, "hall")]
