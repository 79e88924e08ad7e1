"""Which suspended job goes on in another place, and the decision that says so (R29)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.levels import FIRST
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import MINUTE
from tests.unit.allocator.history import History, gpus, place, policy, stopped, terms

SUSPENDS = terms(on_preempt="suspend")
NOT_AT_ALL: tuple[f.AnyFact, ...] = ()


def pool_with_nodes(count: int = 2, **more: object) -> History:
    history = History(policy("ml", 2), policy("low", preemption=SUSPENDS, **more))
    history.node("n1", count)
    return history


def save(history: History, job) -> None:
    node = next(iter(job.leases.values())).node
    history.append_facts(
        f.CheckpointRegisteredV1(job=job.key, attempt=job.attempt, uri="file:///c", at=history.now), by=f"node.{node}"
    )


def suspend(history: History, job) -> None:
    history.stop(job, "preempted", "suspend")
    for rank, lease in job.leases.items():
        fact = f.LeaseSuspendedV1(job=job.key, attempt=job.attempt, rank=rank, at=history.now)
        history.append_facts(fact, by=f"node.{lease.node}")
    assert job.state == "suspended"


def beside_an_idle_gpu(queue: str = "low/one", *, saved: bool = True, **more: object) -> tuple[History, object, object]:
    """A job is suspended, another has its device, and the other device of the node is idle."""
    history = pool_with_nodes(**more)
    job = history.run(queue)
    if saved:
        save(history, job)
    suspend(history, job)
    other = history.admit("ml/one")
    lease = next(iter(job.leases.values()))
    history.append_facts(replace(granted(other), devices=lease.devices, node=lease.node), by="allocator")
    history.start(other)
    return history, job, other


def granted(job) -> f.LeaseGrantedV1:
    return f.LeaseGrantedV1(job=job.key, attempt=1, node="n1", pool="hall", amounts={GPU: GPU_UNITS, JOB: 1})


def moved(job, *places, pool: str = "hall") -> tuple[f.AnyFact, ...]:
    ordered = f.MoveOrderedV1(job=job.key, attempt=job.attempt, pool=pool, places=places)
    return ordered, stopped(job, "moved", "requeue")


def leave(history: History, job) -> None:
    for rank, lease in list(job.leases.items()):
        ended = f.LeaseEndedV1(
            job=job.key,
            attempt=job.attempt,
            rank=rank,
            outcome="killed",
            exit_code=137,
            stopping=True,
            exited_at=history.now,
            at=history.now,
        )
        history.append_facts(ended, by=f"node.{lease.node}")


def test_one_decision_stops_it_where_it_is_and_keeps_another_place_for_it():
    history, job, _ = beside_an_idle_gpu()

    assert history.allocate() == moved(job, place("n1", 1))
    assert (job.state, job.nomination.places, history.allocate()) == ("stopping", (place("n1", 1),), ())


def test_once_it_has_left_it_starts_there_from_its_checkpoint_and_was_preempted_once():
    history, job, _ = beside_an_idle_gpu()
    history.allocate()
    leave(history, job)

    (requeued,) = history.allocate()
    (lease,) = history.allocate()

    assert requeued == f.JobRequeuedV1(job=job.key, attempt=1, cause="moved", min_runtime=2 * MINUTE)
    assert lease == f.LeaseGrantedV1(
        job=job.key,
        attempt=2,
        node="n1",
        pool="hall",
        devices=place("n1", 1).devices,
        amounts=place("n1", 1).amounts,
        resume_from="file:///c",
        rule="R27",
    )
    assert (job.preemptions, job.retries_used, job.losses, history.state.preemptions) == (1, 0, 0, {})


def test_without_a_checkpoint_it_stays_where_it_is():
    history, _, _ = beside_an_idle_gpu(saved=False)

    assert history.allocate() == NOT_AT_ALL


def test_it_goes_on_where_it_is_rather_than_elsewhere():
    history = pool_with_nodes()
    job = history.run("low/one")
    save(history, job)
    suspend(history, job)

    assert history.allocate() == (f.ResumeOrderedV1(job=job.key, attempt=1, min_runtime=2 * MINUTE),)


def test_before_the_amendment_it_stays_where_it_is():
    history, _, _ = beside_an_idle_gpu()
    history.state.terms.level = FIRST

    assert history.allocate() == NOT_AT_ALL


def test_the_better_ranked_takes_the_idle_device_be_it_pending_or_suspended():
    history, job, _ = beside_an_idle_gpu()
    older = history.admit("low/one")
    assert history.allocate() == moved(job, place("n1", 1))
    assert older.state == "pending"

    again, job, _ = beside_an_idle_gpu()
    first = again.admit("low/one", priority=1)
    (fact,) = again.allocate()
    assert (fact.job, job.state) == (first.key, "suspended")


def test_not_to_the_pool_of_the_job_that_it_yielded_to_before_that_has_started():
    """R27."""
    history, job, _ = beside_an_idle_gpu()
    job.barred_from = "hall"

    assert history.allocate() == NOT_AT_ALL


@pytest.mark.parametrize(
    "fact",
    [
        f.NodeCordonedV1(author="default.admin", node="n1"),
        f.PolicyAppliedV1(author="default.admin", policy=policy("low", limit=gpus(0), preemption=SUSPENDS)),
        f.PolicyAppliedV1(author="default.admin", policy=policy("low", unborrowed=("one",), preemption=SUSPENDS)),
        f.PoolAppliedV1(author="default.admin", pool=d.Pool(name="hall", selector={"site": "hall"}, capacity={GPU: GPU_UNITS})),
        f.ObjectClosedV1(author="default.admin", kind="pool", name="hall", mode="freeze"),
    ],
)
def test_not_to_a_node_out_of_service_nor_beyond_a_limit_a_reservation_or_the_pool_nor_where_it_is_closed(fact):
    history, _, _ = beside_an_idle_gpu()
    history.append_facts(fact)

    assert [fact for fact in history.allocate() if not isinstance(fact, f.JobDismissedV1)] == []


def test_what_it_holds_where_it_was_suspended_is_not_counted_twice():
    """The pool has one `job` more than run, and the node the cpu of one job more: what it leaves is its own in the new place."""
    history = History(
        policy("ml", 2),
        policy("low", preemption=SUSPENDS, limit={JOB: 1}),
        pools=(d.Pool(name="hall", selector={"site": "hall"}, capacity={JOB: 2}),),
    )
    history.node("n1", 2, cpu=2)
    job = history.run("low/one", request=gpus(1) | {CPU: CPU_UNITS})
    save(history, job)
    suspend(history, job)
    other = history.admit("ml/one", request=gpus(1) | {CPU: CPU_UNITS})
    history.append_facts(replace(granted(other), devices=job.leases[0].devices, amounts=other.request.total), by="allocator")
    history.start(other)

    facts = history.allocate()

    assert [type(fact) for fact in facts] == [f.MoveOrderedV1, f.StopOrderedV1]
    leave(history, job)
    history.allocate()
    (lease,) = history.allocate()
    assert (lease.job, lease.attempt) == (job.key, 2)


def test_a_gang_moves_as_a_whole_or_not_at_all():
    history = pool_with_nodes(2)
    job = history.run("low/gang")
    save(history, job)
    suspend(history, job)
    other = history.admit("ml/one")
    history.append_facts(replace(granted(other), devices=job.leases[0].devices), by="allocator")
    history.start(other)
    assert history.allocate() == NOT_AT_ALL

    history.node("n2", 1)
    assert [type(fact) for fact in history.allocate()] == [f.MoveOrderedV1, f.StopOrderedV1]
    assert len(job.nomination.places) == 2


def test_of_several_one_takes_the_only_place():
    history = pool_with_nodes(3)
    first, second = history.run("low/one"), history.run("low/one")
    for job in (first, second):
        save(history, job)
    for job in (first, second):
        suspend(history, job)
    for job in (first, second):
        other = history.admit("ml/one")
        history.append_facts(replace(granted(other), devices=job.leases[0].devices), by="allocator")
        history.start(other)

    assert history.allocate() == moved(first, place("n1", 2))
    assert (history.allocate(), second.state) == (NOT_AT_ALL, "suspended")


def test_the_place_is_given_up_when_it_is_gone_and_the_job_then_waits_in_line():
    history, job, _ = beside_an_idle_gpu()
    history.node("n2", 1)
    history.append_facts(f.NodeCordonedV1(author="default.admin", node="n1"))
    history.allocate()
    assert [kept.node for kept in job.nomination.places] == ["n2"]
    name = job.nomination.id
    history.append_facts(f.NodeLostV1(node="n2", silent_for=0), by="preemption")

    assert history.allocate() == (f.NominationEndedV1(preemption=name, job=job.key, why="a place in it has become unusable"),)
    assert (job.state, job.nomination, history.state.preemptions) == ("stopping", None, {})
    leave(history, job)
    history.allocate()
    assert (job.state, history.state.pending.group_of(job).head()) == ("pending", job)


def test_nothing_is_kept_for_one_that_is_cancelled_on_its_way():
    history, job, _ = beside_an_idle_gpu()
    history.allocate()
    history.cancel(job)
    history.allocate()

    (ended,) = history.allocate()
    assert (ended.job, ended.why) == (job.key, "the job ends: cancelled")
    leave(history, job)
    history.allocate()
    assert (job.state, history.state.preemptions, history.state.pools["hall"].nominated) == ("cancelled", {}, {})


def test_not_while_its_node_is_away_for_its_attempt_may_still_run():
    """R32: what becomes of it then is settled first."""
    history, job, _ = beside_an_idle_gpu()
    history.node("n2", 1)
    history.append_facts(f.NodeStoppedV1(node="n1", at=history.now), by="node.n1")

    assert not any(isinstance(fact, f.MoveOrderedV1) for fact in history.allocate())
    assert job.nomination is None
