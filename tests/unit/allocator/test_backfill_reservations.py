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
    history = History(*policies, policy("busy"), **more)
    history.node("n1", count)
    for _ in range(count):
        history.run("busy/one")
    return history


def test_after_the_time_that_the_pool_gives_and_not_before_units_are_kept():
    history = full(policy("ml"))
    waiting = history.admit("ml/two")
    assert history.allocate() == ()
    history.wait(10 * MINUTE - 1)
    assert history.allocate() == ()
    assert history.allocator.next_wakeup() == history.now + 1

    history.wait(1)
    assert history.allocate() == (hold_placed(waiting, place("n1", 0, 1)),)
    assert history.allocate() == ()


def test_the_time_counts_from_when_the_job_last_became_pending():
    history = full(policy("ml"), count=1)
    again = next(iter(history.state.policies["default", "busy"].jobs.values()))
    history.wait(9 * MINUTE)
    history.admit("ml/two")
    history.stop(again, "drain")
    history.end(again, 143)
    history.allocate()
    history.wait(5 * MINUTE)

    assert held(history.allocate()) == []


def test_the_time_counts_anew_for_who_has_been_away_even_without_a_look_meanwhile():
    history = full(policy("ml"), count=1)
    busy = next(iter(history.state.policies["default", "busy"].jobs.values()))
    waiting = history.admit("ml/one")
    history.allocate()
    history.wait(9 * MINUTE)
    history.end(busy)
    history.append_facts(granted(waiting, place("n1", 0)), by="allocator")
    history.stop(waiting, "drain")
    history.end(waiting, 143)
    history.append_facts(f.JobRequeuedV1(job=waiting.key, attempt=1, cause="drain"), by="allocator")
    other = history.admit("busy/one")
    history.append_facts(granted(other, place("n1", 0)), by="allocator")
    history.wait(5 * MINUTE)

    assert held(history.allocate()) == held(Allocator(history.state).decide(history.now)) == []
    history.wait(5 * MINUTE)
    assert held(history.allocate()) == [hold_placed(waiting, place("n1", 0))]


def test_units_that_come_free_are_kept_from_those_ranked_below_and_from_no_other():
    history = full(policy("ml"), policy("first", priority=9))
    large, busy = history.admit("ml/two"), next(iter(history.state.jobs.values()))
    history.wait(10 * MINUTE)
    history.allocate()
    small = history.admit("ml/one")
    history.end(busy)
    history.allocate()
    assert (small.state, large.state) == ("pending", "pending")

    better = history.admit("first/one")
    history.allocate()
    assert (better.state, small.state, large.state) == ("starting", "pending", "pending")


def test_a_job_at_its_own_limit_keeps_nothing_and_what_was_kept_for_it_is_given_back():
    history = full(policy("ml", limit=gpus(2)), count=3)
    busy, large = next(iter(history.state.jobs.values())), history.admit("ml/two")
    history.wait(10 * MINUTE)
    assert held(history.allocate()) == [hold_placed(large, place("n1", 0, 1))]

    history.end(busy)
    urgent = history.admit("ml/one", priority=9)
    history.allocate()
    assert urgent.state == "starting"
    assert held(history.allocate()) == [lifted(large, "its own limit or reservation is in its way")]


@pytest.mark.parametrize("borrows", [True, False])
def test_who_may_not_start_beyond_its_reservation_keeps_nothing(borrows):
    history = full(policy("ml", 0, unborrowed=() if borrows else ("two",)))
    history.admit("ml/two")
    history.wait(20 * MINUTE)

    assert len(held(history.allocate())) == borrows


@pytest.mark.parametrize("how", ["it ends", "it is suspended"])
def test_what_an_overdue_job_held_is_sought_anew_when_it_has_left(how):
    history = full(policy("ml"))
    late = next(iter(history.state.policies["default", "busy"].jobs.values()))
    history.cancel(late) if how == "it ends" else history.stop(late, "preempted", "suspend")
    history.allocate()
    history.append_facts(f.LeaseOverdueV1(job=late.key, attempt=1, node="n1"), by="preemption")
    waiting = history.admit("ml/two")
    history.wait(10 * MINUTE)
    assert held(history.allocate()) == []

    if how == "it ends":
        history.end(late)
    else:
        history.append_facts(f.LeaseSuspendedV1(job=late.key, attempt=1, rank=0, at=history.now), by="node.n1")
    assert held(history.allocate()) == [hold_placed(waiting, place("n1", 0, 1))]


def test_what_is_kept_ends_when_a_place_of_it_cannot_be_had_any_more_and_is_sought_anew():
    history = full(policy("ml"))
    history.node("n2", 2)
    for _ in range(2):
        history.run("busy/one")
    large = history.admit("ml/two")
    history.wait(10 * MINUTE)
    assert held(history.allocate()) == [hold_placed(large, place("n1", 0, 1))]

    history.append_facts(f.NodeCordonedV1(author="a.b", node="n1", reason="r"))
    why = "a place of it has become unusable, or is held by what will not end"
    assert held(history.allocate()) == [lifted(large, why), hold_placed(large, place("n2", 0, 1))]
