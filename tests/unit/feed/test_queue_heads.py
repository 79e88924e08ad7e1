"""The first in line and its reason, told when they change."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Ladder, Place
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.facts.preemption import Victim
from headrace.feed.queue_heads import LOOK_EVERY, PAUSE_MAX, Heads, Looks, QueueHead
from headrace.views.job_index import JobIndex, jobs_of

DEV_ONE = ("acme", "dev", "one")
AT_LIMIT = "the policy is at its limit: policy acme/dev uses 1 gpu of a limit of 1, it asks for 1"


@pytest.fixture
def heads(hall, policy_of):
    """The heads of a story in which policy acme/dev may use one GPU."""
    index = JobIndex(hall.state)
    heads = Heads(hall.state, index)
    hall.note = lambda record, _: heads.touch(index.note(record, jobs_of(record)).queues)
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=policy_of("acme", limit={"gpu": 126_000})))
    return heads


def changed_heads(heads, hall, **more):
    return list(heads.changes(hall.now, **more))


def test_a_head_is_told_when_it_comes_and_when_it_goes_and_not_between(hall, heads):
    first, second = hall.job(1), hall.job(2)
    hall.admit(first)
    hall.grant(first, ("gpu01", "g0"))
    assert changed_heads(heads, hall) == []
    hall.admit(second)
    assert changed_heads(heads, hall) == [(DEV_ONE, QueueHead(second, "AT_POLICY_LIMIT", AT_LIMIT))]
    hall.admit(hall.job(3))
    assert changed_heads(heads, hall) == []
    hall.end(first)
    hall.finish(first)
    assert [(queue, head.job, head.reason) for queue, head in changed_heads(heads, hall)] == [
        (DEV_ONE, second, "BEHIND_HIGHER_RANK")
    ]
    hall.grant(second, ("gpu01", "g0"))
    assert [head.job for _, head in changed_heads(heads, hall)] == [hall.job(3)]
    hall.finish(hall.job(3), "cancelled", attempt=0)
    assert changed_heads(heads, hall) == [(DEV_ONE, QueueHead())]


def test_the_best_ranked_of_all_groups_is_the_head(hall, heads):
    hall.admit(hall.job(1))
    hall.admit(hall.job(2), preemptible=False, priority=5)
    assert [head.job for _, head in changed_heads(heads, hall)] == [hall.job(2)]


def test_a_job_that_units_are_kept_for_is_the_head(hall, heads):
    victim, preemptor = hall.job(1, tenant="rival"), hall.job(2)
    hall.admit(victim)
    hall.grant(victim, ("gpu01", "g0"))
    hall.admit(preemptor)
    hall.admit(hall.job(3), priority=9)
    hall.append_facts("allocator", f.ReclaimOpenedV1(job=preemptor, pool="hall", cause="reclaim"))
    hall.append_facts(
        "allocator",
        f.PreemptionOrderedV1(
            preemption=f"{preemptor}@{hall.state.sequence}",
            job=preemptor,
            pool="hall",
            cause="reclaim",
            victims=(Victim(job=victim, attempt=1, policy="dev", lost=0),),
            places=(Place(node="gpu01", amounts={"gpu": 126_000}),),
            rule="R26",
        ),
    )
    assert [(head.job, head.reason) for _, head in changed_heads(heads, hall)] == [(preemptor, "WAITING_FOR_PREEMPTION")]


def test_a_job_that_moves_is_not_a_head_before_it_waits(hall, heads):
    """R29: it may still hold the place where it was suspended."""
    job = hall.job(1)
    hall.append_facts("governance", f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]))
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.start(job)
    stop = Ladder(cause="preempted", callback_grace=0, term_grace=0, then="suspend")
    hall.append_facts("allocator", f.StopOrderedV1(job=job, attempt=1, ladder=stop))
    hall.append_facts("node.gpu01", f.LeaseSuspendedV1(job=job, attempt=1, at=0))
    places = (Place(node="gpu01", amounts={"gpu": 126_000}),)
    hall.append_facts("allocator", f.MoveOrderedV1(job=job, attempt=1, pool="hall", places=places))
    hall.stop(job, "moved")
    assert changed_heads(heads, hall) == []
    hall.end(job, exit_code=137, outcome="killed")
    hall.append_facts("allocator", f.JobRequeuedV1(job=job, attempt=1, cause="moved"))
    assert [head.job for _, head in changed_heads(heads, hall)] == [job]


def test_a_reason_that_others_change_is_told_when_its_turn_comes(hall, heads):
    hall.admit(hall.job(1))
    assert [head.reason for _, head in changed_heads(heads, hall)] == ["BEHIND_HIGHER_RANK"]
    hall.append_facts("governance", f.NodeCordonedV1(author="a.b", node="gpu01"))
    assert [head.reason for _, head in changed_heads(heads, hall)] == ["NO_HEALTHY_NODE"]


def test_queues_are_looked_at_a_few_at_a_time_those_that_moved_first(hall, heads):
    for number, (tenant, profile) in enumerate([("acme", "one"), ("acme", "pair"), ("rival", "one")]):
        hall.admit(hall.job(number, tenant=tenant), profile=profile, replicas=2 if profile == "pair" else 1)
    assert [queue for queue, _ in changed_heads(heads, hall, at_once=2)] == [DEV_ONE, ("acme", "dev", "pair")]
    hall.append_facts("governance", f.NodeCordonedV1(author="a.b", node="gpu01"))
    hall.finish(hall.job(1), "cancelled", attempt=0)
    assert [queue for queue, _ in changed_heads(heads, hall, at_once=2)] == [("rival", "dev", "one"), ("acme", "dev", "pair")]
    assert [queue for queue, _ in changed_heads(heads, hall, at_once=2)] == [DEV_ONE]
    assert changed_heads(heads, hall) == []


@pytest.mark.parametrize(
    ("took", "pause"),
    [(0, LOOK_EVERY), (LOOK_EVERY // 4, LOOK_EVERY), (LOOK_EVERY, 4 * LOOK_EVERY), (PAUSE_MAX, PAUSE_MAX), (-5, LOOK_EVERY)],
)
def test_looks_at_heads_take_a_fifth_of_the_time_at_most(took, pause):
    looks, began = Looks(), 1_000_000_000
    assert looks.is_due(began)
    looks.note(began, began + took)
    assert looks.pause == pause
    after = [began + took, began + took + pause - 1, began + took + pause, began + took - 1]
    assert [looks.is_due(now) for now in after] == [False, False, True, True]
