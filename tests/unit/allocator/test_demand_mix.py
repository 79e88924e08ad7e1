"""The mix of a pool is stated when it is another, once, and by counts alone (R20)."""

from __future__ import annotations

from headrace.allocator.decide import Allocator
from headrace.allocator.demand_mix import DemandLearning
from headrace.contracts import facts as f
from headrace.domain.model.demand_mix import FIRST
from tests.unit.domain.site import Site


def asked(site: Site, count: int, queue: str = "dev/one") -> None:
    for _ in range(count):
        site.admit(f"job-{len(site.state.jobs)}", queue)


def test_a_pool_that_was_asked_often_enough_states_what_it_is_asked_for():
    site, learning = Site(), DemandLearning()
    asked(site, FIRST - 1)
    seen = [list(learning.news(site.state))]
    asked(site, 1)
    (fact,) = learning.news(site.state)
    (usual,) = fact.requests
    seen.append((fact.pool, usual.whole, usual.weight))
    assert seen == [[], ("hall", 1, FIRST)]


def test_once_stated_it_is_not_news():
    site, learning = Site(), DemandLearning()
    asked(site, FIRST)
    site.append_facts(*learning.news(site.state), by="allocator")
    seen = [list(learning.news(site.state)), list(DemandLearning().news(site.state))]
    assert seen == [[], []]


def test_one_who_remembers_nothing_says_the_same_at_the_same_moment():
    site, learning = Site(), DemandLearning()
    for number in range(300):
        asked(site, 1, "dev/one" if number % 3 else "dev/half")
        news, again = list(learning.news(site.state)), list(DemandLearning().news(site.state))
        assert news == again
        if news:
            site.append_facts(*news, by="allocator")


def test_it_is_stated_before_anything_is_granted_by_it():
    site = Site()
    site.node("n1", 4)
    asked(site, FIRST)
    allocator = Allocator(site.state)
    (fact,) = allocator.decide(site.state.now)
    site.append_facts(fact, by="allocator")
    assert isinstance(fact, f.MixLearnedV1)
    assert {type(fact) for fact in allocator.decide(site.state.now)} == {f.LeaseGrantedV1}
