"""Which pending jobs are dismissed after documents or nodes have changed (R10)."""

from __future__ import annotations

import pytest

from headrace.allocator.pending_review import review_pending, why_never
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.values.durations import SECOND
from tests.unit.allocator.history import PROFILES, History, gpus, policy, profile


def new_history() -> History:
    """A hall of four GPUs and one policy, `ml`, that reserves two and may use all."""
    history = History(policy("ml", 2))
    history.node()
    return history


def test_documents_that_change_nothing_for_them_leave_pending_jobs_alone():
    history = new_history()
    history.admit("ml/one")
    history.admit("ml/two", preemptible=False)

    assert list(review_pending(history.state)) == []


def test_a_smaller_limit_dismisses_all_jobs_of_a_group_that_can_now_never_run():
    history = new_history()
    jobs = [history.admit("ml/three") for _ in range(3)]
    history.admit("ml/two")

    history.law(d.Documents(policies=(policy("ml", 2, limit=gpus(2)),)))

    message = "it asks for 3 gpu, the limit of policy default/ml is 2"
    assert list(review_pending(history.state)) == [
        f.JobDismissedV1(job=job.key, reason="EXCEEDS_POLICY_LIMIT", message=message) for job in jobs
    ]


def test_dismissals_are_stated_in_the_order_of_their_jobs_in_whatever_order_these_are_kept():
    history = new_history()
    jobs = [history.admit(queue) for queue in ("ml/three", "ml/two", "ml/three")]
    jobs.append(history.admit("ml/two", after=(Dependency(job=jobs[0].key),)))
    history.law(d.Documents(policies=(policy("ml", 1, limit=gpus(1)),)))

    found = list(review_pending(history.state))
    pending = history.state.pending
    pending.groups, pending.ineligible = dict(reversed(pending.groups.items())), dict(reversed(pending.ineligible.items()))

    assert [fact.job for fact in found] == [job.key for job in jobs]
    assert list(review_pending(history.state)) == found


def test_a_smaller_reservation_dismisses_what_may_not_be_preempted():
    history = new_history()
    job = history.admit("ml/two", preemptible=False)
    history.admit("ml/two")

    history.law(d.Documents(policies=(policy("ml", 1),)))

    message = "it asks for 2 gpu without being preemptible, policy default/ml has a reservation of 1; submit it as preemptible"
    assert list(review_pending(history.state)) == [f.JobDismissedV1(job=job.key, reason="EXCEEDS_RESERVATION", message=message)]


@pytest.mark.parametrize(
    "gone",
    [
        f.PolicyDeletedV1(author="default.admin", tenant="default", name="ml"),
        f.ProfileDeletedV1(author="default.admin", name="one"),
        f.PolicyAppliedV1(author="default.admin", policy=policy("ml", 2, profiles=(d.PolicyProfile(name="two"),))),
    ],
)
def test_jobs_of_a_queue_that_is_gone_are_dismissed_those_that_stand_aside_too(gone):
    history = new_history()
    job = history.admit("ml/one")
    aside = history.admit("ml/one", after=(Dependency(job=job.key),))

    history.append_facts(gone)

    assert list(review_pending(history.state)) == [
        f.JobDismissedV1(job=waiting.key, reason="QUEUE_DELETED", message="queue ml/one is gone") for waiting in (job, aside)
    ]


def test_lost_nodes_dismiss_no_job():
    history = new_history()
    job = history.admit("ml/three")

    history.append_facts(f.NodeLostV1(node="n1", silent_for=60 * SECOND), by="preemption")

    assert (why_never(history.state, job), list(review_pending(history.state))) == (None, [])


def test_a_larger_profile_does_not_touch_what_was_admitted_with_the_old_one():
    history = new_history()
    history.admit("ml/one")

    history.law(d.Documents(profiles=tuple(profile("one", 64) if link.name == "one" else link for link in PROFILES)))

    assert list(review_pending(history.state)) == []


def test_a_job_admitted_before_the_first_node_waits_while_nodes_join_one_after_the_other():  # R10
    history = History(policy("ml"))
    gang = history.admit("ml/gang", request=gpus(4))
    history.node("n1")
    history.wait(SECOND)
    assert (why_never(history.state, gang), list(review_pending(history.state))) == (None, [])

    history.law(d.Documents(policies=(policy("ml", limit=gpus(8)),)))
    assert list(review_pending(history.state)) == []
    assert [
        rejected.message for rejected in (why_never(history.state, group) for group in history.state.pending.groups.values())
    ] == ["it asks for 8 gpu, pool hall has 4"]

    history.node("n2")
    history.learn()
    assert {fact.node for fact in history.allocate() if isinstance(fact, f.LeaseGrantedV1)} == {"n1", "n2"}


def test_what_the_document_of_a_pool_declares_is_held_against_a_job_admitted_before_its_first_node():  # R10
    history = History(policy("ml"))
    job = history.admit("ml/three")
    history.node("n1", count=2)
    history.law(d.Documents(pools=(d.Pool(name="hall", selector={"site": "hall"}, capacity=gpus(2)),)))

    assert list(review_pending(history.state)) == [
        f.JobDismissedV1(job=job.key, reason="EXCEEDS_POOL_CAPACITY", message="it asks for 3 gpu, pool hall has 2")
    ]


def test_a_job_that_its_pools_nodes_could_run_once_is_dismissed_when_a_node_is_removed():  # R10
    history = History(policy("ml"))
    history.node("n1", 2)
    history.node("n2")
    job = history.admit("ml/three")
    history.append_facts(f.NodeRemovedV1(author="default.admin", node="n2"))

    assert [fact.job for fact in review_pending(history.state)] == [job.key]
