"""R26: the set that yields is legal, sufficient and minimal; otherwise no job yields."""

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PerUser, PreemptionTerms, Share, Tenant
from headrace.contracts.values.durations import SECOND
from headrace.domain.preemption.victims import LEAVING, NoPlan, VictimPlan, review, search
from tests.unit.domain.hall import Hall, gpus


def lent(*, size=1, devices=4, reservation=4, lender=None, asks=2, **terms):
    """`lender` holds all of one node in jobs of `size`; `owner` asks for `asks`."""
    hall = Hall(devices=devices)
    hall.policy("lender", reservation=lender, size=size, terms=PreemptionTerms(**terms))
    hall.policy("owner", reservation=reservation, size=asks)
    victims = []
    for number in range(devices // size):
        victims.append(hall.run("lender", f"v{number}", ("n1", number * size, size)))
        hall.later(1)
    return hall, victims, hall.admit("owner", "o")


def taken(plan):
    assert isinstance(plan, VictimPlan), plan
    return [victim.job for victim in plan.victims]


def test_the_newest_yield_when_they_lose_alike_and_no_more_than_needed():
    hall, victims, job = lent()
    hall.later(1_000)
    assert taken(search(hall.state, job, hall.pool, hall.now)) == [victims[3].key, victims[2].key]


def test_what_was_taken_first_is_given_back_when_later_ones_suffice():
    hall = Hall(devices=4)
    hall.policy("small", size=1)
    hall.policy("large", size=3)
    hall.policy("owner", reservation=4, size=3)
    hall.run("large", "large", ("n1", 0, 3))
    hall.later(100)
    hall.run("small", "small", ("n1", 3, 1))
    job = hall.admit("owner", "o")
    assert taken(search(hall.state, job, hall.pool, hall.now)) == ["acme.u.large"]


def test_use_inside_a_reservation_is_never_taken():
    hall, victims, job = lent(lender=3)
    assert search(hall.state, job, hall.pool, hall.now) == NoPlan(
        "no set of borrowed units, taken together, makes room for it", 0, None
    )
    hall, victims, job = lent(lender=3, asks=1)
    assert taken(search(hall.state, job, hall.pool, hall.now)) == [victims[3].key]


def test_the_last_of_a_side_may_bring_it_below_because_jobs_are_whole():
    hall, victims, job = lent(size=2, lender=1, asks=3)
    assert sorted(taken(search(hall.state, job, hall.pool, hall.now))) == sorted(victim.key for victim in victims)


def test_protected_jobs_are_left_alone_and_the_answer_says_until_when():
    hall, victims, job = lent(min_runtime=60 * SECOND)
    found = search(hall.state, job, hall.pool, hall.now)
    assert isinstance(found, NoPlan)
    assert (found.protected, found.retry_at) == (4, victims[0].started_at + 60 * SECOND)
    hall.later(60)
    assert taken(search(hall.state, job, hall.pool, hall.now)) == [victims[3].key, victims[2].key]


def test_a_job_beyond_its_reservation_takes_nothing():
    hall, _, job = lent(reservation=1)
    assert isinstance(search(hall.state, job, hall.pool, hall.now), NoPlan)


def test_a_job_that_could_not_be_taken_back_takes_nothing_once_others_like_it_use_the_reservation_up():
    hall = Hall(devices=2)
    hall.policy("low", size=1, priority=1)
    hall.policy("high", reservation=1, size=1, priority=2, terms=PreemptionTerms(preempt_lower_priority=True))
    hall.run("low", "v", ("n1", 0, 1))
    hall.run("high", "first", ("n1", 1, 1), preemptible=False)
    firm, other = hall.admit("high", "second", preemptible=False), hall.admit("high", "third")
    found = search(hall.state, firm, hall.pool, hall.now)
    assert found == NoPlan("it may not take anything back: beyond its reservation")
    plan = search(hall.state, other, hall.pool, hall.now)
    assert taken(plan) == ["acme.u.v"]
    assert isinstance(review(hall.state, firm, hall.pool, plan, hall.now), str)


def test_a_job_at_its_own_limit_takes_nothing():
    hall = Hall(devices=4)
    hall.policy("lender", size=1)
    hall.policy("owner", reservation=2, limit=2, size=2)
    hall.run("owner", "first", ("n1", 0, 2))
    hall.run("lender", "v", ("n1", 2, 1))
    job = hall.admit("owner", "second")
    assert isinstance(search(hall.state, job, hall.pool, hall.now), NoPlan)


def test_what_its_policy_holds_and_is_overdue_counts_under_its_own_limit_until_it_has_left():  # R17, R28
    hall = Hall(devices=8)
    hall.policy("lender", size=2)
    hall.policy("other", reservation=2, size=2)
    hall.policy("owner", reservation=2, limit=2, size=2)
    late = hall.run("owner", "late", ("n1", 0, 2))
    for number in (2, 4, 6):
        hall.run("lender", f"v{number}", ("n1", number, 2))
    hall.order(hall.admit("other", "o"), [late], ("n1", 0, 2))
    hall.stop(late, cause="preempted", then="requeue")
    job = hall.admit("owner", "again")
    assert taken(search(hall.state, job, hall.pool, hall.now)) == ["acme.u.v6"]

    hall.append_facts("preemption", f.LeaseOverdueV1(job=late.key, attempt=1, rank=0, node="n1"))
    assert search(hall.state, job, hall.pool, hall.now) == NoPlan("its own limit is in the way")


def test_a_job_at_the_limit_of_its_user_takes_nothing():  # R7, R23
    hall = Hall(devices=4)
    hall.policy("lender", size=1)
    hall.policy("owner", reservation=4, size=2, per_user=PerUser(limit=gpus(2)))
    hall.run("owner", "first", ("n1", 0, 2))
    for number in (2, 3):
        hall.run("lender", f"v{number}", ("n1", number, 1))
    job = hall.admit("owner", "second")
    assert search(hall.state, job, hall.pool, hall.now) == NoPlan("its own limit is in the way")


def test_what_its_user_holds_and_is_overdue_counts_under_the_limit_of_the_user_until_it_has_left():  # R17, R28
    hall = Hall(devices=8)
    hall.policy("lender", size=2)
    hall.policy("other", reservation=2, size=2)
    hall.policy("owner", reservation=2, size=2, per_user=PerUser(limit=gpus(2)))
    late = hall.run("owner", "late", ("n1", 0, 2))
    for number in (2, 4, 6):
        hall.run("lender", f"v{number}", ("n1", number, 2))
    hall.order(hall.admit("other", "o"), [late], ("n1", 0, 2))
    hall.stop(late, cause="preempted", then="requeue")
    job = hall.admit("owner", "again")
    assert taken(search(hall.state, job, hall.pool, hall.now)) == ["acme.u.v6"]

    hall.append_facts("preemption", f.LeaseOverdueV1(job=late.key, attempt=1, rank=0, node="n1"))
    assert search(hall.state, job, hall.pool, hall.now) == NoPlan("its own limit is in the way")


def test_by_priority_only_lower_ones_of_the_same_tenant_yield_and_none_that_could_reclaim():
    hall = Hall(devices=4)
    hall.policy("low", reservation=2, size=1, priority=1)
    hall.policy("high", reservation=0, size=2, priority=2, terms=PreemptionTerms(preempt_lower_priority=True))
    for number in range(4):
        hall.run("low", f"v{number}", ("n1", number, 1))
    job = hall.admit("high", "h")
    plan = search(hall.state, job, hall.pool, hall.now)
    assert (plan.cause, taken(plan)) == ("priority", ["acme.u.v3", "acme.u.v2"])
    assert isinstance(search(hall.state, hall.admit("low", "w"), hall.pool, hall.now), NoPlan)


def test_where_what_is_leaving_makes_room_that_is_the_answer_by_whichever_cause_others_could_be_taken():
    hall = Hall(devices=2)
    share = Share(pool="hall", reservation=gpus(4))
    hall.append_facts("governance", f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme", shares=(share,))))
    hall.policy("low", size=1, priority=1)
    hall.policy("high", reservation=0, size=1, priority=2, terms=PreemptionTerms(preempt_lower_priority=True))
    leaves, job = hall.run("low", "leaves", ("n1", 0, 1)), hall.admit("high", "h")
    hall.run("low", "stays", ("n1", 1, 1))
    assert search(hall.state, job, hall.pool, hall.now).cause == "priority"
    hall.stop(leaves)
    assert search(hall.state, job, hall.pool, hall.now) == NoPlan(LEAVING)


def test_what_stands_on_a_node_that_is_away_makes_others_yield_wherever_they_are():  # R6
    hall = Hall(nodes=3, devices=1)
    hall.policy("lender")
    hall.policy("owner", reservation=2)
    hall.run("lender", "away", ("n1", 0, 1))
    victims = [hall.run("lender", f"v{number}", (f"n{number}", 0, 1)) for number in (2, 3)]
    hall.append_facts("preemption", f.NodeLostV1(node="n1", silent_for=60 * SECOND))
    job = hall.admit("owner", "o")
    assert sorted(taken(search(hall.state, job, hall.pool, hall.now))) == [victim.key for victim in victims]


def test_a_plan_is_looked_at_again_and_refused_when_a_victim_has_gone():
    hall, victims, job = lent()
    plan = search(hall.state, job, hall.pool, hall.now)
    assert review(hall.state, job, hall.pool, plan, hall.now) == plan.places
    hall.end(victims[3])
    assert isinstance(review(hall.state, job, hall.pool, plan, hall.now), str)


def test_the_node_with_the_best_worst_victim_wins():
    hall = Hall(nodes=2, devices=2)
    hall.policy("lender", size=1)
    hall.policy("owner", reservation=4, size=2)
    hall.run("lender", "a-old", ("n1", 0, 1))
    hall.later(10_000)
    for name, node, device in (("a-new", "n1", 1), ("b1", "n2", 0), ("b2", "n2", 1)):
        hall.run("lender", name, (node, device, 1))
    job = hall.admit("owner", "o")
    assert sorted(taken(search(hall.state, job, hall.pool, hall.now))) == ["acme.u.b1", "acme.u.b2"]
