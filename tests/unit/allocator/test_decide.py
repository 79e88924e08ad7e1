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


def pool_with_one_node(*policies: d.Policy, count: int = 4) -> History:
    history = History(*policies)
    history.node("n1", count)
    return history


def test_of_more_that_are_cancelled_than_a_record_settles_none_is_granted_what_is_free():
    history = pool_with_one_node(policy("ml"), count=4)
    history.node("n2", 4)
    for job in [history.admit(queue) for queue in (*["ml/one"] * SETTLED_MAX, *["ml/two"] * 20)]:
        history.cancel(job)
    last = history.admit("ml/three")
    history.learn()

    rounds = [history.allocate() for _ in range(3)]

    ended = [sum(isinstance(fact, f.JobEndedV1) for fact in facts) for facts in rounds]
    granted = [fact.job for facts in rounds for fact in facts if isinstance(fact, f.LeaseGrantedV1)]
    assert (ended, granted) == ([SETTLED_MAX, 20, 0], [last.key])


def answered(history: History) -> None:
    """Preemption states what it has to say."""
    history.append_facts(*PreemptionWatch(history.state).decide(history.now), by="preemption")


def dismissed_search(history: History) -> History:
    """`ml` searches for what `other` has borrowed, and no answer comes."""
    history.run("other/one")
    history.admit("ml/one")
    history.allocate()
    return history


def quiet() -> History:
    return pool_with_one_node(policy("ml", 1))


def busy() -> History:
    """Something of everything: an ending, a cancel, a doomed job, a limit, a dismissal, grants and a search."""
    history = pool_with_one_node(policy("ml", 2), policy("other"), policy("small"), count=4)
    jobs = [history.run("other/one", time_limit=MINUTE) for _ in range(4)]
    history.admit("ml/one")
    history.admit("small/three")
    history.admit("other/one", after=(Dependency(job=jobs[0].key),))
    history.end(jobs[0], 1)
    history.cancel(jobs[1])
    history.law(d.Documents(policies=(policy("small", limit={GPU: 0}),)))
    return history


def searched() -> History:
    return dismissed_search(pool_with_one_node(policy("ml", 1), policy("other"), count=1))


def proposed() -> History:
    history = searched()
    answered(history)
    return history


def ordered() -> History:
    history = proposed()
    history.allocate()
    return history


@pytest.mark.parametrize("scene", [quiet, busy, searched, proposed, ordered])
def test_a_decision_changes_nothing_and_is_the_same_when_taken_again(scene):
    history = scene()
    before = snapshot(history.state)

    decided = history.allocator.decide(history.now)
    assert differences(snapshot(history.state), before) == []

    assert history.allocator.decide(history.now) == decided
    assert Allocator(history.state).decide(history.now) == decided


def test_an_empty_installation_has_nothing_to_say_and_nothing_to_wait_for():
    allocator = Allocator(History().state)

    assert (allocator.decide(0), allocator.next_wakeup()) == ((), None)


def test_what_has_happened_is_answered_and_what_is_free_granted_in_one_record():
    history = pool_with_one_node(policy("ml"), count=2)
    gone, waiting = history.run("ml/one"), history.admit("ml/two")
    history.end(gone, 0)
    one = history.admit("ml/one", priority=1)

    assert history.allocate() == (
        f.JobEndedV1(job=gone.key, attempt=1, state="succeeded", cause="exited", exit_code=0),
        granted(one, place("n1", 0)),
    )
    assert waiting.state == "pending"


def test_the_dismissed_are_granted_nothing_by_the_same_record():
    history = pool_with_one_node(policy("ml"))
    job = history.admit("ml/one")
    history.law(d.Documents(policies=(policy("ml", limit={GPU: 0}),)))

    (fact,) = history.allocator.decide(history.now)

    assert (fact.job, fact.reason) == (job.key, "EXCEEDS_POLICY_LIMIT")


def test_the_cancelled_are_not_dismissed_too():
    history = pool_with_one_node(policy("ml"))
    job = history.admit("ml/one")
    history.cancel(job)
    history.law(d.Documents(policies=(policy("ml", limit={GPU: 0}),)))

    assert history.allocator.decide(history.now) == (
        f.JobEndedV1(job=job.key, attempt=0, state="cancelled", cause="cancelled"),
    )


def test_pending_jobs_are_looked_over_once_for_each_change_of_documents():
    history = pool_with_one_node(policy("ml"))
    history.allocate()
    assert history.allocator.reviewed == history.state.documents_sequence

    history.law(d.Documents(policies=(policy("ml"),)))
    assert history.allocator.reviewed < history.state.documents_sequence
    history.allocate()

    assert history.allocator.reviewed == history.state.documents_sequence


@pytest.mark.parametrize("fresh", [False, True], ids=["who has looked before", "who begins here"])
def test_a_job_that_was_admitted_by_what_there_was_before_is_looked_at_again(fresh):
    history = History(policy("ml"))
    before = history.state.sequence
    history.node("n1", 1)
    history.allocate()
    job = history.admit("ml/three", as_of=before)
    allocator = Allocator(history.state) if fresh else history.allocator

    (fact,) = allocator.decide(history.now)

    assert fact == f.JobDismissedV1(job=job.key, reason="EXCEEDS_POOL_CAPACITY", message="it asks for 3 gpu, pool hall has 1")


def test_a_job_that_was_admitted_by_what_there_is_is_not_looked_at_again():
    history = pool_with_one_node(policy("ml"))
    history.allocate()
    changed = history.state.documents_sequence

    history.admit("ml/one", as_of=changed)

    assert (history.state.documents_sequence, history.allocator.reviewed) == (changed, changed)


def test_more_than_one_record_of_dismissals_is_several_records():
    history = pool_with_one_node(policy("ml"), count=0)
    jobs = [history.admit("ml/one") for _ in range(SETTLED_MAX + 7)]
    history.law(d.Documents(policies=(policy("ml", limit={GPU: 0}),)))

    history.learn()

    rounds = [history.allocate(), history.allocate(), history.allocate()]

    assert [len(facts) for facts in rounds] == [SETTLED_MAX, 7, 0]
    assert {fact.job for facts in rounds for fact in facts} == {job.key for job in jobs}


def test_a_requeue_and_the_dismissal_that_follows_from_it_stand_in_one_record_or_in_none():
    """Cut in two, the dismissal would be lost until documents change again (R10)."""
    history = History(policy("ml"))
    history.node("n1", 4, cpu=1_000)
    overtaken = history.run("ml/three", max_retries=1)
    others = [history.admit("ml/cpu") for _ in range(SETTLED_MAX - 1)]
    while history.allocate():
        pass
    history.law(d.Documents(policies=(policy("ml", limit={GPU: 2 * GPU_UNITS}),)))
    history.allocate()  # looks over the pending jobs: the list is empty
    for job in (*others, overtaken):
        history.start(job)
        history.end(job, 1)

    while history.allocate():
        pass

    assert (overtaken.state, overtaken.reason) == ("rejected", "EXCEEDS_POLICY_LIMIT")


def test_what_settles_jobs_leaves_room_for_grants():
    history = pool_with_one_node(policy("ml"), count=100)
    cancelled = [history.admit("ml/one") for _ in range(SETTLED_MAX + 1)]
    for job in cancelled:
        history.cancel(job)
    waiting = [history.admit("ml/half") for _ in range(3)]
    history.learn()

    facts = history.allocator.decide(history.now)

    assert len(facts) <= RECORD_FACTS_MAX
    assert sum(isinstance(fact, f.JobEndedV1) for fact in facts) == SETTLED_MAX
    assert {fact.job for fact in facts[SETTLED_MAX:]} >= {job.key for job in waiting}


def test_an_order_stands_alone_and_grants_wait_for_the_next_record():
    history = proposed()
    victim, preemptor = history.state.jobs.values()
    history.admit("other/cpu", priority=9)

    facts = history.allocate()
    assert (type(facts[0]), facts[1:]) == (f.PreemptionOrderedV1, (stopped(victim, "preempted", preemptor=preemptor.key),))

    history.node("n2", 1)
    history.admit("other/one", priority=9)
    grants = history.allocate()
    assert (grants[0].job, grants[0].rule) == (preemptor.key, "R27")


def test_no_job_yields_to_one_that_has_room_by_now():
    history = proposed()
    _, preemptor = history.state.jobs.values()
    history.node("n2", 1)

    (dismissed,) = history.allocate()
    assert (type(dismissed), dismissed.why) == (f.PreemptionDismissedV1, "there is room for it")
    assert history.allocate() == (granted(preemptor, place("n2", 0), inside=True, rule="R15"),)


def test_no_victims_are_looked_for_where_there_is_room_by_now():
    history = searched()
    history.node("n2", 1)

    answered(history)
    assert [pool.failed_searches != {} for pool in history.state.pools.values()] == [True]


def test_a_preemption_goes_from_the_search_to_the_grant():
    history = ordered()
    victim, preemptor = history.state.jobs.values()
    assert history.allocate() == ()

    history.end(victim, 143)

    assert history.allocate() == (
        f.JobRequeuedV1(job=victim.key, attempt=1, cause="preempted", min_runtime=2 * MINUTE),
        granted(preemptor, place("n1", 0), inside=True, rule="R27"),
    )
    assert (victim.barred_from, history.allocate()) == ("hall", ())


def test_it_wakes_for_the_next_time_limit():
    history = pool_with_one_node(policy("ml"))
    history.run("ml/one", time_limit=10 * MINUTE)
    history.run("ml/one", time_limit=5 * MINUTE)
    history.allocate()

    assert history.allocator.next_wakeup() == history.now + 5 * MINUTE


def test_it_wakes_when_a_back_off_is_over():
    history = pool_with_one_node(policy("ml"))
    job = history.run("ml/one")
    history.end(job, None, outcome="lost")
    history.allocate()
    history.allocate()

    assert history.allocator.next_wakeup() == history.now + SECOND


def test_it_wakes_when_a_search_has_lasted_too_long():
    history = searched()
    history.allocate()

    assert history.allocator.next_wakeup() == history.now + 2 * SECOND


def test_it_wakes_when_a_protected_victim_has_had_its_minimum_run_time():
    history = dismissed_search(
        pool_with_one_node(policy("ml", 1), policy("other", preemption=terms(min_runtime=7 * MINUTE)), count=1)
    )
    answered(history)
    assert history.allocate() == ()

    assert history.allocator.next_wakeup() == history.now + 7 * MINUTE


def test_it_wakes_when_a_nomination_runs_out():
    history = ordered()
    victim, _ = history.state.jobs.values()
    history.end(victim, 143)
    history.allocator.decide(history.now)

    assert history.allocator.next_wakeup() == history.now + 5 * MINUTE


def test_what_it_has_looked_at_already_does_not_wake_it():
    history = pool_with_one_node(policy("ml"))
    history.run("ml/one", time_limit=MINUTE)
    history.wait(MINUTE)

    assert history.allocator.decide(history.now) != ()
    assert history.allocator.next_wakeup() is None
