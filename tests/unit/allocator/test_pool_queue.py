"""The candidates of one pool: best first, among those whose request fits."""

from __future__ import annotations

from headrace.allocator.candidate_index import CandidateIndex
from headrace.allocator.pool_queue import PoolQueue
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from tests.unit.allocator.history import History, policy, profile


def board_of(history: History) -> PoolQueue:
    index = CandidateIndex(history.state)
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
    history = History(policy("a", 1), policy("b", 1, priority=1), policy("c", priority=5), policy("d"))
    history.node(count=8)
    jobs = [history.admit(queue) for queue in ("d/one", "c/one", "a/one", "b/one", "b/half")]
    lender, eager, a, b, half = jobs

    assert order(board_of(history)) == [job.key for job in (b, half, a, eager, lender)]


def test_borrowers_of_one_rank_stand_by_share_and_within_a_policy_by_their_place_in_line():
    history = History(policy("a"), policy("b"), policy("c", weight=4))
    history.node(count=8)
    for queue in ("a/two", "b/one", "c/one"):
        history.run(queue)
    waiting = [history.admit(queue) for queue in ("a/one", "b/one", "b/half", "c/one", "c/two")]
    history.wait(SECOND)
    urgent = history.admit("b/gang", priority=3)
    a, b, half, c, large = waiting

    assert order(board_of(history)) == [job.key for job in (c, large, urgent, b, half, a)]


def test_of_policies_with_the_same_share_who_came_first_goes_first():
    history = History(policy("b"), policy("a"), policy("c"))
    jobs = [history.admit(queue) for queue in ("c/one", "a/one", "b/half", "a/two")]

    assert order(board_of(history)) == [job.key for job in jobs]


def test_only_candidates_whose_request_is_feasible_are_named():
    history = History(policy("a", 2), policy("b"))
    history.admit("a/two")
    history.admit("b/two")
    small, other = history.admit("b/one"), history.admit("a/one")
    index = CandidateIndex(history.state)
    index.refresh()
    number = 1 << index.needs.number(small.request)

    assert order(index.queues["hall"], number) == [other.key, small.key]
    assert order(index.queues["hall"], 0) == []


def test_what_has_no_waiter_any_more_is_passed_over_at_once():
    history = History(policy("a"))
    history.node(count=1)
    history.admit("a/one")
    index = history.allocator.index
    index.refresh()
    queue = index.queues["hall"]
    assert queue.best(1, lambda _post, _requests: 0) is None
    history.allocate()
    index.refresh()

    assert queue.best(1, lambda _post, requests: requests) is None


def test_profiles_that_the_pool_names_first_go_first():
    history = History(policy("a"), policy("b", priority=9))
    history.law(d.Documents(pools=(d.Pool(name="hall", selector={"site": "hall"}, profile_order=("two",)),)))
    one, two = history.admit("b/one"), history.admit("a/two")

    assert order(board_of(history)) == [two.key, one.key]


def test_the_order_of_policies_in_a_profile_goes_before_their_priority():
    history = History(policy("a"), policy("b", priority=9))
    history.law(d.Documents(profiles=(profile("one", policy_order=("a",)),)))
    b, a = history.admit("b/one"), history.admit("a/one")

    assert order(board_of(history)) == [a.key, b.key]
    assert a.request.total[GPU] == GPU_UNITS
