"""Where the jobs of a queue policy_in_pool in a pool: inside, among the borrowers, asking to take back, or nowhere."""

from __future__ import annotations

import pytest

from headrace.allocator.candidate_index import CandidateIndex
from headrace.allocator.request_classes import PoolCandidates
from headrace.contracts.documents import model as d
from headrace.contracts.values.durations import SECOND
from headrace.domain.queueing.ranking import is_inside, rank
from tests.unit.allocator.history import History, gpus, policy, profile, terms


def posts_of(history: History, job, pool: str = "hall") -> tuple[PoolCandidates, int]:
    index = CandidateIndex(history.state)
    index.refresh()
    found = index.candidates_of(job, pool)
    assert found is not None
    return found


def policies(history: History, job) -> list[str]:
    """In which sets of its candidates the job's request is."""
    candidates, number = posts_of(history, job)
    return [name for name in ("inside", "borrowing", "asking") if getattr(candidates, name) >> number & 1]


TENANT = d.Tenant(name="acme", shares=(d.Share(pool="hall", reservation=gpus(2), limit=gpus(2)),))


@pytest.mark.parametrize(
    ("written", "queue", "fields", "where"),
    [
        pytest.param({"reserved": 1}, "ml/one", {}, ["inside", "asking"], id="inside the reservation"),
        pytest.param({"reserved": 1}, "ml/two", {}, ["borrowing"], id="beyond it"),
        pytest.param(
            {"reserved": 1, "unborrowed": ("two",)}, "ml/two", {}, [], id="beyond it, in a queue that does not borrow"
        ),
        pytest.param({"reserved": 1}, "ml/two", {"preemptible": False}, [], id="beyond it, and not preemptible"),
        pytest.param({"reserved": 1}, "ml/one", {"preemptible": False}, ["inside", "asking"], id="not preemptible, but inside"),
        pytest.param({"limit": gpus(1)}, "ml/two", {}, [], id="beyond the limit"),
        pytest.param(
            {"limit": gpus(1), "beyond_limit": ("ann",)}, "ml/two", {}, ["borrowing"], id="of one who may go beyond it"
        ),
        pytest.param(
            {"preemption": terms(preempt_lower_priority=True)},
            "ml/one",
            {},
            ["borrowing", "asking"],
            id="who takes by priority",
        ),
    ],
)
def test_where_a_request_stands(written, queue, fields, where):  # R7, R12, R17, R23
    history = History(policy("ml", **written))

    assert policies(history, history.admit(queue, **fields)) == where


def test_who_is_at_its_tenants_limit_is_granted_nothing_but_may_take_back_from_its_own():  # R23
    history = History(policy("a", 1, tenant="acme"), policy("b", tenant="acme"), tenants=(TENANT,))
    history.node()
    history.run("b/two", tenant="acme")

    assert policies(history, history.admit("a/one", tenant="acme")) == ["asking"]


def test_what_one_policy_uses_of_its_tenants_share_moves_the_jobs_of_the_others():  # R7
    history = History(policy("a", 2, tenant="acme"), policy("b", 2, tenant="acme"), tenants=(TENANT,))
    history.node()
    waiting = history.admit("a/two", tenant="acme")
    index = CandidateIndex(history.state)
    index.refresh()
    candidates, number = index.candidates_of(waiting, "hall")
    before = candidates.inside >> number & 1
    other = history.admit("b/one", tenant="acme", priority=9)
    history.append_facts(*history.allocator.decide(history.now)[:1], by="allocator")
    index.refresh()
    candidates, number = index.candidates_of(waiting, "hall")

    assert other.state == "starting"
    assert (before, candidates.inside >> number & 1, candidates.borrowing >> number & 1) == (1, 0, 0)


def test_the_rank_of_a_post_is_that_of_the_comparator():  # R15
    history = History(policy("a", 1, priority=3), policy("b", weight=2))
    history.law(d.Documents(pools=(d.Pool(name="hall", selector={"site": "hall"}, profile_order=("two",)),)))
    history.node(count=2)
    history.run("b/two")
    waiting = [history.admit(queue, priority=priority) for queue, priority in (("a/one", 0), ("a/two", 2), ("b/one", 5))]

    for job in waiting:
        candidates, number = posts_of(history, job)
        group, pool = history.state.pending.group_of(job), history.state.pools["hall"]
        assert candidates.rank(number) == rank(history.state, group, job, pool, inside=is_inside(history.state, group, pool))


def test_a_post_moves_when_another_is_the_head():
    history = History(policy("a", 5))
    first = history.admit("a/one")
    index = CandidateIndex(history.state)
    index.refresh()
    candidates, number = index.candidates_of(first, "hall")
    history.wait(SECOND)
    urgent = history.admit("a/one", priority=1)
    index.refresh()

    assert candidates.pending_class.heads[number][1] is urgent
    assert candidates.queue.best(1 << number, lambda _post, requests: requests).job is urgent


def test_a_post_knows_those_before_it_in_the_order_of_pools():
    history = History(
        d.Policy(name="ml", profiles=(d.PolicyProfile(name="both"),)),
        pools=(d.Pool(name="west", selector={"site": "w"}), d.Pool(name="east", selector={"site": "e"})),
        profiles=(profile("both", pools=("west", "gone", "east")),),
    )
    candidates, _ = posts_of(history, history.admit("ml/both"), "east")

    assert [earlier.queue.name for earlier in candidates.earlier] == ["west"]
