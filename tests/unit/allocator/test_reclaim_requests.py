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


def opened(told: History, *, fitting: int = 0, skip: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """(job, cause) of the searches that a round would open if only `fitting` requests fitted."""
    index = told.allocator.index
    index.refresh()
    reclaims = ReclaimRequests(told.state, index, Fitting(told, fitting), told.now, skip)
    for queue in index.queues.values():
        reclaims.open(queue)
    return [(fact.job, fact.cause) for fact in reclaims.facts(told.state)]


class Fitting(FeasibilityCache):
    """Pools in which only these requests fit."""

    def __init__(self, told: History, fitting: int) -> None:
        super().__init__(told.state, told.allocator.index, told.now)
        self.fitting = fitting

    def placeable(self, candidates: PoolCandidates, requests: int) -> int:
        return requests & self.fitting

    def surely_fits(self, queue: PoolQueue) -> int:
        return self.fitting


def crowded(*policies: object) -> History:
    """A hall that another policy has borrowed whole."""
    told = History(*policies, policy("lender"))
    told.node(count=2)
    told.run("lender/two")
    return told


def none(told: History, job: JobRecord, **said: object) -> None:
    """A search for the job found no victims."""
    told.append_facts(f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"), by="allocator")
    search = told.state.pools["hall"].search
    told.append_facts(f.PreemptionNoneV1(preemption=search.id, job=job.key, pool="hall", why="nobody", **said), by="preemption")


def test_the_best_ranked_of_those_without_room_searches():
    told = crowded(policy("a", 1), policy("b", 1, priority=1))
    told.admit("a/one")
    best = told.admit("b/one")

    assert opened(told) == [(best.key, "reclaim")]


def test_who_finds_room_or_leaves_with_this_record_does_not():
    told = crowded(policy("a", 2))
    large, small = told.admit("a/two"), told.admit("a/one")
    told.allocator.index.refresh()
    fits = 1 << told.allocator.index.needs.number(large.request)

    assert opened(told, fitting=fits) == [(small.key, "reclaim")]
    assert opened(told, fitting=fits, skip=frozenset({small.key})) == []


def test_no_search_begins_where_nothing_is_lent():
    told = History(policy("a", 1), policy("b", 2))
    told.node(count=2)
    told.run("b/two")
    told.admit("a/one")

    assert opened(told) == []


def test_only_those_search_who_may_take_something_back():
    told = crowded(policy("beyond"), policy("eager", priority=1, preemption=terms(preempt_lower_priority=True)))
    told.admit("beyond/one")
    assert opened(told) == []

    eager = told.admit("eager/one")
    assert opened(told) == [(eager.key, "priority")]


def test_one_search_at_a_time():
    told = crowded(policy("a", 1), policy("b", 1))
    job = told.admit("a/one")
    told.admit("b/one")
    told.append_facts(f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"), by="allocator")

    assert opened(told) == []


def test_while_the_pool_rests_only_those_search_that_have_not_searched_yet():
    told = crowded(policy("a", 1, priority=1), policy("b", 1))
    searched, other = told.admit("a/one"), told.admit("b/one")
    none(told, searched)
    told.state.pools["hall"].epoch += 1  # a search for the first might find victims now

    assert opened(told) == [(other.key, "reclaim")]
    none(told, other)
    assert opened(told) == []
    told.state.pools["hall"].epoch += 1
    told.wait(SECOND)
    assert opened(told) == [(searched.key, "reclaim")]


def test_when_the_protection_of_a_victim_ends_it_is_looked_for_again():
    told = crowded(policy("a", 1))
    job = told.admit("a/one")
    none(told, job, protected=1, retry_at=told.now + MINUTE)
    assert opened(told) == []

    told.wait(MINUTE)
    assert opened(told) == [(job.key, "reclaim")]
