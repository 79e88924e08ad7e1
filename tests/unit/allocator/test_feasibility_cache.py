"""What fits in each pool during a round, and for whom."""

from __future__ import annotations

from headrace.allocator.feasibility_cache import Rooms
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.model.preemption_state import Hold
from tests.unit.allocator.history import History, place, policy
from tests.unit.domain.snapshot import differences, snapshot


def rooms_of(told: History) -> tuple[Rooms, object]:
    told.allocator.standings.refresh()
    return Rooms(told.state, told.allocator.standings, told.now), told.allocator.standings.boards["hall"]


def numbers(told: History, *jobs) -> list[int]:
    return [told.allocator.standings.needs.number(job.request, job.avoiding) for job in jobs]


def test_what_fits_is_worked_out_once_until_something_is_granted():
    told = History(policy("a"))
    told.node("n1", 2)
    two, three = told.admit("a/two"), told.admit("a/three")
    rooms, board = rooms_of(told)
    first, second = numbers(told, two, three)
    assert rooms.fits(board) == 1 << first
    assert not rooms.fits(board) >> second & 1

    told.state.nodes["n1"].devices[0].free = 0
    told.state.pools["hall"].index.put(told.state.nodes["n1"])
    assert rooms.fits(board) == 1 << first
    moves = rooms.moves
    rooms.granted(board, two)
    assert (rooms.fits(board), rooms.moves > moves) == (0, True)


def test_a_gang_of_which_only_some_fit_has_no_room():
    told = History(policy("a"))
    told.node("n1", 3)
    told.node("n2", 1)
    gang = told.admit("a/two", replicas=2)
    rooms, board = rooms_of(told)
    (number,) = numbers(told, gang)
    post, _ = told.allocator.standings.post_of(gang, "hall")

    assert rooms.fits(board) >> number & 1
    assert rooms.room(post, 1 << number) == 0
    assert not rooms.fits(board) >> number & 1


def test_what_is_kept_is_seen_by_its_holder_and_by_those_before_it():
    told = History(policy("a"), policy("first", priority=9))
    told.node("n1", 2)
    holder, below, above = told.admit("a/two"), told.admit("a/one"), told.admit("first/one")
    before = snapshot(told.state)
    rooms, board = rooms_of(told)
    rooms.keep(Hold(holder, "hall", (place("n1", 0, 1),), told.now), board)
    post, number = told.allocator.standings.post_of(below, "hall")
    top, same = told.allocator.standings.post_of(above, "hall")

    assert (rooms.room(post, 1 << number), rooms.room(top, 1 << same)) == (0, 1 << same)
    assert rooms.fits(board, (holder.key,)) == 0
    rooms.leave()
    assert differences(snapshot(told.state), before) == []


def test_the_best_is_looked_for_stage_by_stage():
    told = History(policy("a"), policy("b", priority=1), policy("first", priority=9))
    told.node("n1", 3)
    told.state.nodes["n1"].devices[2].free = GPU_UNITS // 2
    told.state.pools["hall"].index.put(told.state.nodes["n1"])
    told.state.pools["hall"].leased[GPU] = GPU_UNITS // 2
    holder = told.admit("b/three")
    small, half = told.admit("a/one"), told.admit("a/half")
    rooms, board = rooms_of(told)
    rooms.keep(Hold(holder, "hall", (place("n1", 0, 1, 2),), told.now), board)

    def everybody(_post, requests):
        return requests

    assert rooms.best(board, everybody) is None
    assert (small.state, half.state) == ("pending", "pending")
    above = told.admit("first/one")
    told.allocator.standings.refresh()
    rooms.granted(board, above)
    best, stage = rooms.best(board, everybody)
    assert (best.job, stage) == (above, ())
    assert rooms.find(board, stage, best.job) == (place("n1", 0),)
    rooms.leave()
