"""What the users of a policy hold, in one line for each key that matters (R7, R15)."""

from __future__ import annotations

from headrace.contracts.documents.model import PerUser
from headrace.contracts.values.amounts import GPU, JOB
from headrace.domain.explain.user_shares import among_users, held_by_others
from tests.unit.domain.site import Site, gpus, place, policy


def site_of(**terms: object) -> Site:
    site = Site(policy("dev", **terms))
    site.node(count=8)
    return site


def test_who_holds_most_is_named_first_and_more_than_five_are_counted():
    site = site_of(per_user=PerUser(limit=gpus(8)))
    mine = site.run("a", place("n1", 0))
    for number, user in enumerate(("bob", "cid", "dan", "eve", "fay", "gus"), start=1):
        site.run(user, place("n1", number), user=user)
    assert held_by_others(mine, GPU) == "; other users hold: bob 1, cid 1, dan 1, eve 1, fay 1, 1 more users"


def test_where_the_policy_keeps_no_accounts_of_users_there_is_nothing_to_tell():
    site = site_of()
    assert list(among_users(site.run("a", place("n1", 0)))) == []


def test_each_limited_key_has_its_line_and_fairness_is_named_with_its_rule():
    site = site_of(fair_among="users", per_user=PerUser(limit=gpus(2) | {JOB: 3}))
    mine = site.run("a", place("n1", 0))
    site.run("b", place("n1", 1), user="bob")
    assert list(among_users(mine)) == [
        "you hold gpu 1 of your 2; bob holds 1 (R15: who uses least goes first)",
        "you hold job 1 of your 3; bob holds 1",
    ]
