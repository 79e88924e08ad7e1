"""What fits in each pool during a round, and for whom."""

from __future__ import annotations

from headrace.allocator.feasibility_cache import FeasibilityCache
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.model.preemption_state import Hold
from tests.unit.allocator.history import History, place, policy
from tests.unit.domain.snapshot import differences, snapshot


def rooms_of(told: History) -> tuple[FeasibilityCache, object]:
    told.allocator.index.refresh()
    return FeasibilityCache(told.state, told.allocator.index, told.now), told.allocator.index.queues["hall"]


def numbers(told: History, *jobs) -> list[int]:
    return [told.allocator.index.needs.number(job.request, job.avoiding) for job in jobs]


def test_what_fits_is_worked_out_once_until_something_is_granted():
    told = History(policy("a"))
    told.node("n1", 2)
    two, three = told.admit("a/two"), told.admit("a/three")
    feasibility, queue = rooms_of(told)
    first, second = numbers(told, two, three)
    assert feasibility.fits(queue) == 1 << first
    assert not feasibility.fits(queue) >> second & 1

    told.state.nodes["n1"].devices[0].free = 0
    told.state.pools["hall"].index.put(told.state.nodes["n1"])
    assert feasibility.fits(queue) == 1 << first
    moves = feasibility.moves
    feasibility.granted(queue, two)
    assert (feasibility.fits(queue), feasibility.moves > moves) == (0, True)


def test_a_gang_that_fits_only_in_part_has_no_room():
    told = History(policy("a"))
    told.node("n1", 3)
    told.node("n2", 1)
    gang = told.admit("a/two", replicas=2)
    feasibility, queue = rooms_of(told)
    (number,) = numbers(told, gang)
    candidates, _ = told.allocator.index.candidates_of(gang, "hall")

    assert feasibility.fits(queue) >> number & 1
    assert feasibility.room(candidates, 1 << number) == 0
    assert not feasibility.fits(queue) >> number & 1


def test_what_is_kept_is_seen_by_its_holder_and_by_those_before_it():
    told = History(policy("a"), policy("first", priority=9))
    told.node("n1", 2)
    holder, below, above = told.admit("a/two"), told.admit("a/one"), told.admit("first/one")
    before = snapshot(told.state)
    feasibility, queue = rooms_of(told)
    feasibility.keep(Hold(holder, "hall", (place("n1", 0, 1),), told.now), queue)
    candidates, number = told.allocator.index.candidates_of(below, "hall")
    top, same = told.allocator.index.candidates_of(above, "hall")

    assert (feasibility.room(candidates, 1 << number), feasibility.room(top, 1 << same)) == (0, 1 << same)
    assert feasibility.fits(queue, (holder.key,)) == 0
    feasibility.leave()
    assert differences(snapshot(told.state), before) == []


def test_the_best_is_looked_for_stage_by_stage():
    told = History(policy("a"), policy("b", priority=1), policy("first", priority=9))
    told.node("n1", 3)
    told.state.nodes["n1"].devices[2].free = GPU_UNITS // 2
    told.state.pools["hall"].index.put(told.state.nodes["n1"])
    told.state.pools["hall"].leased[GPU] = GPU_UNITS // 2
    holder = told.admit("b/three")
    small, half = told.admit("a/one"), told.admit("a/half")
    feasibility, queue = rooms_of(told)
    feasibility.keep(Hold(holder, "hall", (place("n1", 0, 1, 2),), told.now), queue)

    def everybody(_post, requests):
        return requests

    assert feasibility.best(queue, everybody) is None
    assert (small.state, half.state) == ("pending", "pending")
    above = told.admit("first/one")
    told.allocator.index.refresh()
    feasibility.granted(queue, above)
    best, stage = feasibility.best(queue, everybody)
    assert (best.job, stage) == (above, ())
    assert feasibility.find(queue, stage, best.job) == (place("n1", 0),)
    feasibility.leave()
