"""What is kept of all pending jobs is what would be worked out from nothing."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from headrace.allocator.candidate_index import REQUESTS_KEPT, CandidateIndex
from headrace.allocator.decide import Allocator
from headrace.allocator.pool_queue import PoolQueue
from headrace.allocator.request_bitsets import bits_of
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.writers import ALLOCATOR
from headrace.contracts.values.amounts import GPU, JOB
from headrace.contracts.values.durations import SECOND
from headrace.domain.indexes import pending as pending_module
from headrace.simulate.world import World
from tests.properties.campaign import examples
from tests.properties.histories import scenarios
from tests.unit.allocator.history import History, policy, profile


def everything(index: CandidateIndex) -> dict[str, object]:
    """All that index answer, whatever the numbers of requests."""
    answers: dict[str, object] = {}
    for name, queue in index.queues.items():
        pool_candidates = {
            candidates
            for pending_class in index.classes.values()
            for candidates in pending_class.pool_candidates
            if candidates.queue is queue
        }
        for candidates in pool_candidates:
            for number in bits_of(candidates.pending_class.present):
                sets = [
                    bool(found >> number & 1)
                    for found in (candidates.inside, candidates.borrowing, candidates.asking, candidates.reclaiming)
                ]
                answers[name, candidates.pending_class.heads[number][1].key] = (sets, candidates.rank(number))
        answers[name] = order_of(queue, (1 << len(index.needs.requests)) - 1)
        policies = [policy for _, policy in sorted(index.state.policies.items())]
        answers[name, "lends"] = [(queue.lends_within(policy), queue.lends_across(policy)) for policy in policies]
    return answers


def order_of(queue: PoolQueue, every: int) -> list[tuple[str, bool]]:
    """(job, inside) of all candidates, best first: each is passed over once it has been named."""
    named: set[tuple[object, int]] = set()
    order = []

    def allowed(candidates: object, requests: int) -> int:
        return sum(1 << number for number in bits_of(requests) if (candidates, number) not in named)

    while (best := queue.best(every, allowed)) is not None:
        named.add((best.candidates, best.number))
        order.append((best.job.key, best.inside))
    return order


def test_no_job_is_known_where_no_job_waits():
    history = History(policy("a"))
    history.allocator.index.refresh()

    assert history.allocator.index.queues == {}


def test_where_a_job_stands_is_known_while_it_is_in_line():
    history = History(policy("a", 1), policy("b"))
    job, borrower = history.admit("a/one"), history.admit("b/one")
    aside = history.admit("a/one")
    aside.not_before = history.now + SECOND
    history.state.pending.remove(aside)
    history.state.pending.add(aside, history.now)
    index = history.allocator.index
    index.refresh()

    assert index.candidates_of(aside, "hall") is None
    assert index.candidates_of(job, "elsewhere") is None
    candidates, number = index.candidates_of(job, "hall")
    assert candidates.rank(number) < index.candidates_of(borrower, "hall")[0].rank(number)


def test_jobs_of_a_queue_that_may_run_on_spot_instances_stand_beside_those_that_may_not():  # R38
    history = History(policy("a", 4))
    history.node(count=2)
    first = history.admit("a/one", preemptible=False)
    history.law(d.Documents(profiles=(profile("one", spot=True),)))
    second, third = (history.admit("a/one", preemptible=False) for _ in range(2))
    index = history.allocator.index
    index.refresh()
    places = [index.candidates_of(job, "hall") for job in (first, second, third)]
    history.learn()
    granted = [fact.job for fact in history.allocate()]

    assert places[0][0] is places[1][0] is places[2][0]
    assert places[0][1] != places[1][1] == places[2][1]
    assert granted == [first.key, second.key]
    assert first.request is not second.request


def test_a_limit_of_jobs_for_each_user_counts_from_the_round_after_it_was_written():  # R7
    history = History(policy("a"))
    history.node()
    history.run("a/one")
    history.law(d.Documents(policies=(policy("a", per_user=d.PerUser(limit={JOB: 2})),)))
    waiting = [history.admit("a/one") for _ in range(2)]

    assert [fact.job for fact in history.allocate() if isinstance(fact, f.LeaseGrantedV1)] == [waiting[0].key]


def test_a_queue_whose_profile_is_gone_stands_nowhere():
    history = History(policy("a"))
    job = history.admit("a/one")
    del history.state.profiles["", "one"]
    history.allocator.index.refresh()

    assert history.allocator.index.queues == {}
    assert history.allocator.index.candidates_of(job, "hall") is None


def test_requests_without_a_waiter_are_forgotten_in_time():
    history = History(policy("a"), profiles=(d.Profile(name="one", request={GPU: 1}, pools=("hall",)),))
    for units in range(1, 3 * REQUESTS_KEPT):
        job = history.admit("a/one", request={GPU: units})
        history.allocate()
        history.cancel(job)
        history.allocate()

    history.allocator.index.refresh()
    assert len(history.allocator.index.needs.requests) <= REQUESTS_KEPT + 1


class Doubted(World):
    """A world in which, after each settling, what is kept is compared with what would be worked out from nothing."""

    def run_until_stable(self) -> None:
        super().run_until_stable()
        allocator = self.deciders[ALLOCATOR]
        assert isinstance(allocator, Allocator)
        kept = allocator.index
        kept.refresh()
        again = CandidateIndex(self.state)
        again.refresh()
        kept.refresh()
        found, expected = everything(kept), everything(again)
        assert {key: found[key] for key in expected} == expected


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
def test_what_is_kept_is_what_would_be_worked_out_from_nothing(scenario):
    for _ in Doubted(scenario, judged=False).run():
        pass


def test_changes_that_are_not_read_are_dropped_and_who_looks_then_is_told_to_look_at_all(monkeypatch):
    monkeypatch.setattr(pending_module, "STALE_MAX", 8)
    history = History(policy("ml", 4))
    history.node()
    for _ in range(20):
        job = history.admit("ml/one")
        history.cancel(job)
        history.append_facts(f.JobEndedV1(job=job.key, attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    changes = history.state.pending.changes
    assert (len(changes.groups) <= 8, changes.missed) == (True, True)

    jobs = [history.admit(queue) for queue in ("ml/one", "ml/two", "ml/half", "ml/cpu")]

    rounds = [*history.allocate(), *history.allocate()]
    granted = {fact.job for fact in rounds if isinstance(fact, f.LeaseGrantedV1)}
    assert (granted, changes.missed) == ({job.key for job in jobs}, False)
