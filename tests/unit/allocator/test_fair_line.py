"""Dealt places among the candidates of a policy that is fair among users, as the index of candidates has them (R15)."""

from __future__ import annotations

import pytest

from headrace.allocator.candidate_index import CandidateIndex
from headrace.domain.backfill.holds import rank_in_line
from tests.unit.domain.site import Site, gpus, place, policy


def everything(_candidates: object, requests: int) -> int:
    return requests


@pytest.mark.parametrize("reservation", [None, gpus(4)], ids=["borrowers", "inside the reservation"])
def test_the_user_with_the_least_in_use_goes_first_at_the_best_place(reservation):
    site = Site(policy("dev", fair_among="users", reservation=reservation), policy("ops", reservation=reservation and gpus(1)))
    site.node(count=8)
    site.run("a", place("n1", 0))
    site.run("b", place("n1", 1), user="bob")
    site.run("c", place("n1", 2), user="bob")
    first, cid = site.admit("first", user="bob"), site.admit("last", user="cid")
    index = CandidateIndex(site.state)
    index.refresh()
    queue = index.queues["hall"]
    assert queue.best(-1, everything).job is cid
    ranks = {}
    for job in (first, cid):
        candidates, number = index.candidates_of(job, "hall")
        ranks[job.key] = candidates.rank(number)
    assert ranks == {job.key: rank_in_line(site.state, job, site.state.pools["hall"]) for job in (first, cid)}
    assert ranks[cid.key][-1] == first.key, "the place is that of the oldest job"


def test_a_candidate_that_may_not_be_granted_leaves_the_turn_to_the_next_user():
    site = Site(policy("dev", fair_among="users"))
    site.node(count=8)
    site.run("a", place("n1", 0))
    ann, bob = site.admit("ann"), site.admit("bob", user="bob")
    index = CandidateIndex(site.state)
    index.refresh()
    queue = index.queues["hall"]
    assert queue.best(-1, everything).job is bob
    but_bob = queue.best(-1, lambda candidates, requests: 0 if candidates.user == "bob" else requests)
    assert but_bob.job is ann
