"""What is kept of all pending jobs is what would be worked out from nothing."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from headrace.allocator.candidate_index import REQUESTS_KEPT, Standings
from headrace.allocator.decide import Allocator
from headrace.allocator.pool_queue import PoolQueue
from headrace.allocator.request_bitsets import bits_of
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.writers import ALLOCATOR
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import SECOND
from headrace.domain.indexes import pending as pending_module
from headrace.simulate.world import World
from tests.properties.histories import scenarios
from tests.unit.allocator.history import History, policy


def everything(standings: Standings) -> dict[str, object]:
    """All that standings answer, whatever the numbers of requests."""
    told: dict[str, object] = {}
    for name, board in standings.boards.items():
        posts = {post for strand in standings._strands.values() for post in strand.posts if post.board is board}
        for post in posts:
            for number in bits_of(post.strand.present):
                sets = [bool(found >> number & 1) for found in (post.inside, post.borrowing, post.asking, post.reclaiming)]
                told[name, post.strand.heads[number][1].key] = (sets, post.rank(number))
        told[name] = order_of(board, (1 << len(standings.needs.requests)) - 1)
        policies = [policy for _, policy in sorted(standings._state.policies.items())]
        told[name, "lends"] = [(board.lends_within(policy), board.lends_across(policy)) for policy in policies]
    return told


def order_of(board: PoolQueue, every: int) -> list[tuple[str, bool]]:
    """(job, inside) of all candidates, best first: each is passed over once it has been named."""
    named: set[tuple[object, int]] = set()
    order = []

    def allowed(post: object, requests: int) -> int:
        return sum(1 << number for number in bits_of(requests) if (post, number) not in named)

    while (best := board.best(every, allowed)) is not None:
        named.add((best.post, best.number))
        order.append((best.job.key, best.inside))
    return order


def test_nobody_is_known_where_nobody_waits():
    told = History(policy("a"))
    told.allocator.standings.refresh()

    assert told.allocator.standings.boards == {}


def test_where_a_job_stands_is_known_while_it_is_in_line():
    told = History(policy("a", 1), policy("b"))
    job, borrower = told.admit("a/one"), told.admit("b/one")
    aside = told.admit("a/one")
    aside.not_before = told.now + SECOND
    told.state.pending.remove(aside)
    told.state.pending.add(aside, told.now)
    standings = told.allocator.standings
    standings.refresh()

    assert standings.post_of(aside, "hall") is None
    assert standings.post_of(job, "elsewhere") is None
    post, number = standings.post_of(job, "hall")
    assert post.rank(number) < standings.post_of(borrower, "hall")[0].rank(number)


def test_a_queue_whose_profile_is_gone_stands_nowhere():
    told = History(policy("a"))
    job = told.admit("a/one")
    del told.state.profiles["", "one"]
    told.allocator.standings.refresh()

    assert told.allocator.standings.boards == {}
    assert told.allocator.standings.post_of(job, "hall") is None


def test_requests_that_nobody_waits_for_are_forgotten_in_time():
    told = History(policy("a"), profiles=(d.Profile(name="one", request={GPU: 1}, pools=("hall",)),))
    for units in range(1, 3 * REQUESTS_KEPT):
        job = told.admit("a/one", request={GPU: units})
        told.allocate()
        told.cancel(job)
        told.allocate()

    told.allocator.standings.refresh()
    assert len(told.allocator.standings.needs.requests) <= REQUESTS_KEPT + 1


class Doubted(World):
    """A world in which, after each settling, what is kept is compared with what would be worked out from nothing."""

    def settle(self) -> None:
        super().settle()
        allocator = self.deciders[ALLOCATOR]
        assert isinstance(allocator, Allocator)
        kept = allocator.standings
        kept.refresh()
        again = Standings(self.state)
        again.refresh()
        kept.refresh()
        found, expected = everything(kept), everything(again)
        assert {key: found[key] for key in expected} == expected


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
def test_what_is_kept_is_what_would_be_worked_out_from_nothing(scenario):
    for _ in Doubted(scenario, judged=False).run():
        pass


def test_changes_that_nobody_looks_at_are_let_go_of_and_who_looks_then_is_told_to_look_at_all(monkeypatch):
    monkeypatch.setattr(pending_module, "STALE_MAX", 8)
    told = History(policy("ml", 4))
    told.node()
    for _ in range(20):
        job = told.admit("ml/one")
        told.cancel(job)
        told.say(f.JobEndedV1(job=job.key, attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    pending = told.state.pending
    assert (len(pending.stale) <= 8, pending.missed) == (True, True)

    jobs = [told.admit(queue) for queue in ("ml/one", "ml/two", "ml/half", "ml/cpu")]

    rounds = [*told.allocate(), *told.allocate()]
    granted = {fact.job for fact in rounds if isinstance(fact, f.LeaseGrantedV1)}
    assert (granted, pending.missed) == ({job.key for job in jobs}, False)
