from __future__ import annotations

import pytest

from headrace.allocator.decide import SETTLED_MAX, Allocator
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.facts.records import RECORD_FACTS_MAX
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.preemption.decide import PreemptionWatch
from tests.unit.allocator.history import History, granted, place, policy, stopped, terms
from tests.unit.domain.snapshot import differences, snapshot


def hall(*policies: d.Policy, count: int = 4) -> History:
    told = History(*policies)
    told.node("n1", count)
    return told


def test_of_more_that_are_cancelled_than_a_record_settles_none_is_granted_what_is_free():
    told = hall(policy("ml"), count=4)
    told.node("n2", 4)
    for job in [told.admit(queue) for queue in (*["ml/one"] * SETTLED_MAX, *["ml/two"] * 20)]:
        told.cancel(job)
    last = told.admit("ml/three")
    told.learn()

    rounds = [told.allocate() for _ in range(3)]

    ended = [sum(isinstance(fact, f.JobEndedV1) for fact in facts) for facts in rounds]
    granted = [fact.job for facts in rounds for fact in facts if isinstance(fact, f.LeaseGrantedV1)]
    assert (ended, granted) == ([SETTLED_MAX, 20, 0], [last.key])


def answered(told: History) -> None:
    """Preemption states what it has to say."""
    told.say(*PreemptionWatch(told.state).decide(told.now), by="preemption")


def dismissed_search(told: History) -> History:
    """`ml` searches for what `other` has borrowed, and no answer comes."""
    told.run("other/one")
    told.admit("ml/one")
    told.allocate()
    return told


def quiet() -> History:
    return hall(policy("ml", 1))


def busy() -> History:
    """Something of everything: an ending, a cancel, a doomed job, a limit, a dismissal, grants and a search."""
    told = hall(policy("ml", 2), policy("other"), policy("small"), count=4)
    jobs = [told.run("other/one", time_limit=MINUTE) for _ in range(4)]
    told.admit("ml/one")
    told.admit("small/three")
    told.admit("other/one", after=(Dependency(job=jobs[0].key),))
    told.end(jobs[0], 1)
    told.cancel(jobs[1])
    told.law(d.Documents(policies=(policy("small", limit={GPU: 0}),)))
    return told


def searched() -> History:
    return dismissed_search(hall(policy("ml", 1), policy("other"), count=1))


def proposed() -> History:
    told = searched()
    answered(told)
    return told


def ordered() -> History:
    told = proposed()
    told.allocate()
    return told


@pytest.mark.parametrize("scene", [quiet, busy, searched, proposed, ordered])
def test_a_decision_changes_nothing_and_is_the_same_when_taken_again(scene):
    told = scene()
    before = snapshot(told.state)

    decided = told.allocator.decide(told.now)
    assert differences(snapshot(told.state), before) == []

    assert told.allocator.decide(told.now) == decided
    assert Allocator(told.state).decide(told.now) == decided


def test_an_empty_installation_has_nothing_to_say_and_nothing_to_wait_for():
    allocator = Allocator(History().state)

    assert (allocator.decide(0), allocator.next_wakeup()) == ((), None)


def test_what_has_happened_is_answered_and_what_is_free_granted_in_one_record():
    told = hall(policy("ml"), count=2)
    gone, waiting = told.run("ml/one"), told.admit("ml/two")
    told.end(gone, 0)
    one = told.admit("ml/one", priority=1)

    assert told.allocate() == (
        f.JobEndedV1(job=gone.key, attempt=1, state="succeeded", cause="exited", exit_code=0),
        granted(one, place("n1", 0)),
    )
    assert waiting.state == "pending"


def test_the_dismissed_are_granted_nothing_by_the_same_record():
    told = hall(policy("ml"))
    job = told.admit("ml/one")
    told.law(d.Documents(policies=(policy("ml", limit={GPU: 0}),)))

    (fact,) = told.allocator.decide(told.now)

    assert (fact.job, fact.reason) == (job.key, "EXCEEDS_POLICY_LIMIT")


def test_the_cancelled_are_not_dismissed_too():
    told = hall(policy("ml"))
    job = told.admit("ml/one")
    told.cancel(job)
    told.law(d.Documents(policies=(policy("ml", limit={GPU: 0}),)))

    assert told.allocator.decide(told.now) == (f.JobEndedV1(job=job.key, attempt=0, state="cancelled", cause="cancelled"),)


def test_pending_jobs_are_looked_over_once_for_each_change_of_documents():
    told = hall(policy("ml"))
    told.allocate()
    assert told.allocator.reviewed == told.state.documents_sequence

    told.law(d.Documents(policies=(policy("ml"),)))
    assert told.allocator.reviewed < told.state.documents_sequence
    told.allocate()

    assert told.allocator.reviewed == told.state.documents_sequence


@pytest.mark.parametrize("fresh", [False, True], ids=["who has looked before", "who begins here"])
def test_a_job_that_was_admitted_by_what_there_was_before_is_looked_at_again(fresh):
    told = History(policy("ml"))
    before = told.state.sequence
    told.node("n1", 1)
    told.allocate()
    job = told.admit("ml/three", as_of=before)
    allocator = Allocator(told.state) if fresh else told.allocator

    (fact,) = allocator.decide(told.now)

    assert fact == f.JobDismissedV1(job=job.key, reason="EXCEEDS_POOL_CAPACITY", message="it asks for 3 gpu, pool hall has 1")


def test_a_job_that_was_admitted_by_what_there_is_is_not_looked_at_again():
    told = hall(policy("ml"))
    told.allocate()
    changed = told.state.documents_sequence

    told.admit("ml/one", as_of=changed)

    assert (told.state.documents_sequence, told.allocator.reviewed) == (changed, changed)


def test_more_than_one_record_of_dismissals_is_several_records():
    told = hall(policy("ml"), count=0)
    jobs = [told.admit("ml/one") for _ in range(SETTLED_MAX + 7)]
    told.law(d.Documents(policies=(policy("ml", limit={GPU: 0}),)))

    told.learn()

    rounds = [told.allocate(), told.allocate(), told.allocate()]

    assert [len(facts) for facts in rounds] == [SETTLED_MAX, 7, 0]
    assert {fact.job for facts in rounds for fact in facts} == {job.key for job in jobs}


def test_a_requeue_and_the_dismissal_that_follows_from_it_stand_in_one_record_or_in_none():
    """Cut in two, the dismissal would be lost until documents change again (R10)."""
    told = History(policy("ml"))
    told.node("n1", 4, cpu=1_000)
    overtaken = told.run("ml/three", max_retries=1)
    others = [told.admit("ml/cpu") for _ in range(SETTLED_MAX - 1)]
    while told.allocate():
        pass
    told.law(d.Documents(policies=(policy("ml", limit={GPU: 2 * GPU_UNITS}),)))
    told.allocate()  # looks over the pending jobs: the list is empty
    for job in (*others, overtaken):
        told.start(job)
        told.end(job, 1)

    while told.allocate():
        pass

    assert (overtaken.state, overtaken.reason) == ("rejected", "EXCEEDS_POLICY_LIMIT")


def test_what_settles_jobs_leaves_room_for_grants():
    told = hall(policy("ml"), count=100)
    cancelled = [told.admit("ml/one") for _ in range(SETTLED_MAX + 1)]
    for job in cancelled:
        told.cancel(job)
    waiting = [told.admit("ml/half") for _ in range(3)]
    told.learn()

    facts = told.allocator.decide(told.now)

    assert len(facts) <= RECORD_FACTS_MAX
    assert sum(isinstance(fact, f.JobEndedV1) for fact in facts) == SETTLED_MAX
    assert {fact.job for fact in facts[SETTLED_MAX:]} >= {job.key for job in waiting}


def test_an_order_stands_alone_and_grants_wait_for_the_next_record():
    told = proposed()
    victim, preemptor = told.state.jobs.values()
    told.admit("other/cpu", priority=9)

    facts = told.allocate()
    assert (type(facts[0]), facts[1:]) == (f.PreemptionOrderedV1, (stopped(victim, "preempted", preemptor=preemptor.key),))

    told.node("n2", 1)
    told.admit("other/one", priority=9)
    grants = told.allocate()
    assert (grants[0].job, grants[0].rule) == (preemptor.key, "R27")


def test_no_job_yields_to_one_that_has_room_by_now():
    told = proposed()
    _, preemptor = told.state.jobs.values()
    told.node("n2", 1)

    (dismissed,) = told.allocate()
    assert (type(dismissed), dismissed.why) == (f.PreemptionDismissedV1, "there is room for it")
    assert told.allocate() == (granted(preemptor, place("n2", 0), inside=True, rule="R15"),)


def test_no_victims_are_looked_for_where_there_is_room_by_now():
    told = searched()
    told.node("n2", 1)

    answered(told)
    assert [pool.failed_searches != {} for pool in told.state.pools.values()] == [True]


def test_a_preemption_goes_from_the_search_to_the_grant():
    told = ordered()
    victim, preemptor = told.state.jobs.values()
    assert told.allocate() == ()

    told.end(victim, 143)

    assert told.allocate() == (
        f.JobRequeuedV1(job=victim.key, attempt=1, cause="preempted", min_runtime=2 * MINUTE),
        granted(preemptor, place("n1", 0), inside=True, rule="R27"),
    )
    assert (victim.barred_from, told.allocate()) == ("hall", ())


def test_it_wakes_for_the_next_time_limit():
    told = hall(policy("ml"))
    told.run("ml/one", time_limit=10 * MINUTE)
    told.run("ml/one", time_limit=5 * MINUTE)
    told.allocate()

    assert told.allocator.next_wakeup() == told.now + 5 * MINUTE


def test_it_wakes_when_a_back_off_is_over():
    told = hall(policy("ml"))
    job = told.run("ml/one")
    told.end(job, None, outcome="lost")
    told.allocate()
    told.allocate()

    assert told.allocator.next_wakeup() == told.now + SECOND


def test_it_wakes_when_a_search_has_lasted_too_long():
    told = searched()
    told.allocate()

    assert told.allocator.next_wakeup() == told.now + 2 * SECOND


def test_it_wakes_when_a_protected_victim_has_had_its_minimum_run_time():
    told = dismissed_search(hall(policy("ml", 1), policy("other", preemption=terms(min_runtime=7 * MINUTE)), count=1))
    answered(told)
    assert told.allocate() == ()

    assert told.allocator.next_wakeup() == told.now + 7 * MINUTE


def test_it_wakes_when_a_nomination_runs_out():
    told = ordered()
    victim, _ = told.state.jobs.values()
    told.end(victim, 143)
    told.allocator.decide(told.now)

    assert told.allocator.next_wakeup() == told.now + 5 * MINUTE


def test_what_it_has_looked_at_already_does_not_wake_it():
    told = hall(policy("ml"))
    told.run("ml/one", time_limit=MINUTE)
    told.wait(MINUTE)

    assert told.allocator.decide(told.now) != ()
    assert told.allocator.next_wakeup() is None
