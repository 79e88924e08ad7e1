"""The candidates of one pool: best first, among those whose request fits."""

from __future__ import annotations

from headrace.allocator.candidate_index import CandidateIndex
from headrace.allocator.pool_queue import PoolQueue
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from tests.unit.allocator.history import History, policy, profile


def board_of(told: History) -> PoolQueue:
    index = CandidateIndex(told.state)
    index.refresh()
    return index.queues["hall"]


def order(queue: PoolQueue, feasible: int = -1) -> list[str]:
    """All candidates, best first: each is passed over once it has been named."""
    named: list[tuple[object, int]] = []
    found = []

    def allowed(candidates, requests):
        for other, number in named:
            requests &= ~(1 << number) if other is candidates else -1
        return requests

    every = feasible & (1 << 20) - 1
    while (best := queue.best(every, allowed)) is not None:
        named.append((best.candidates, best.number))
        found.append(best.job.key)
    return found


def test_who_is_inside_its_reservation_stands_before_all_borrowers_by_rank():
    told = History(policy("a", 1), policy("b", 1, priority=1), policy("c", priority=5), policy("d"))
    told.node(count=8)
    jobs = [told.admit(queue) for queue in ("d/one", "c/one", "a/one", "b/one", "b/half")]
    lender, eager, a, b, half = jobs

    assert order(board_of(told)) == [job.key for job in (b, half, a, eager, lender)]


def test_borrowers_of_one_rank_stand_by_share_and_within_a_policy_by_their_place_in_line():
    told = History(policy("a"), policy("b"), policy("c", weight=4))
    told.node(count=8)
    for queue in ("a/two", "b/one", "c/one"):
        told.run(queue)
    waiting = [told.admit(queue) for queue in ("a/one", "b/one", "b/half", "c/one", "c/two")]
    told.wait(SECOND)
    urgent = told.admit("b/gang", priority=3)
    a, b, half, c, large = waiting

    assert order(board_of(told)) == [job.key for job in (c, large, urgent, b, half, a)]


def test_of_policies_with_the_same_share_who_came_first_goes_first():
    told = History(policy("b"), policy("a"), policy("c"))
    jobs = [told.admit(queue) for queue in ("c/one", "a/one", "b/half", "a/two")]

    assert order(board_of(told)) == [job.key for job in jobs]


def test_only_candidates_whose_request_is_feasible_are_named():
    told = History(policy("a", 2), policy("b"))
    told.admit("a/two")
    told.admit("b/two")
    small, other = told.admit("b/one"), told.admit("a/one")
    index = CandidateIndex(told.state)
    index.refresh()
    number = 1 << index.needs.number(small.request)

    assert order(index.queues["hall"], number) == [other.key, small.key]
    assert order(index.queues["hall"], 0) == []


def test_what_has_no_waiter_any_more_is_passed_over_at_once():
    told = History(policy("a"))
    told.node(count=1)
    told.admit("a/one")
    index = told.allocator.index
    index.refresh()
    queue = index.queues["hall"]
    assert queue.best(1, lambda _post, _requests: 0) is None
    told.allocate()
    index.refresh()

    assert queue.best(1, lambda _post, requests: requests) is None


def test_profiles_that_the_pool_names_first_go_first():
    told = History(policy("a"), policy("b", priority=9))
    told.law(d.Documents(pools=(d.Pool(name="hall", selector={"site": "hall"}, profile_order=("two",)),)))
    one, two = told.admit("b/one"), told.admit("a/two")

    assert order(board_of(told)) == [two.key, one.key]


def test_the_order_of_policies_in_a_profile_goes_before_their_priority():
    told = History(policy("a"), policy("b", priority=9))
    told.law(d.Documents(profiles=(profile("one", policy_order=("a",)),)))
    b, a = told.admit("b/one"), told.admit("a/one")

    assert order(board_of(told)) == [a.key, b.key]
    assert a.request.total[GPU] == GPU_UNITS
