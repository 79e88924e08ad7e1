"""What fits in each pool during a round, and for whom."""

from __future__ import annotations

from headrace.allocator.feasibility_cache import FeasibilityCache
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.model.preemption_state import Hold
from tests.unit.allocator.history import History, place, policy
from tests.unit.domain.snapshot import differences, snapshot


def cache_of(history: History) -> tuple[FeasibilityCache, object]:
    history.allocator.index.refresh()
    return FeasibilityCache(history.state, history.allocator.index, history.now), history.allocator.index.queues["hall"]


def numbers(history: History, *jobs) -> list[int]:
    return [history.allocator.index.needs.number(job.request, job.avoiding) for job in jobs]


def test_what_fits_is_worked_out_once_until_something_is_granted():
    history = History(policy("a"))
    history.node("n1", 2)
    two, three = history.admit("a/two"), history.admit("a/three")
    feasibility, queue = cache_of(history)
    first, second = numbers(history, two, three)
    assert feasibility.fits(queue) == 1 << first
    assert not feasibility.fits(queue) >> second & 1

    history.state.nodes["n1"].devices[0].free = 0
    history.state.pools["hall"].index.put(history.state.nodes["n1"])
    assert feasibility.fits(queue) == 1 << first
    moves = feasibility.moves
    feasibility.granted(queue, two)
    assert (feasibility.fits(queue), feasibility.moves > moves) == (0, True)


def test_a_gang_that_fits_only_in_part_has_no_room():
    history = History(policy("a"))
    history.node("n1", 3)
    history.node("n2", 1)
    gang = history.admit("a/two", replicas=2)
    feasibility, queue = cache_of(history)
    (number,) = numbers(history, gang)
    candidates, _ = history.allocator.index.candidates_of(gang, "hall")

    assert feasibility.fits(queue) >> number & 1
    assert feasibility.grantable(candidates, 1 << number) == 0
    assert not feasibility.fits(queue) >> number & 1


def test_what_is_kept_is_seen_by_its_holder_and_by_those_before_it():
    history = History(policy("a"), policy("first", priority=9))
    history.node("n1", 2)
    holder, below, above = history.admit("a/two"), history.admit("a/one"), history.admit("first/one")
    before = snapshot(history.state)
    feasibility, queue = cache_of(history)
    feasibility.keep(Hold(holder, "hall", (place("n1", 0, 1),), history.now), queue)
    candidates, number = history.allocator.index.candidates_of(below, "hall")
    top, same = history.allocator.index.candidates_of(above, "hall")

    assert (feasibility.grantable(candidates, 1 << number), feasibility.grantable(top, 1 << same)) == (0, 1 << same)
    assert feasibility.fits(queue, (holder.key,)) == 0
    feasibility.leave()
    assert differences(snapshot(history.state), before) == []


def test_the_best_is_looked_for_stage_by_stage():
    history = History(policy("a"), policy("b", priority=1), policy("first", priority=9))
    history.node("n1", 3)
    history.state.nodes["n1"].devices[2].free = GPU_UNITS // 2
    history.state.pools["hall"].index.put(history.state.nodes["n1"])
    history.state.pools["hall"].leased[GPU] = GPU_UNITS // 2
    holder = history.admit("b/three")
    small, half = history.admit("a/one"), history.admit("a/half")
    feasibility, queue = cache_of(history)
    feasibility.keep(Hold(holder, "hall", (place("n1", 0, 1, 2),), history.now), queue)

    def everybody(_post, requests):
        return requests

    assert feasibility.best(queue, everybody) is None
    assert (small.state, half.state) == ("pending", "pending")
    above = history.admit("first/one")
    history.allocator.index.refresh()
    feasibility.granted(queue, above)
    best, stage = feasibility.best(queue, everybody)
    assert (best.job, stage) == (above, ())
    assert feasibility.find(queue, stage, best.job) == (place("n1", 0),)
    feasibility.leave()
