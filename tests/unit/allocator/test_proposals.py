from __future__ import annotations

import msgspec
import pytest

from headrace.allocator.proposals import end_nominations, judge_proposals, nomination_end
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.facts.fact import Place
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.domain.fold.record_size import RecordCapacity
from headrace.domain.model.jobs import JobRecord
from headrace.preemption.decide import PreemptionWatch
from tests.unit.allocator.history import History, place, policy, profile, stopped, terms


def judged(history: History, capacity: RecordCapacity | None = None) -> list[object]:
    return list(judge_proposals(history.state, history.now, capacity or RecordCapacity()))


def reclaims(**more: object) -> tuple[History, JobRecord, JobRecord]:
    """`other` has borrowed the only GPU, and `ml`, which has it reserved, searches; told, victim, preemptor."""
    history = History(policy("ml", 1), policy("other", **more))
    history.node("n1", 1)
    victim = history.run("other/one")
    preemptor = history.admit("ml/one")
    history.allocate()
    assert history.state.pools["hall"].search.job is preemptor
    return history, victim, preemptor


def propose(history: History) -> f.PreemptionProposedV1:
    """What preemption answers now."""
    (answer,) = PreemptionWatch(history.state).decide(history.now)
    history.append_facts(answer, by="preemption")
    return answer


def ordered(answer: f.PreemptionProposedV1, places: tuple[Place, ...]) -> f.PreemptionOrderedV1:
    return f.PreemptionOrderedV1(
        preemption=answer.preemption,
        job=answer.job,
        pool="hall",
        cause=answer.cause,
        victims=answer.victims,
        places=places,
        rule="R26",
    )


def dismissed(history: History, why: str) -> f.PreemptionDismissedV1:
    search = history.state.pools["hall"].search
    return f.PreemptionDismissedV1(preemption=search.id, job=search.job.key, pool="hall", why=why)


def order(history: History) -> None:
    """The proposal becomes law."""
    propose(history)
    history.append_facts(*judged(history), by="allocator")


def test_a_proposal_becomes_an_order_with_the_stops_of_all_victims():
    history, victim, preemptor = reclaims()

    answer = propose(history)

    assert answer.victims == (Victim(job=victim.key, attempt=1, policy="default/other", lost=0),)
    assert judged(history) == [
        ordered(answer, (place("n1", 0),)),
        stopped(victim, "preempted", preemptor=preemptor.key),
    ]


@pytest.mark.parametrize(("cpu", "then"), [(64, "suspend"), (1, "requeue")])
def test_a_victim_is_suspended_unless_it_has_to_give_more_than_its_devices(cpu, then):
    """R29: the node has two CPUs' worth of room for both, or for one of them only."""
    history = History(
        policy("ml", 1),
        policy("other", preemption=terms(on_preempt="suspend")),
        profiles=tuple(
            profile(name, request={GPU: GPU_UNITS, CPU: CPU_UNITS}) for name in ("one", "two", "three", "half", "gang", "cpu")
        ),
    )
    history.node("n1", 1, cpu=cpu)
    victim = history.run("other/one")
    preemptor = history.admit("ml/one")
    history.allocate()
    propose(history)

    assert judged(history)[1] == stopped(victim, "preempted", then, preemptor=preemptor.key)


def test_while_the_answer_is_awaited_nothing_is_said():
    history, _, _ = reclaims()
    history.wait(2 * SECOND - 1)

    assert judged(history) == []


def test_a_search_without_an_answer_is_dismissed_after_two_seconds():
    history, _, _ = reclaims()
    history.wait(2 * SECOND)

    assert judged(history) == [dismissed(history, "no answer within 2 s")]


def test_a_search_for_a_job_that_waits_no_longer_is_dismissed():
    history, _, preemptor = reclaims()
    ended = f.JobEndedV1(job=preemptor.key, attempt=0, state="cancelled", cause="cancelled")
    history.append_facts(ended, by="allocator")

    assert judged(history) == [dismissed(history, "the preemptor waits no longer")]


def victim_ends(history: History, victim: JobRecord, _: JobRecord) -> None:
    history.end(victim)


def victim_is_stopped(history: History, victim: JobRecord, _: JobRecord) -> None:
    history.stop(victim, "cancelled", then="cancel")


def victim_is_protected(history: History, _victim: JobRecord, _: JobRecord) -> None:
    history.law(d.Documents(policies=(policy("other", preemption=terms(min_runtime=MINUTE)),)))


def victims_policy_reserves(history: History, _victim: JobRecord, _: JobRecord) -> None:
    history.law(d.Documents(policies=(policy("other", 1),)))


def preemptor_loses_its_reservation(history: History, _victim: JobRecord, _: JobRecord) -> None:
    history.law(d.Documents(policies=(policy("ml", 0),)))


def preemptor_is_limited(history: History, _victim: JobRecord, _: JobRecord) -> None:
    history.law(d.Documents(policies=(policy("ml", 1, limit={"gpu": 0}),)))


def preemptor_ends(history: History, _victim: JobRecord, preemptor: JobRecord) -> None:
    ended = f.JobEndedV1(job=preemptor.key, attempt=0, state="cancelled", cause="cancelled")
    history.append_facts(ended, by="allocator")


def node_is_cordoned(history: History, _victim: JobRecord, _: JobRecord) -> None:
    history.append_facts(f.NodeCordonedV1(author="default.admin", node="n1"))


def node_is_lost(history: History, _victim: JobRecord, _: JobRecord) -> None:
    history.append_facts(f.NodeLostV1(node="n1", silent_for=MINUTE), by="preemption")


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (victim_ends, "{victim} is no longer there to yield"),
        (victim_is_stopped, "{victim} is no longer there to yield"),
        (victim_is_protected, "{victim} is protected by its minimum run time"),
        (victims_policy_reserves, "it is no longer legal"),
        (preemptor_loses_its_reservation, "the preemptor may no longer take anything back"),
        (preemptor_is_limited, "the preemptor is at its limit"),
        (preemptor_ends, "the preemptor waits no longer"),
        (node_is_cordoned, "it is no longer sufficient"),
        (node_is_lost, "a node of {victim} is away"),
    ],
)
def test_a_plan_is_looked_at_again_before_it_is_carried_out(event, why):
    history, victim, preemptor = reclaims()
    propose(history)

    event(history, victim, preemptor)

    assert judged(history) == [dismissed(history, why.format(victim=victim.key))]


def test_after_an_order_no_other_proposal_is_judged_in_the_same_record():
    history = History(
        policy("ml", 2),
        policy("other"),
        pools=(d.Pool(name="east", selector={"site": "east"}), d.Pool(name="west", selector={"site": "west"})),
        profiles=(
            d.Profile(name="one", request={"gpu": 126_000}, pools=("west",)),
            d.Profile(name="two", request={"gpu": 126_000}, pools=("east",)),
        ),
    )
    history.node("w1", 1, site="west")
    history.node("e1", 1, site="east")
    victims = [history.run("other/one"), history.run("other/two")]
    for name in ("one", "two"):
        history.admit(f"ml/{name}")
    history.allocate()
    proposed = PreemptionWatch(history.state).decide(history.now)
    history.append_facts(*proposed, by="preemption")
    assert [answer.pool for answer in proposed] == ["east", "west"]

    facts = judged(history)
    assert [type(fact) for fact in facts] == [f.PreemptionOrderedV1, f.StopOrderedV1]
    assert (facts[0].pool, facts[1].job) == ("east", victims[1].key)
    history.append_facts(*facts, by="allocator")

    assert [fact.pool for fact in judged(history)[:1]] == ["west"]


def test_of_two_plans_for_the_rest_of_one_reservation_the_second_is_dropped_although_it_takes_by_priority():
    """R13, R17: neither job could be taken back, and what is kept for the first uses up the reservation in every pool."""
    history = History(
        policy("ml", 1, priority=2, preemption=terms(preempt_lower_priority=True)),
        policy("low", priority=1),
        pools=(d.Pool(name="east", selector={"site": "east"}), d.Pool(name="west", selector={"site": "west"})),
        profiles=(profile("one", pools=("west",)), profile("two", pools=("east",))),
    )
    history.node("w1", 2, site="west")
    history.node("e1", 1, site="east")
    for queue in ("ml/one", "low/one", "low/two"):
        history.run(queue)
    for name in ("one", "two"):
        history.admit(f"ml/{name}", preemptible=False)
    history.allocate()
    proposed = PreemptionWatch(history.state).decide(history.now)
    history.append_facts(*proposed, by="preemption")
    assert [(answer.pool, answer.cause) for answer in proposed] == [("east", "priority"), ("west", "priority")]

    history.append_facts(*judged(history), by="allocator")

    (dropped,) = judged(history)
    assert (dropped.pool, dropped.why) == ("west", "the preemptor may no longer take anything back")


def test_a_plan_that_does_not_fit_this_record_waits_and_one_that_fits_none_is_dismissed():
    history, _, _ = reclaims()
    propose(history)
    begun = RecordCapacity(facts=2)
    begun.takes((dismissed(history, "another"),))

    assert judged(history, begun) == []
    assert judged(history, RecordCapacity(size=400)) == [dismissed(history, "it is too large for one record")]


def test_an_order_with_too_many_stops_for_one_record_carries_the_ladders_and_says_the_same():
    history, victim, preemptor = reclaims()
    propose(history)
    order, stop = judged(history)

    (short,) = judged(history, RecordCapacity(facts=1))

    assert short == msgspec.structs.replace(order, ladders=(stop.ladder,))
    assert [fact for _, fact in with_implied_facts([short])] == [short, stop]
    history.append_facts(short, by="allocator")
    assert (victim.state, victim.stop, victim.yields_to, preemptor.nomination.id) == (
        "stopping",
        stop.ladder,
        order.preemption,
        order.preemption,
    )


def test_a_nomination_does_not_run_out_while_victims_leave_in_time():
    history, _, preemptor = reclaims()
    order(history)
    history.wait(10 * MINUTE)

    assert (nomination_end(history.state, preemptor.nomination), list(end_nominations(history.state, history.now))) == (
        None,
        [],
    )


def ended(preemptor: JobRecord, why: str) -> f.NominationEndedV1:
    return f.NominationEndedV1(preemption=preemptor.nomination.id, job=preemptor.key, why=why)


def test_a_nomination_ends_when_the_preemptor_has_not_started_in_time_after_the_last_victim_left():
    history, victim, preemptor = reclaims()
    order(history)
    history.wait(MINUTE)
    history.end(victim, 143)
    left_at = history.now
    assert nomination_end(history.state, preemptor.nomination) == left_at + 5 * MINUTE

    history.wait(5 * MINUTE - 1)
    assert list(end_nominations(history.state, history.now)) == []
    history.wait(1)

    assert list(end_nominations(history.state, history.now)) == [ended(preemptor, "the preemptor did not start in time")]


def test_a_victim_that_is_overdue_is_waited_for_no_longer_than_one_that_has_left():
    history, victim, preemptor = reclaims()
    order(history)
    history.wait(2 * MINUTE)
    history.append_facts(f.LeaseOverdueV1(job=victim.key, attempt=1, node="n1"), by="preemption")
    assert nomination_end(history.state, preemptor.nomination) == history.now + 5 * MINUTE

    history.wait(5 * MINUTE)

    assert list(end_nominations(history.state, history.now)) == [ended(preemptor, "the preemptor did not start in time")]


@pytest.mark.parametrize("event", [node_is_cordoned, node_is_lost])
def test_a_nomination_ends_when_a_place_in_it_has_become_unusable(event):
    history, victim, preemptor = reclaims()
    order(history)

    event(history, victim, preemptor)

    assert list(end_nominations(history.state, history.now)) == [ended(preemptor, "a place in it has become unusable")]


def test_an_ended_nomination_is_not_ended_twice_and_its_job_stands_in_line_again():
    history, victim, preemptor = reclaims()
    order(history)
    node_is_cordoned(history, victim, preemptor)
    history.append_facts(*end_nominations(history.state, history.now), by="allocator")

    assert list(end_nominations(history.state, history.now)) == []
    assert (preemptor.nomination, history.state.pending.group_of(preemptor).head()) == (None, preemptor)


def test_a_plan_for_a_job_to_which_nothing_may_be_granted_any_more_is_dropped():
    history, _, _ = reclaims()
    propose(history)
    history.append_facts(f.ObjectClosedV1(author="a.b", kind="policy", tenant="default", name="ml", mode="freeze"))

    assert judged(history) == [dismissed(history, "nothing is granted there any more")]


def test_what_is_kept_for_a_job_to_which_nothing_may_be_granted_is_given_back():
    history, _, _ = reclaims()
    order(history)
    history.append_facts(f.ObjectClosedV1(author="a.b", kind="pool", name="hall", mode="drain"))

    (ended,) = end_nominations(history.state, history.now)
    assert ended.why == "nothing is granted there any more"
