"""One round of the bridge: what is seen, and the steps that follow."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.durations import MINUTE
from headrace.kubernetes.decide import decide, living
from headrace.kubernetes.identity import CLUSTER, NAMESPACE, UNIT, is_for, job_id, unit_of
from headrace.kubernetes.matching import BELIEVED, Matching, doubted
from headrace.kubernetes.objects import wrong_labels
from headrace.kubernetes.view import Absent, Assign, Cancel, Delete, Evict, Release, SetCondition, State, Submit, Ungate
from headrace.kubernetes.waiting import lacking
from tests.unit.kubernetes.seen import ID, KEY, NOW, answer, job, node, pod, start, stop, view

ENDED_AT = 1_767_225_690_000_000


def steps(seen):
    """The steps of a round, without what pods are told."""
    return [step for step in decide(seen) if not isinstance(step, SetCondition)]


def conditions(seen):
    return [step[1:] for step in decide(seen) if isinstance(step, SetCondition)]


def ended(outcome, code=None, *, stopping=False, message="", exited_at=NOW, at=NOW):
    return f.LeaseEndedV1(
        job=KEY, attempt=1, outcome=outcome, exit_code=code, stopping=stopping, message=message, exited_at=exited_at, at=at
    )


def stated(*facts, absent=()):
    return State("n1", facts, 9, 80, NOW, absent)


def test_a_new_pod_learns_the_id_of_its_job_before_the_job_is_submitted():
    waiting = pod()
    made = job_id("test", [waiting], NOW)
    assert steps(view(waiting)) == [Assign(waiting, made, 0)]
    labelled = pod(job=made, rank="0")
    (submit,) = steps(view(labelled, jobs={f"acme.ci.{made}": None}))
    assert isinstance(submit, Submit)
    assert (submit.namespace, submit.queue, submit.submission.id) == ("science", "ai-dev/half", made)
    assert submit.submission.request == {"gpu": "1"}
    assert submit.submission.labels == {CLUSTER: "test", NAMESPACE: "science", UNIT: unit_of(waiting).digest}


def test_a_pod_whose_job_could_not_be_asked_about_is_left_alone():
    assert steps(view(pod(job=ID, rank="0"))) == []


def test_a_group_becomes_a_job_when_it_is_whole_and_its_oldest_pods_come_first():
    some = [pod(name, group="g", size="2") for name in "ab"]
    assert steps(view(some[0])) == []
    made = job_id("test", some, NOW)
    assert steps(view(*some)) == [Assign(some[0], made, 0), Assign(some[1], made, 1)]


def test_two_bridges_that_name_the_same_pods_differently_agree_on_the_smaller_id():
    some = [pod(name, group="g", size="2") for name in "ab"]
    early, late = (job_id("test", some, NOW + shift) for shift in (0, 5_000_000))
    assert is_for(early, late)
    labelled = [pod("a", group="g", size="2", job=late, rank="0"), pod("b", group="g", size="2", job=early, rank="1")]
    jobs = {f"acme.ci.{made}": None for made in (early, late)}
    assert steps(view(*labelled, jobs=jobs)) == [Assign(labelled[0], early, 0)]


def test_a_grant_takes_the_gate_off_for_its_node():
    waiting = pod(job=ID, rank="0")
    seen = view(waiting, answers={"n1": answer(start())}, jobs={KEY: job(waiting, "running")})
    assert steps(seen) == [Ungate(waiting, "n1", 1, 40)]


def test_the_gates_of_a_group_wait_until_all_its_leases_are_known():
    some = [pod(name, group="g", size="2", job=ID, rank=rank) for name, rank in (("a", "0"), ("b", "1"))]
    jobs = {KEY: job(some[0], "running", replicas=2)}
    first, second = start(replicas=2), start(rank=1, replicas=2)
    assert steps(view(*some, answers={"n1": answer(first)}, jobs=jobs)) == []
    whole = view(*some, answers={"n1": answer(first, second)}, jobs=jobs)
    assert steps(whole) == [Ungate(some[0], "n1", 1, 40), Ungate(some[1], "n1", 1, 40)]


def test_a_group_that_was_let_go_in_part_is_let_go_whole():
    gone = pod("a", gated=False, group="g", size="2", job=ID, rank="0", lease="1.40")
    left = pod("b", group="g", size="2", job=ID, rank="1")
    orders = answer(start(replicas=2), start(rank=1, replicas=2))
    assert steps(view(gone, left, answers={"n1": orders}, jobs={KEY: job(gone, "running", replicas=2)})) == [
        Ungate(left, "n1", 1, 40)
    ]


def test_a_pod_that_runs_is_stated_once():
    runs = pod(gated=False, job=ID, rank="0", lease="1.40", phase="Running")
    jobs = {KEY: job(runs, "running")}
    fact = f.LeaseStartedV1(job=KEY, attempt=1, at=NOW, isolation="none")
    assert steps(view(runs, answers={"n1": answer(start())}, jobs=jobs)) == [stated(fact)]
    assert steps(view(runs, answers={"n1": answer(start(started=True))}, jobs=jobs)) == []


@pytest.mark.parametrize(
    ("fields", "order", "expected"),
    [
        ({"phase": "Succeeded", "code": 0}, start(started=True), ended("exited", 0, exited_at=ENDED_AT)),
        ({"phase": "Failed", "code": 3}, start(started=True), ended("exited", 3, exited_at=ENDED_AT)),
        ({"phase": "Failed", "code": 143}, stop(), ended("exited", 143, stopping=True, exited_at=ENDED_AT)),
        ({"phase": "Failed"}, start(), ended("refused", message="the kubelet did not start it")),
        ({"phase": "Failed"}, stop(started=False), ended("never_started")),
        ({"deleting": True, "node": ""}, start(), ended("exited", 143, message="its pod was deleted before it ran")),
        ({"deleting": True, "node": ""}, stop(started=False), ended("never_started")),
    ],
)
def test_how_a_pod_ended_is_stated(fields, order, expected):
    over = pod(gated=False, job=ID, rank="0", lease="1.40", **fields)
    assert steps(view(over, answers={"n1": answer(order)}, jobs={KEY: job(over, "running")})) == [stated(expected)]


def test_a_pod_that_ran_and_ended_between_two_rounds_is_stated_as_both():
    over = pod(gated=False, job=ID, rank="0", lease="1.40", phase="Succeeded", code=0)
    (step,) = steps(view(over, answers={"n1": answer(start())}, jobs={KEY: job(over, "running")}))
    assert [type(fact) for fact in step.facts] == [f.LeaseStartedV1, f.LeaseEndedV1]


def test_a_stop_evicts_with_the_whole_grace_of_the_ladder_once():
    runs = pod(gated=False, job=ID, rank="0", lease="1.40", phase="Running")
    leaves = pod(gated=False, job=ID, rank="0", lease="1.40", phase="Running", deleting=True)
    jobs = {KEY: job(runs, "preempting")}
    assert steps(view(runs, answers={"n1": answer(stop())}, jobs=jobs)) == [Evict(runs, 90)]
    assert steps(view(leaves, answers={"n1": answer(stop())}, jobs=jobs)) == []


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (stop(started=False), ended("never_started")),
        (stop(), ended("lost", stopping=True, message="its pod is gone")),
        (start(started=True), ended("lost", message="its pod is gone")),
    ],
)
def test_a_lease_whose_pod_is_not_there_is_ended_after_another_look(order, expected):
    waiting = pod(job=ID, rank="0")
    seen = view(waiting, answers={"n1": answer(order)}, jobs={KEY: job(waiting, "running")})
    found = [step for step in steps(seen) if isinstance(step, State)]
    assert found == [stated(expected, absent=(Absent("science", ID, 1, 0),))]


def test_a_job_that_is_not_a_pod_fails_on_a_node_that_runs_pods():
    other = "acme.alice.01kdvdsjq0wt2e6j2g7qay1x5m"
    (step,) = steps(view(answers={"n1": answer(start(other))}))
    assert (step.facts[0].outcome, step.facts[0].exit_code) == ("exited", 126)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"lease": "1.40"}, Evict),
        ({"lease": "1.90"}, None),
        ({}, Delete),
        ({"lease": "no lease"}, Delete),
        ({"lease": "1.40", "target": ""}, Evict),
    ],
)
def test_a_pod_without_a_lease_leaves_unless_the_answer_may_be_older_than_its_grant(fields, expected):
    stray = pod(gated=False, job=ID, rank="0", phase="Running", **fields)
    seen = view(stray, answers={"n1": answer(through=80)}, jobs={KEY: job(stray, "running", replicas=1)})
    left = [step for step in steps(seen) if isinstance(step, (Evict, Delete))]
    assert left == ([expected(stray, 30, "it has no lease")] if expected else [])


@pytest.mark.parametrize("node_of_pod", ["", "n1"])
def test_a_pod_whose_grant_no_answer_knows_for_long_leaves_placed_or_not(node_of_pod):
    stray = pod(gated=False, job=ID, rank="0", lease="1.90", node=node_of_pod)
    seen = view(stray, answers={"n1": answer(through=80)}, jobs={KEY: job(stray, "running", replicas=1)})
    since = doubted(Matching(seen), {})
    assert since == {stray.uid: NOW}
    later = seen._replace(now=NOW + BELIEVED)
    assert steps(later._replace(doubted=doubted(Matching(later), since))) == []
    unanswered = later._replace(now=NOW + BELIEVED + 1, answers={})
    since = doubted(Matching(unanswered), since)
    assert steps(unanswered._replace(doubted=since)) == []
    assert steps(unanswered._replace(answers=later.answers, doubted=since)) == [Evict(stray, 30, "it has no lease")]
    known = seen._replace(answers={"n1": answer(start(granted=90), through=90)})
    assert doubted(Matching(known), since) == {}


def test_of_two_pods_with_the_same_lease_the_older_one_stays():
    first, second = (pod(name, gated=False, job=ID, rank="0", lease="1.40", phase="Running") for name in "ab")
    seen = view(first, second, answers={"n1": answer(start(started=True))}, jobs={KEY: job(first, "running")})
    assert steps(seen) == [Evict(second, 30, "it has no lease")]


def test_a_pod_is_let_go_when_its_end_is_in_the_ledger():
    over = pod(gated=False, job=ID, rank="0", lease="1.40", phase="Succeeded", code=0)
    assert steps(view(over, jobs={KEY: job(over, "succeeded")})) == [Release(over)]


def test_a_new_pod_of_a_controller_takes_over_the_pending_job_of_the_one_that_was_preempted():
    former = pod("old", gated=False, job=ID, rank="0", lease="1.40", phase="Failed", code=143, controller="j", finalized=False)
    new = pod("new", controller="j")
    assert steps(view(former, new, jobs={KEY: job(new, "pending")})) == [Assign(new, ID, 0)]


def test_a_job_is_cancelled_when_it_has_been_seen_without_its_pods_for_a_minute():
    seen = view(jobs={KEY: job(pod(), "pending", admitted=NOW - 60 * MINUTE)})
    assert lacking(Matching(seen), {}) == {KEY: NOW}
    assert steps(seen._replace(lacking={KEY: NOW})) == []
    later = seen._replace(now=NOW + MINUTE, lacking=lacking(Matching(seen._replace(now=NOW + MINUTE)), {KEY: NOW}))
    assert steps(later) == [Cancel("science", KEY, "its pods are gone")]


def test_a_job_whose_pod_has_come_is_not_counted_as_one_without_pods():
    waiting = pod(job=ID, rank="0")
    assert lacking(Matching(view(waiting, jobs={KEY: job(waiting, "pending")})), {KEY: NOW - MINUTE}) == {}


def test_a_group_of_another_size_than_the_profile_says_is_cancelled_with_the_reason():
    some = [pod(name, group="g", size="2", job=ID, rank=rank) for name, rank in (("a", "0"), ("b", "1"))]
    seen = view(*some, jobs={KEY: job(some[0], "pending", replicas=4)})
    reason = "the profile has 4 replicas, and the group 2 pods; they have to be the same"
    assert [step for step in steps(seen) if isinstance(step, Cancel)] == [Cancel("science", KEY, reason)]


@pytest.mark.parametrize(
    ("waits", "jobs", "expected"),
    [
        (pod(namespace="grey"), {}, ("False", "REFUSED", "namespace grey has no service account of Headrace")),
        (pod(queue="half"), {}, ("False", "REFUSED", wrong_labels({"headrace.dev/queue": "half"}))),
        (pod(group="g", size="2"), {}, ("False", "PENDING", "waits for the 2 pods of group g")),
        (pod(), {}, ("False", "PENDING", "is being submitted")),
    ],
)  # fmt: skip
def test_a_pod_is_told_why_it_waits(waits, jobs, expected):
    assert conditions(view(waits, jobs=jobs)) == [expected]


def test_a_pod_is_told_the_reason_of_its_job():
    waiting = pod(job=ID, rank="0")
    known = job(waiting, "pending", reason="NO_FREE_CAPACITY", message="not enough is free")
    assert conditions(view(waiting, jobs={KEY: known})) == [("False", "NO_FREE_CAPACITY", "not enough is free")]
    rejected = job(waiting, "rejected", reason="UNKNOWN_QUEUE", message="there is no queue")
    assert conditions(view(waiting, jobs={KEY: rejected})) == [("False", "UNKNOWN_QUEUE", "there is no queue")]


def test_a_node_registers_when_it_has_something_new_to_say_or_was_given_up():
    devices = (Device(device="gpu0", model="H100-80GB-HBM3", memory=0), Device(device="gpu1", model="H100-80GB-HBM3", memory=0))
    (step,) = steps(view(registered={}))
    (fact,) = step.facts
    assert (fact.node, fact.labels, fact.devices, fact.cpu, fact.memory) == ("n1", {"site": "hq"}, devices, 8_000, 65_536)
    assert (fact.isolation, fact.levels["fraction"], fact.levels["container-whole"]) == ("none", "unable", "unable")
    assert steps(view()) == []
    assert [type(step) for step in steps(view(answers={"n1": answer(lost=True)}))] == [State]


def test_gpus_that_others_take_and_nodes_that_are_closed_are_unfit():
    def unfit(**fields):
        (step,) = steps(view(registered={}, **fields))
        return [device.unfit for device in step.facts[0].devices]

    assert unfit(foreign={"n1": 1}) == ["", "taken by a pod that is not of Headrace"]
    assert unfit(foreign={"n1": 1}, answers={"n1": answer()}) == ["", "taken by a pod that is not of Headrace"]
    assert unfit(nodes=(node(closed=True),)) == ["the node is unschedulable in Kubernetes"] * 2


def test_a_node_that_was_given_up_registers_after_its_superseded_pods_have_left():
    stray = pod(gated=False, job=ID, rank="0", lease="1.40", phase="Running")
    seen = view(stray, answers={"n1": answer(lost=True)}, jobs={KEY: job(stray, "running")})
    assert steps(seen) == [Evict(stray, 30, "it has no lease")]


def test_a_node_that_is_not_ready_has_no_heartbeat_and_does_not_register():
    assert living(view()) == ["n1"]
    assert living(view(nodes=(node(ready=False),))) == []
    assert steps(view(nodes=(node(ready=False),), registered={})) == []


def test_a_node_that_was_set_aside_answers_its_check():
    (step,) = steps(view(answers={"n1": answer(check=70)}))
    assert step.facts == (f.NodeCheckedV1(node="n1", ordered=70, passed=True, at=NOW),)


def test_a_pod_that_requests_more_than_the_job_that_its_labels_name_is_given_another_job():
    honest, greedy = pod("a"), pod("b", gpus=8, job=ID, rank="0")
    seen = view(greedy, answers={"n1": answer(start())}, jobs={KEY: job(honest, "running")})
    assert [type(step) for step in steps(seen)] == [Assign]
