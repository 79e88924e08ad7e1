"""Keeping units for jobs that have waited too long for room (R16)."""

from __future__ import annotations

import pytest

from headrace.allocator.decide import Allocator
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.durations import MINUTE
from tests.unit.allocator.history import History, gpus, granted, place, policy


def held(facts) -> list[object]:
    return [fact for fact in facts if isinstance(fact, f.HoldPlacedV1 | f.HoldLiftedV1)]


def hold_placed(job, *places, pool: str = "hall") -> f.HoldPlacedV1:
    return f.HoldPlacedV1(job=job.key, pool=pool, places=places)


def lifted(job, why: str) -> f.HoldLiftedV1:
    return f.HoldLiftedV1(job=job.key, pool="hall", why=why)


def full(*policies: d.Policy, count: int = 2, **more: object) -> History:
    """A hall in which a job runs on every device."""
    told = History(*policies, policy("busy"), **more)
    told.node("n1", count)
    for _ in range(count):
        told.run("busy/one")
    return told


def test_after_the_time_that_the_pool_gives_and_not_before_units_are_kept():
    told = full(policy("ml"))
    waiting = told.admit("ml/two")
    assert told.allocate() == ()
    told.wait(10 * MINUTE - 1)
    assert told.allocate() == ()
    assert told.allocator.next_wakeup() == told.now + 1

    told.wait(1)
    assert told.allocate() == (hold_placed(waiting, place("n1", 0, 1)),)
    assert told.allocate() == ()


def test_the_time_counts_from_when_the_job_last_became_pending():
    told = full(policy("ml"), count=1)
    again = next(iter(told.state.policies["default", "busy"].jobs.values()))
    told.wait(9 * MINUTE)
    told.admit("ml/two")
    told.stop(again, "drain")
    told.end(again, 143)
    told.allocate()
    told.wait(5 * MINUTE)

    assert held(told.allocate()) == []


def test_the_time_counts_anew_for_who_has_been_away_even_without_a_look_meanwhile():
    told = full(policy("ml"), count=1)
    busy = next(iter(told.state.policies["default", "busy"].jobs.values()))
    waiting = told.admit("ml/one")
    told.allocate()
    told.wait(9 * MINUTE)
    told.end(busy)
    told.append_facts(granted(waiting, place("n1", 0)), by="allocator")
    told.stop(waiting, "drain")
    told.end(waiting, 143)
    told.append_facts(f.JobRequeuedV1(job=waiting.key, attempt=1, cause="drain"), by="allocator")
    other = told.admit("busy/one")
    told.append_facts(granted(other, place("n1", 0)), by="allocator")
    told.wait(5 * MINUTE)

    assert held(told.allocate()) == held(Allocator(told.state).decide(told.now)) == []
    told.wait(5 * MINUTE)
    assert held(told.allocate()) == [hold_placed(waiting, place("n1", 0))]


def test_units_that_come_free_are_kept_from_those_ranked_below_and_from_no_other():
    told = full(policy("ml"), policy("first", priority=9))
    large, busy = told.admit("ml/two"), next(iter(told.state.jobs.values()))
    told.wait(10 * MINUTE)
    told.allocate()
    small = told.admit("ml/one")
    told.end(busy)
    told.allocate()
    assert (small.state, large.state) == ("pending", "pending")

    better = told.admit("first/one")
    told.allocate()
    assert (better.state, small.state, large.state) == ("starting", "pending", "pending")


def test_a_job_at_its_own_limit_keeps_nothing_and_what_was_kept_for_it_is_given_back():
    told = full(policy("ml", limit=gpus(2)), count=3)
    busy, large = next(iter(told.state.jobs.values())), told.admit("ml/two")
    told.wait(10 * MINUTE)
    assert held(told.allocate()) == [hold_placed(large, place("n1", 0, 1))]

    told.end(busy)
    urgent = told.admit("ml/one", priority=9)
    told.allocate()
    assert urgent.state == "starting"
    assert held(told.allocate()) == [lifted(large, "its own limit or reservation is in its way")]


@pytest.mark.parametrize("borrows", [True, False])
def test_who_may_not_start_beyond_its_reservation_keeps_nothing(borrows):
    told = full(policy("ml", 0, unborrowed=() if borrows else ("two",)))
    told.admit("ml/two")
    told.wait(20 * MINUTE)

    assert len(held(told.allocate())) == borrows


@pytest.mark.parametrize("how", ["it ends", "it is suspended"])
def test_what_an_overdue_job_held_is_sought_anew_when_it_has_left(how):
    told = full(policy("ml"))
    late = next(iter(told.state.policies["default", "busy"].jobs.values()))
    told.cancel(late) if how == "it ends" else told.stop(late, "preempted", "suspend")
    told.allocate()
    told.append_facts(f.LeaseOverdueV1(job=late.key, attempt=1, node="n1"), by="preemption")
    waiting = told.admit("ml/two")
    told.wait(10 * MINUTE)
    assert held(told.allocate()) == []

    if how == "it ends":
        told.end(late)
    else:
        told.append_facts(f.LeaseSuspendedV1(job=late.key, attempt=1, rank=0, at=told.now), by="node.n1")
    assert held(told.allocate()) == [hold_placed(waiting, place("n1", 0, 1))]


def test_what_is_kept_ends_when_a_place_of_it_cannot_be_had_any_more_and_is_sought_anew():
    told = full(policy("ml"))
    told.node("n2", 2)
    for _ in range(2):
        told.run("busy/one")
    large = told.admit("ml/two")
    told.wait(10 * MINUTE)
    assert held(told.allocate()) == [hold_placed(large, place("n1", 0, 1))]

    told.append_facts(f.NodeCordonedV1(author="a.b", node="n1", reason="r"))
    why = "a place of it has become unusable, or is held by what will not end"
    assert held(told.allocate()) == [lifted(large, why), hold_placed(large, place("n2", 0, 1))]
