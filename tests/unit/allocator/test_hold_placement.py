"""For whom units are kept, and which (R16)."""

from __future__ import annotations

from headrace.allocator.decide import Allocator
from headrace.allocator.hold_placement import HOLDS_MAX
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from tests.unit.allocator.history import HALL, History, place, policy, profile, stopped


def held(facts) -> list[object]:
    return [fact for fact in facts if isinstance(fact, f.HoldPlacedV1 | f.HoldLiftedV1)]


def hold_placed(job, *places, pool: str = "hall") -> f.HoldPlacedV1:
    return f.HoldPlacedV1(job=job.key, pool=pool, places=places)


def lifted(job, why: str) -> f.HoldLiftedV1:
    return f.HoldLiftedV1(job=job.key, pool="hall", why=why)


def full(*policies: d.Policy, count: int = 2, **more: object) -> History:
    """A hall in which a job runs on every device."""
    told = History(*policies, policy("busy"), **more)
    told.node("n1", count)
    for _ in range(count):
        told.run("busy/one")
    return told


def test_where_everything_stays_nothing_is_kept():
    told = History(policy("ml"), policy("firm", 2))
    told.node("n1", 2)
    told.run("firm/one", preemptible=False)
    told.admit("ml/two")
    told.wait(20 * MINUTE)

    assert held(told.allocate()) == []


def test_in_one_pool_at_most_a_number_of_jobs_keep_something():
    names = tuple(f"p{number}" for number in range(HOLDS_MAX + 2))
    told = full(*(policy(name) for name in names))
    for name in names:
        told.admit(f"{name}/two")
    told.wait(10 * MINUTE)

    assert len(held(told.allocate())) == 1  # two devices are enough for one of them only


def test_units_are_kept_in_the_first_pool_of_the_order_where_there_are_any():
    pools = tuple(d.Pool(name=name, selector={"site": name}) for name in ("east", "west"))
    both = d.PolicyProfile(name="both")
    told = History(
        d.Policy(name="ml", profiles=(both,)),
        pools=pools,
        profiles=(profile("both", 2, pools=("west", "east")),),
    )
    told.node("w1", 2, site="west")
    told.node("e1", 2, site="east")
    for _ in range(2):
        told.run("ml/both")
    waiting = told.admit("ml/both")
    told.wait(10 * MINUTE)

    assert held(told.allocate()) == [hold_placed(waiting, place("w1", 0, 1), pool="west")]


def test_a_gang_keeps_places_on_several_nodes():
    told = History(policy("ml"), policy("busy"))
    told.node("n1", 1)
    told.node("n2", 1)
    told.run("busy/one")
    gang = told.admit("ml/gang")
    told.wait(10 * MINUTE)

    assert held(told.allocate()) == [hold_placed(gang, place("n2", 0), place("n1", 0, job=False))]


def test_who_has_waited_long_but_has_room_is_granted_and_keeps_nothing():
    told = History(policy("ml"), pools=(d.Pool(name="hall", selector=HALL.selector, backfill_for=SECOND),))
    job = told.admit("ml/one")
    told.wait(MINUTE)
    told.node("n1", 1)

    assert [type(fact) for fact in told.allocate()] == [f.LeaseGrantedV1]
    assert job.state == "starting"


def test_what_a_preemptor_lets_go_of_by_finding_room_elsewhere_can_be_kept_in_the_same_round():
    told = History(policy("ml", 2), policy("large", priority=-1), policy("firm", 1), policy("busy"))
    told.node("n1", 2)
    told.run("firm/half", preemptible=False)
    leaves = told.run("firm/half", time_limit=9 * HOUR)
    victim = told.run("busy/one")
    large = told.admit("large/one")
    preemptor = told.admit("ml/half")
    where = place("n1", 1, units=GPU_UNITS // 2)
    order = f.PreemptionOrderedV1(
        preemption=f"{preemptor.key}@1",
        job=preemptor.key,
        pool="hall",
        cause="reclaim",
        victims=(Victim(job=victim.key, attempt=1, policy="default/busy", lost=0),),
        places=(where,),
        rule="R26",
    )
    told.append_facts(order, stopped(victim, "preempted", preemptor=preemptor.key), by="allocator")
    told.wait(10 * MINUTE)
    assert held(told.allocate()) == []
    told.end(leaves)

    facts = told.allocator.decide(told.now)

    assert held(facts) == [hold_placed(large, place("n1", 1))]
    assert held(Allocator(told.state).decide(told.now)) == held(facts)


def test_where_a_job_keeps_other_places_than_before_what_nothing_could_be_kept_for_is_looked_at_again():
    told = History(policy("ml"), policy("small", priority=-1), policy("firm", 1, priority=9), policy("busy", priority=9))
    told.node("n1", 1)
    leaves = told.run("busy/one")
    told.node("n2", 1)
    small = told.admit("small/half")
    told.allocate()
    told.end(small, outcome="refused")
    told.append_facts(
        f.JobRequeuedV1(job=small.key, attempt=1, cause="refused", avoid=("n2",), avoid_until=told.now + 9 * HOUR),
        by="allocator",
    )
    told.run("busy/one")
    large = told.admit("ml/one")
    told.wait(10 * MINUTE)
    assert held(told.allocate()) == [hold_placed(large, place("n1", 0))]
    told.end(leaves)
    told.admit("firm/half", preemptible=False)
    told.admit("busy/half")
    assert held(told.allocate()) == []

    facts = told.allocator.decide(told.now)

    half = place("n1", 0, units=GPU_UNITS // 2)
    gone = lifted(large, "a place of it has become unusable, or is held by what will not end")
    assert held(facts) == [gone, hold_placed(large, place("n2", 0)), hold_placed(small, half)]
    assert held(Allocator(told.state).decide(told.now)) == held(facts)
