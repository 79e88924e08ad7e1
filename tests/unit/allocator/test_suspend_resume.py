"""Who goes on where it was, and when suspending is enough (R29)."""

from __future__ import annotations

import pytest

from headrace.allocator.suspend_resume import Resumption, frees_enough, resume, resumed
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB, MEMORY
from headrace.contracts.values.durations import MINUTE
from tests.unit.allocator.history import History, gpus, place, policy, profile, terms

SUSPENDS = terms(on_preempt="suspend")


def pool_with_nodes(count: int = 2, **more: object) -> History:
    history = History(policy("ml", 2), policy("low", preemption=SUSPENDS, **more))
    history.node("n1", count)
    return history


def suspend(history: History, job) -> None:
    history.stop(job, "preempted", "suspend")
    for rank, lease in job.leases.items():
        fact = f.LeaseSuspendedV1(job=job.key, attempt=job.attempt, rank=rank, at=history.now)
        history.append_facts(fact, by=f"node.{lease.node}")
    assert job.state == "suspended"


def best(history: History, skip: frozenset[str] = frozenset()):
    found = Resumption(history.state, skip).best(history.state.pools["hall"])
    return None if found is None else found[1]


def test_it_goes_on_when_its_devices_are_free_with_a_longer_minimum_run_time():
    history = pool_with_nodes()
    job = history.run("low/one")
    suspend(history, job)

    assert (best(history), best(history, frozenset({job.key}))) == (job, None)
    assert history.allocate() == (f.ResumeOrderedV1(job=job.key, attempt=1, min_runtime=2 * MINUTE),)
    assert (resume(job).min_runtime, resumed(job)) == (2 * MINUTE, gpus(1))


def test_it_waits_for_its_own_device_though_another_is_free():
    history = pool_with_nodes()
    job = history.run("low/one")
    suspend(history, job)
    other = history.run("ml/one")
    assert other.leases[0].devices == job.leases[0].devices

    assert (best(history), history.allocate()) == (None, ())
    history.end(other, 0)
    assert best(history) is job


def test_the_better_ranked_goes_first_be_it_pending_or_suspended():
    history = pool_with_nodes(1)
    first = history.run("low/one")
    suspend(history, first)
    second = history.admit("low/one")
    assert history.allocate() == (f.ResumeOrderedV1(job=first.key, attempt=1, min_runtime=2 * MINUTE),)
    assert second.state == "pending"

    again = pool_with_nodes(1)
    first = again.run("low/one")
    suspend(again, first)
    second = again.admit("low/one", priority=1)
    (fact,) = again.allocate()
    assert (fact.job, first.state) == (second.key, "suspended")


def test_not_before_its_preemptor_has_started_in_the_pool_it_is_barred_from():
    """R27."""
    history = pool_with_nodes()
    job = history.run("low/one")
    suspend(history, job)
    job.barred_from = "hall"
    assert best(history) is None


@pytest.mark.parametrize(
    "fact",
    [
        f.NodeCordonedV1(author="default.admin", node="n1"),
        f.NodeDrainOrderedV1(author="default.admin", node="n1"),
        f.PolicyAppliedV1(author="default.admin", policy=policy("low", limit=gpus(0), preemption=SUSPENDS)),
        f.PolicyAppliedV1(author="default.admin", policy=policy("low", unborrowed=("one",), preemption=SUSPENDS)),
        f.PoolAppliedV1(author="default.admin", pool=d.Pool(name="hall", selector={"site": "hall"}, capacity={GPU: 0})),
    ],
)
def test_not_on_a_node_out_of_service_nor_beyond_a_limit_a_reservation_or_the_pool(fact):
    history = pool_with_nodes()
    job = history.run("low/one")
    suspend(history, job)
    assert best(history) is job
    history.append_facts(fact)
    assert best(history) is None


def test_not_while_victims_are_looked_for_in_the_pool():
    """R19."""
    history = pool_with_nodes(2)
    job = history.run("low/one")
    history.run("low/one")
    suspend(history, job)
    waiting = history.admit("ml/two")
    history.append_facts(f.ReclaimOpenedV1(job=waiting.key, pool="hall", cause="reclaim"), by="allocator")
    assert best(history) is None


def test_a_gang_goes_on_as_a_whole_or_not_at_all():
    history = pool_with_nodes(2)
    job = history.run("low/gang")
    suspend(history, job)
    history.append_facts(f.PolicyAppliedV1(author="default.admin", policy=policy("low", limit=gpus(1), preemption=SUSPENDS)))
    assert best(history) is None
    history.append_facts(f.PolicyAppliedV1(author="default.admin", policy=policy("low", limit=gpus(2), preemption=SUSPENDS)))
    assert best(history) is job


def test_a_gang_on_one_device_goes_on_when_all_of_it_has_room_there():
    history = pool_with_nodes(2)
    job = history.run("low/half", replicas=2)
    suspend(history, job)
    other = history.run("ml/half")
    assert {lease.devices for lease in (*job.leases.values(), *other.leases.values())} == {other.leases[0].devices}

    assert best(history) is None
    history.end(other, 0)
    assert best(history) is job


def asks(**amounts: int) -> tuple[Place, ...]:
    return (Place(node="n1", devices=(), amounts={GPU: GPU_UNITS, **amounts}),)


@pytest.mark.parametrize(
    ("amounts", "enough"),
    [({}, True), ({CPU: 64 * CPU_UNITS}, True), ({CPU: 65 * CPU_UNITS}, False), ({MEMORY: 1_048_577}, False)],
)
def test_suspending_is_enough_where_the_node_has_the_rest_to_give(amounts, enough):
    history = pool_with_nodes()
    job = history.admit("ml/one")
    assert frees_enough(history.state, job, history.state.pools["hall"], asks(**amounts)) is enough


def test_suspending_is_not_enough_where_the_pool_is_short_of_something_else():
    history = History(
        policy("ml", 2), policy("low"), pools=(d.Pool(name="hall", selector={"site": "hall"}, capacity={JOB: 1}),)
    )
    history.node("n1", 2)
    history.run("low/one")
    job = history.admit("ml/one")
    assert not frees_enough(history.state, job, history.state.pools["hall"], (place("n1", 1),))
    assert profile("one").name == "one"
