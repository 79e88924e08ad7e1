from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from headrace.allocator.standings import Candidate, Standings
from headrace.contracts import documents as d
from headrace.contracts import facts as f
from headrace.contracts.durations import SECOND
from headrace.simulate.world import World
from tests.properties.histories import scenarios
from tests.unit.allocator.history import History, gpus, policy, terms


def fresh(told: History) -> Standings:
    standings = Standings(told.state)
    standings.refresh()
    return standings


def in_line(standings: Standings, pool: str = "hall") -> list[tuple[str, bool]]:
    """(job, inside) of all candidates of a pool, best first."""
    found = [candidate for number in standings.requests(pool) for candidate in standings.in_order(pool, number)]
    return [(candidate.job.key, candidate.inside) for candidate in sorted(found)]


def all_of(standings: Standings, state, now: int) -> dict[str, object]:
    """Everything that standings answer, without the stamps."""

    def told(candidate: Candidate) -> tuple[object, ...]:
        return candidate.standing, candidate.pool, candidate.place, candidate.job.key, candidate.limited

    lines = {
        (pool, number): [told(candidate) for candidate in standings.in_order(pool, number)]
        for pool in state.pools
        for number in standings.requests(pool)
    }
    return {
        "lines": {asked: line for asked, line in lines.items() if line},
        "hopeful": {name: sorted(map(told, standings.hopeful(pool, now))) for name, pool in state.pools.items()},
    }


def test_only_the_head_of_each_group_stands_in_line_and_those_inside_their_reservation_stand_first():
    told = History(policy("a", 1), policy("b"))
    borrower, head, second = told.admit("b/one"), told.admit("a/one"), told.admit("a/one")
    standings = fresh(told)
    assert in_line(standings) == [(head.key, True), (borrower.key, False)]

    group = told.state.pending.group_of(head)
    group.leave(head)
    told.state.pending.mark(group)
    standings.refresh()

    assert in_line(standings) == [(second.key, True), (borrower.key, False)]


def test_who_may_not_start_does_not_stand_in_line():
    told = History(policy("own", limit=gpus(1)), policy("unborrowed", 0, unborrowed=("one",)), policy("firm", 1))
    told.admit("own/two")
    told.admit("unborrowed/one")
    told.admit("firm/two", preemptible=False)
    inside = told.admit("firm/one", preemptible=False)

    assert in_line(fresh(told)) == [(inside.key, True)]


def test_who_is_at_its_tenants_limit_stands_in_no_line_but_may_take_back_from_its_own():
    acme = d.Tenant(name="acme", shares=(d.Share(pool="hall", reservation=gpus(2), limit=gpus(2)),))
    told = History(policy("a", 1, tenant="acme"), policy("b", tenant="acme"), tenants=(acme,))
    told.node()
    told.run("b/two", tenant="acme")
    waiting = told.admit("a/one", tenant="acme")
    standings = fresh(told)

    pool = told.state.pools["hall"]
    assert in_line(standings) == []
    assert [(candidate.job, candidate.limited) for candidate in standings.hopeful(pool, told.now)] == [(waiting, True)]
    assert standings.pools() == ["hall"]


def test_what_is_passed_over_stays_in_line():
    told = History(policy("a", priority=1), policy("b"))
    first, second = told.admit("a/one"), told.admit("b/one")
    standings = fresh(told)
    (number,) = standings.requests("hall")

    for _ in range(2):
        assert [candidate.job for candidate in standings.in_order("hall", number)] == [first, second]
    assert next(standings.in_order("hall", number)).job is first
    assert [candidate.job for candidate in standings.in_order("hall", number)] == [first, second]


def test_a_candidate_is_found_by_its_group_and_pool():
    told = History(policy("a"))
    group = told.state.pending.group_of(told.admit("a/one"))
    standings = fresh(told)

    candidate = standings.of(group, "hall")
    assert (candidate.pool, candidate.place, candidate.group, candidate.job) == ("hall", 0, group, group.head())
    assert standings.of(group, "elsewhere") is None


def test_only_those_who_may_take_something_back_are_hopeful():
    told = History(policy("a", 1), policy("b"), policy("c", preemption=terms(preempt_lower_priority=True)))
    inside, _, eager = told.admit("a/one"), told.admit("b/one"), told.admit("c/one")
    pool = told.state.pools["hall"]

    assert {candidate.job.key for candidate in fresh(told).hopeful(pool, told.now)} == {inside.key, eager.key}


def test_while_a_pool_rests_only_those_are_hopeful_who_were_never_searched_for():
    told = History(policy("a", 1), policy("b", 1))
    searched, other = told.admit("a/one"), told.admit("b/one")
    standings, pool = fresh(told), told.state.pools["hall"]
    told.say(f.ReclaimOpenedV1(job=searched.key, pool="hall", cause="reclaim"), by="allocator")
    none = f.PreemptionNoneV1(preemption=pool.search.id, job=searched.key, pool="hall", why="nobody")
    told.say(none, by="preemption")
    standings.refresh()

    def hopeful(now: int) -> set[str]:
        return {candidate.job.key for candidate in standings.hopeful(pool, now)}

    assert hopeful(told.now) == {other.key}
    assert hopeful(told.now + SECOND) == {searched.key, other.key}


def test_the_standing_of_a_job_is_that_of_its_group_and_of_none_that_stands_aside():
    told = History(policy("a", 1), policy("b"))
    job, borrower = told.admit("a/one"), told.admit("b/one")
    aside = told.admit("a/one")
    aside.not_before = told.now + SECOND
    told.state.pending.remove(aside)
    told.state.pending.add(aside, told.now)
    standings, pool = fresh(told), told.state.pools["hall"]

    assert standings.standing_of(aside, pool) is None
    assert standings.standing_of(job, pool) == standings.of(told.state.pending.group_of(job), "hall").standing
    assert standings.standing_of(job, pool) < standings.standing_of(borrower, pool)


class Doubted(World):
    """A world in which, after each settling, what is kept is compared with what would be worked out from nothing."""

    def settle(self) -> None:
        super().settle()
        kept = self.allocator.standings
        kept.refresh()
        again = Standings(self.state)
        again.refresh()
        assert all_of(kept, self.state, self.now) == all_of(again, self.state, self.now)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(scenarios())
def test_what_is_kept_is_what_would_be_worked_out_from_nothing(scenario):
    for _ in Doubted(scenario, judged=False).run():
        pass
