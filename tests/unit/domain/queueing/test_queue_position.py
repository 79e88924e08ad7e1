"""R15: who goes before a waiting job, in its queue and in a pool."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PolicyProfile
from headrace.contracts.facts.admission import Dependency
from headrace.domain.queueing.queue_position import GroupRanks, groups_ahead, position
from tests.unit.domain.hall import Hall
from tests.unit.domain.site import Site, place, policy
from tests.unit.domain.snapshot import differences, kept, naive


def before(hall, job):
    """The names of those that go before it, group by group."""
    return sorted(
        sorted(other.key.rpartition(".")[2] for _, other in members) for _, members in groups_ahead(hall.state, job, hall.pool)
    )


def test_the_place_in_line_counts_the_whole_queue():
    hall = Hall(devices=1)
    hall.policy("p", limit=1)
    hall.run("p", "first", ("n1", 0, 1))
    jobs = [hall.admit("p", name, priority=priority) for name, priority in (("a", 0), ("b", 5), ("c", 0))]
    assert [position(hall.state, job) for job in jobs] == [2, 1, 3]


def test_one_that_stands_aside_has_no_place():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j", after=(Dependency(job="acme.u.other"),))
    assert position(hall.state, job) == 0


def test_all_of_a_better_group_and_the_earlier_of_its_own_go_before_it():
    hall = Hall(devices=1)
    hall.policy("p")
    hall.policy("q", priority=5)
    hall.run("p", "runs", ("n1", 0, 1))
    for name in ("a", "b"):
        hall.admit("p", name)
    job = hall.admit("p", "c")
    hall.admit("p", "d")
    for name in ("x", "y"):
        hall.admit("q", name)
    assert before(hall, job) == [["a", "b"], ["x", "y"]]


def test_those_that_their_own_limit_keeps_out_are_only_before_jobs_of_their_own_policy():  # R16
    hall = Hall(devices=2)
    hall.policy("p", limit=1, priority=5)
    hall.policy("q")
    hall.run("p", "runs", ("n1", 0, 1))
    hall.admit("p", "a")
    waits, other = hall.admit("p", "b"), hall.admit("q", "c")
    assert (before(hall, waits), before(hall, other)) == ([["a"]], [])


def test_a_queue_that_does_not_borrow_is_closed_beyond_its_reservation():  # R12
    hall = Hall(devices=2)
    policy = hall.policy("p", reservation=1)
    document = policy.document.__class__(
        tenant="acme", name="p", profiles=(PolicyProfile(name="p", borrow=False),), reservation=policy.document.reservation
    )
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=document))
    job = hall.admit("p", "a")
    assert GroupRanks(hall.state, hall.pool).of(hall.state.pending.group_for(job)) == (0, 0, 0, 0, 0)
    hall.run("p", "b", ("n1", 0, 1))
    assert GroupRanks(hall.state, hall.pool).of(hall.state.pending.group_for(job)) is None


def test_those_outside_their_window_are_before_no_other():  # R33
    hall = Hall(devices=1)
    hall.policy("p", priority=5)
    hall.policy("q")
    hall.admit("p", "a")
    job = hall.admit("q", "b")
    assert before(hall, job) == [["a"]]
    hall.append_facts("allocator", f.PolicyGatedV1(tenant="acme", policy="p", shut=True))
    assert before(hall, job) == []


def test_among_users_the_least_user_goes_first_in_the_queue_and_in_the_pool_too():
    site = Site(policy("dev", fair_among="users"))
    site.node(count=4)
    site.run("a", place("n1", 0))
    ann, bob = site.admit("ann"), site.admit("bob", user="bob")
    assert [position(site.state, job) for job in (ann, bob)] == [2, 1]
    first = [[other.key for _, other in members] for _, members in groups_ahead(site.state, ann, site.state.pools["hall"])]
    assert first == [[bob.key]]
    assert list(groups_ahead(site.state, bob, site.state.pools["hall"])) == []


def test_a_policy_that_becomes_fair_or_ends_to_be_stands_its_jobs_anew():
    site = Site(policy("dev"))
    site.node(count=4)
    site.run("a", place("n1", 0))
    ann, bob = site.admit("ann"), site.admit("bob", user="bob")
    assert site.state.pending.group_of(ann) is site.state.pending.group_of(bob)
    site.law(policy("dev", fair_among="users"))
    assert [position(site.state, job) for job in (ann, bob)] == [2, 1]
    assert differences(kept(site.state), naive(site.state)) == []
    site.law(policy("dev"))
    assert [position(site.state, job) for job in (ann, bob)] == [1, 2]
    assert site.state.pending.group_of(ann) is site.state.pending.group_of(bob)
