"""Who has victims looked for (R19, R23)."""

from __future__ import annotations

from headrace.allocator.feasibility_cache import FeasibilityCache
from headrace.allocator.pool_queue import PoolQueue
from headrace.allocator.reclaim_requests import ReclaimRequests
from headrace.allocator.request_classes import PoolCandidates
from headrace.contracts import facts as f
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.domain.model.jobs import JobRecord
from tests.unit.allocator.history import History, policy, terms


def opened(history: History, *, fitting: int = 0, skip: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """(job, cause) of the searches that a round would open if only `fitting` requests fitted."""
    index = history.allocator.index
    index.refresh()
    reclaims = ReclaimRequests(history.state, index, Fitting(history, fitting), history.now, skip)
    for queue in index.queues.values():
        reclaims.open(queue)
    return [(fact.job, fact.cause) for fact in reclaims.facts(history.state)]


class Fitting(FeasibilityCache):
    """Pools in which only these requests fit."""

    def __init__(self, history: History, fitting: int) -> None:
        super().__init__(history.state, history.allocator.index, history.now)
        self.fitting = fitting

    def placeable(self, candidates: PoolCandidates, requests: int) -> int:
        return requests & self.fitting

    def surely_fits(self, queue: PoolQueue) -> int:
        return self.fitting


def crowded(*policies: object) -> History:
    """A hall that another policy has borrowed whole."""
    history = History(*policies, policy("lender"))
    history.node(count=2)
    history.run("lender/two")
    return history


def none(history: History, job: JobRecord, **fields: object) -> None:
    """A search for the job found no victims."""
    history.append_facts(f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"), by="allocator")
    search = history.state.pools["hall"].search
    history.append_facts(
        f.PreemptionNoneV1(preemption=search.id, job=job.key, pool="hall", why="nobody", **fields), by="preemption"
    )


def test_the_best_ranked_of_those_without_room_searches():
    history = crowded(policy("a", 1), policy("b", 1, priority=1))
    history.admit("a/one")
    best = history.admit("b/one")

    assert opened(history) == [(best.key, "reclaim")]


def test_who_finds_room_or_leaves_with_this_record_does_not():
    history = crowded(policy("a", 2))
    large, small = history.admit("a/two"), history.admit("a/one")
    history.allocator.index.refresh()
    fits = 1 << history.allocator.index.needs.number(large.request)

    assert opened(history, fitting=fits) == [(small.key, "reclaim")]
    assert opened(history, fitting=fits, skip=frozenset({small.key})) == []


def test_no_search_begins_where_nothing_is_lent():
    history = History(policy("a", 1), policy("b", 2))
    history.node(count=2)
    history.run("b/two")
    history.admit("a/one")

    assert opened(history) == []


def test_only_those_search_who_may_take_something_back():
    history = crowded(policy("beyond"), policy("eager", priority=1, preemption=terms(preempt_lower_priority=True)))
    history.admit("beyond/one")
    assert opened(history) == []

    eager = history.admit("eager/one")
    assert opened(history) == [(eager.key, "priority")]


def test_one_search_at_a_time():
    history = crowded(policy("a", 1), policy("b", 1))
    job = history.admit("a/one")
    history.admit("b/one")
    history.append_facts(f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"), by="allocator")

    assert opened(history) == []


def test_while_the_pool_rests_only_those_search_that_have_not_searched_yet():
    history = crowded(policy("a", 1, priority=1), policy("b", 1))
    searched, other = history.admit("a/one"), history.admit("b/one")
    none(history, searched)
    history.state.pools["hall"].epoch += 1  # a search for the first might find victims now

    assert opened(history) == [(other.key, "reclaim")]
    none(history, other)
    assert opened(history) == []
    history.state.pools["hall"].epoch += 1
    history.wait(SECOND)
    assert opened(history) == [(searched.key, "reclaim")]


def test_when_the_protection_of_a_victim_ends_it_is_looked_for_again():
    history = crowded(policy("a", 1))
    job = history.admit("a/one")
    none(history, job, protected=1, retry_at=history.now + MINUTE)
    assert opened(history) == []

    history.wait(MINUTE)
    assert opened(history) == [(job.key, "reclaim")]
