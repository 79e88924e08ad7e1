"""R22: each wait has one reason, the first that applies."""

from msgspec.structs import replace

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Budget, Burst, BurstNode, PolicyProfile, Share, Tenant, Window
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.values.durations import HOUR
from headrace.contracts.values.reasons import WAIT_SENTENCES, WaitReason
from headrace.domain.explain.wait_reasons import CHECKED_NEXT, OF_THE_JOB, OF_THE_POOL, wait_in, wait_of
from tests.unit.domain.hall import Hall
from tests.unit.provisioner.cloud import OFFERS, Cloud


def test_the_tests_stand_in_the_order_of_the_rule():
    order = list(WaitReason)
    positions = [order.index(reason) for reason, _ in (*OF_THE_JOB, *OF_THE_POOL)]
    assert positions == sorted(positions)
    assert set(WAIT_SENTENCES) == set(order)


def reason(hall, job):
    return wait_of(hall.state, job, hall.now).reason


def test_a_dependency_comes_first():
    hall = Hall()
    hall.policy("p", limit=1)
    first = hall.run("p", "first", ("n1", 0, 1))
    assert reason(hall, hall.admit("p", "j", after=(Dependency(job=first.key),))) is WaitReason.DEPENDENCY


def test_the_policys_limit_is_told_with_its_numbers_and_who_holds_it():
    hall = Hall()
    hall.policy("p", limit=1)
    first = hall.run("p", "first", ("n1", 0, 1))
    wait = wait_of(hall.state, hall.admit("p", "j"), hall.now)
    assert (wait.reason, wait.numbers, wait.blockers) == (
        WaitReason.AT_POLICY_LIMIT,
        "policy acme/p uses 1 gpu of a limit of 1, it asks for 1",
        (first.key,),
    )


def test_the_tenants_limit_is_another_reason():
    hall = Hall()
    hall.policy("p")
    tenant = Tenant(name="acme", shares=(Share(pool="hall", limit={"gpu": 126_000}),))
    hall.append_facts("governance", f.TenantAppliedV1(author="a.b", tenant=tenant))
    hall.run("p", "first", ("n1", 0, 1))
    assert reason(hall, hall.admit("p", "j")) is WaitReason.AT_TENANT_LIMIT


def test_a_non_preemptible_job_waits_for_the_reservation_although_others_idle():
    hall = Hall()
    hall.policy("p", reservation=1)
    hall.run("p", "first", ("n1", 0, 1), preemptible=False)
    assert reason(hall, hall.admit("p", "j", preemptible=False)) is WaitReason.RESERVED_SHARE_BUSY


def test_a_queue_that_does_not_borrow_waits_for_the_reservation_too():
    hall = Hall()
    policy = hall.policy("p", reservation=1)
    document = policy.document.__class__(
        tenant="acme", name="p", profiles=(PolicyProfile(name="p", borrow=False),), reservation=policy.document.reservation
    )
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=document))
    hall.run("p", "first", ("n1", 0, 1))
    assert reason(hall, hall.admit("p", "j")) is WaitReason.RESERVED_SHARE_BUSY


def preempting():
    hall = Hall(devices=2)
    hall.policy("lender", size=1)
    hall.policy("owner", reservation=2, size=2)
    victims = [hall.run("lender", f"v{number}", ("n1", number, 1)) for number in range(2)]
    return hall, victims, hall.admit("owner", "o")


def test_while_victims_are_looked_for_or_leave_the_preemptor_waits_for_them():
    hall, victims, job = preempting()
    hall.append_facts("allocator", f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"))
    assert reason(hall, job) is WaitReason.WAITING_FOR_PREEMPTION
    hall.order(job, victims, ("n1", 0, 2))
    wait = wait_of(hall.state, job, hall.now)
    assert (wait.reason, wait.blockers) == (WaitReason.WAITING_FOR_PREEMPTION, tuple(victim.key for victim in victims))


def test_a_victim_that_has_left_goes_behind_the_preemptor_and_others_behind_what_is_kept():
    hall, victims, job = preempting()
    hall.order(job, victims, ("n1", 0, 2))
    hall.stop(victims[0], "preempted", "requeue")
    hall.end(victims[0], stopping=True)
    hall.append_facts("allocator", f.JobRequeuedV1(job=victims[0].key, attempt=1, cause="preempted"))
    assert reason(hall, victims[0]) is WaitReason.BEHIND_HIGHER_RANK
    assert reason(hall, hall.admit("lender", "new")) is WaitReason.KEPT_FOR_LARGER_JOB


def test_what_is_free_is_kept_from_those_below_while_victims_are_looked_for_and_from_no_other():  # R19
    hall = Hall(devices=3)
    hall.policy("lender", size=1)
    hall.policy("owner", reservation=3, size=3)
    hall.policy("first", priority=9, reservation=1)
    hall.run("lender", "v", ("n1", 0, 1))
    job = hall.admit("owner", "o")
    hall.append_facts("allocator", f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"))
    below, above = hall.admit("lender", "l"), hall.admit("first", "f")
    wait = wait_of(hall.state, below, hall.now)
    assert (wait.reason, wait.blockers) == (WaitReason.BEHIND_HIGHER_RANK, (job.key,))
    assert wait_in(hall.state, above, hall.pool, hall.now) is None


def test_where_nothing_is_in_its_way_it_waits_for_the_next_look():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j")
    assert wait_in(hall.state, job, hall.pool, hall.now) is None
    wait = wait_of(hall.state, job, hall.now)
    assert (wait.reason, wait.message) == (WaitReason.BEHIND_HIGHER_RANK, CHECKED_NEXT)


def test_of_victims_of_another_tenant_neither_names_nor_number_are_told():
    hall = Hall(devices=2)
    hall.policy("lender", tenant="rival", size=1)
    hall.policy("owner", reservation=2, size=2)
    victims = [hall.run("lender", f"v{number}", ("n1", number, 1), tenant="rival") for number in range(2)]
    job = hall.admit("owner", "o")
    hall.order(job, victims, ("n1", 0, 2))
    wait = wait_of(hall.state, job, hall.now)
    assert (wait.numbers, wait.blockers) == ("not all have left pool hall", ("other tenants: 2 GPUs",))
    for victim in victims:
        hall.stop(victim, "preempted", "requeue")
        hall.end(victim, stopping=True)
    assert wait_of(hall.state, job, hall.now).numbers == "all have left; its place in pool hall is kept"


def test_protected_victims_are_told_with_the_moment_when_the_first_is_free():
    hall, _, job = preempting()
    hall.append_facts("allocator", f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"))
    none = f.PreemptionNoneV1(
        preemption=f"{job.key}@{hall.sequence}", job=job.key, pool="hall", why="w", protected=2, retry_at=hall.now + 1
    )
    hall.append_facts("preemption", none)
    assert reason(hall, job) is WaitReason.VICTIMS_PROTECTED


def test_no_node_in_service_is_told_before_capacity():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j")
    hall.append_facts("governance", f.NodeCordonedV1(author="a.b", node="n1"))
    assert reason(hall, job) is WaitReason.NO_HEALTHY_NODE


def test_enough_in_total_but_on_no_node_is_fragmented():
    hall = Hall(nodes=2, devices=2)
    hall.policy("small", size=1)
    hall.policy("large", size=2)
    for number in (1, 2):
        hall.run("small", f"s{number}", (f"n{number}", 0, 1))
    assert reason(hall, hall.admit("large", "l")) is WaitReason.FRAGMENTED


def test_a_full_pool_is_told_as_borrowers_or_as_no_free_capacity():
    hall = Hall(devices=2)
    hall.policy("lender", reservation=2, size=2)
    hall.policy("other", size=1)
    hall.run("lender", "v", ("n1", 0, 2))
    assert reason(hall, hall.admit("other", "o")) is WaitReason.NO_FREE_CAPACITY
    hall = Hall(devices=2)
    hall.policy("lender", size=2)
    hall.policy("other", size=1)
    hall.run("lender", "v", ("n1", 0, 2))
    assert reason(hall, hall.admit("other", "o")) is WaitReason.WOULD_EXCEED_RESERVATION


def closed(hall, kind, name, tenant="", mode="freeze"):
    hall.append_facts("governance", f.ObjectClosedV1(author="acme.root", kind=kind, tenant=tenant, name=name, mode=mode))


def test_a_closed_queue_comes_before_everything():
    hall = Hall()
    hall.policy("p", limit=1)
    first = hall.run("p", "first", ("n1", 0, 1))
    job = hall.admit("p", "j", after=(Dependency(job=first.key),))
    closed(hall, "policy", "p", "acme", "drain")
    wait = wait_of(hall.state, job, hall.now)
    assert wait.reason is WaitReason.FROZEN
    assert wait.numbers.startswith("policy acme/p is being drained, then deleted, by acme.root since ")


def test_a_closed_pool_is_a_reason_where_there_is_no_other():
    hall = Hall()
    hall.policy("p", limit=1)
    hall.run("p", "first", ("n1", 0, 1))
    job = hall.admit("p", "j")
    closed(hall, "pool", "attic")
    assert reason(hall, job) is WaitReason.AT_POLICY_LIMIT
    closed(hall, "pool", "hall")
    assert reason(hall, job) is WaitReason.FROZEN


def test_outside_its_window_a_job_waits_for_the_next_to_open():
    hall = Hall()
    policy = hall.policy("p", limit=1)
    hall.run("p", "first", ("n1", 0, 1))
    windows = (Window(days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"), opens=60, closes=120),)
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=replace(policy.document, windows=windows)))
    hall.append_facts("allocator", f.PolicyGatedV1(tenant="acme", policy="p", shut=True))
    wait = wait_of(hall.state, hall.admit("p", "j"), hall.now)
    assert wait.reason is WaitReason.OUTSIDE_WINDOW
    assert wait.numbers.startswith("the next opens at ")


def test_a_budget_that_is_used_up_is_told_with_its_numbers():
    hall = Hall()
    policy = hall.policy("p", limit=1)
    hall.run("p", "first", ("n1", 0, 1))
    budgets = (Budget(key="gpu", hours=0, per="day"),)
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=replace(policy.document, budgets=budgets)))
    hall.append_facts("allocator", f.PolicyGatedV1(tenant="acme", policy="p", spent=("gpu per day",)))
    wait = wait_of(hall.state, hall.admit("p", "j"), hall.now)
    assert wait.reason is WaitReason.BUDGET_EXHAUSTED
    assert wait.numbers.startswith("0.000 of 0 hours of gpu are used this day; the next begins at ")


def test_while_a_pool_grows_for_it_a_job_waits_for_capacity():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j")
    hall.append_facts("governance", *(f.NodeCordonedV1(author="a.b", node=node) for node in hall.state.nodes))
    document = hall.state.pools["hall"].document
    burst = Burst(provider="local", node=BurstNode(gpus=1, gpu_model="any"), max_nodes=9)
    hall.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=replace(document, burst=burst)))
    before = reason(hall, job)
    hall.append_facts("allocator", f.GrowthRequestedV1(pool="hall", nodes=2))
    wait = wait_of(hall.state, job, hall.now)
    assert before is WaitReason.NO_HEALTHY_NODE
    assert (wait.reason, wait.numbers) == (WaitReason.WAITING_FOR_CAPACITY, "0 of 2 nodes have come to pool hall")


def test_a_tenant_whose_cap_pays_for_no_node_reads_what_it_has_spent():
    site = Cloud(offers=OFFERS, min_life=HOUR)
    site.law(Tenant(name="default", shares=(Share(pool="cloud", cap="0.99"),)))
    job = site.admit("a")
    wait = wait_in(site.state, job, site.pool, site.now)
    assert (wait.reason, wait.numbers) == (
        WaitReason.AT_TENANT_LIMIT,
        "tenant default has spent 0.00 of its cap of 0.99 on nodes of pool cloud this month",
    )
