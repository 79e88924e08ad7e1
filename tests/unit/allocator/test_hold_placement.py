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
    history = History(*policies, policy("busy"), **more)
    history.node("n1", count)
    for _ in range(count):
        history.run("busy/one")
    return history


def test_where_everything_stays_nothing_is_kept():
    history = History(policy("ml"), policy("firm", 2))
    history.node("n1", 2)
    history.run("firm/one", preemptible=False)
    history.admit("ml/two")
    history.wait(20 * MINUTE)

    assert held(history.allocate()) == []


def test_in_one_pool_at_most_a_number_of_jobs_keep_something():
    names = tuple(f"p{number}" for number in range(HOLDS_MAX + 2))
    history = full(*(policy(name) for name in names))
    for name in names:
        history.admit(f"{name}/two")
    history.wait(10 * MINUTE)

    assert len(held(history.allocate())) == 1  # two devices are enough for one of them only


def test_units_are_kept_in_the_first_pool_of_the_order_where_there_are_any():
    pools = tuple(d.Pool(name=name, selector={"site": name}) for name in ("east", "west"))
    both = d.PolicyProfile(name="both")
    history = History(
        d.Policy(name="ml", profiles=(both,)),
        pools=pools,
        profiles=(profile("both", 2, pools=("west", "east")),),
    )
    history.node("w1", 2, site="west")
    history.node("e1", 2, site="east")
    for _ in range(2):
        history.run("ml/both")
    waiting = history.admit("ml/both")
    history.wait(10 * MINUTE)

    assert held(history.allocate()) == [hold_placed(waiting, place("w1", 0, 1), pool="west")]


def test_a_gang_keeps_places_on_several_nodes():
    history = History(policy("ml"), policy("busy"))
    history.node("n1", 1)
    history.node("n2", 1)
    history.run("busy/one")
    gang = history.admit("ml/gang")
    history.wait(10 * MINUTE)

    assert held(history.allocate()) == [hold_placed(gang, place("n2", 0), place("n1", 0, job=False))]


def test_who_has_waited_long_but_has_room_is_granted_and_keeps_nothing():
    history = History(policy("ml"), pools=(d.Pool(name="hall", selector=HALL.selector, backfill_for=SECOND),))
    job = history.admit("ml/one")
    history.wait(MINUTE)
    history.node("n1", 1)

    assert [type(fact) for fact in history.allocate()] == [f.LeaseGrantedV1]
    assert job.state == "starting"


def test_what_a_preemptor_lets_go_of_by_finding_room_elsewhere_can_be_kept_in_the_same_round():
    history = History(policy("ml", 2), policy("large", priority=-1), policy("firm", 1), policy("busy"))
    history.node("n1", 2)
    history.run("firm/half", preemptible=False)
    leaves = history.run("firm/half", time_limit=9 * HOUR)
    victim = history.run("busy/one")
    large = history.admit("large/one")
    preemptor = history.admit("ml/half")
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
    history.append_facts(order, stopped(victim, "preempted", preemptor=preemptor.key), by="allocator")
    history.wait(10 * MINUTE)
    assert held(history.allocate()) == []
    history.end(leaves)

    facts = history.allocator.decide(history.now)

    assert held(facts) == [hold_placed(large, place("n1", 1))]
    assert held(Allocator(history.state).decide(history.now)) == held(facts)


def test_where_a_job_keeps_other_places_than_before_what_nothing_could_be_kept_for_is_looked_at_again():
    history = History(policy("ml"), policy("small", priority=-1), policy("firm", 1, priority=9), policy("busy", priority=9))
    history.node("n1", 1)
    leaves = history.run("busy/one")
    history.node("n2", 1)
    small = history.admit("small/half")
    history.allocate()
    history.end(small, outcome="refused")
    history.append_facts(
        f.JobRequeuedV1(job=small.key, attempt=1, cause="refused", avoid=("n2",), avoid_until=history.now + 9 * HOUR),
        by="allocator",
    )
    history.run("busy/one")
    large = history.admit("ml/one")
    history.wait(10 * MINUTE)
    assert held(history.allocate()) == [hold_placed(large, place("n1", 0))]
    history.end(leaves)
    history.admit("firm/half", preemptible=False)
    history.admit("busy/half")
    assert held(history.allocate()) == []

    facts = history.allocator.decide(history.now)

    half = place("n1", 0, units=GPU_UNITS // 2)
    gone = lifted(large, "a place of it has become unusable, or is held by what will not end")
    assert held(facts) == [gone, hold_placed(large, place("n2", 0)), hold_placed(small, half)]
    assert held(Allocator(history.state).decide(history.now)) == held(facts)
