"""Decisions made again on the prefix they were made on."""

from __future__ import annotations

import pytest
from msgspec import structs

from headrace.allocator.decide import Allocator
from headrace.audit import verify_decisions
from headrace.audit.findings import AuditFindings
from headrace.audit.verify_chains import head_of
from headrace.audit.verify_decisions import Decisions
from headrace.contracts import facts as f
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.simulate.virtual_system import ENGINE
from tests.unit.audit.ledgers import SCENARIOS, of, played, rechained, record, rewritten

DECIDING = ("allocator", "preemption", "admission")


class Reviewed(Decisions):
    """Decisions, and what was found."""

    def __init__(self, engine):
        self.findings = AuditFindings()
        super().__init__(engine, self.findings)


def made_again(messages, engine=ENGINE):
    """The decisions, when all has been read."""
    decisions = Reviewed(engine)
    for message in messages:
        decisions.take(message, head_of(message.payload))
    decisions.finish()
    return decisions


def found(decisions):
    return [(finding.kind, finding.sequence) for finding in decisions.findings.in_order()]


@pytest.mark.parametrize("name", sorted(path.stem for path in SCENARIOS.glob("*.yaml")))
def test_the_deciders_decide_the_same_on_every_scenario(name):
    messages = played(name)
    decisions = made_again(messages)
    stated = [record(message) for message in messages if message.subject.removeprefix("hr.ledger.") in DECIDING]
    assert (found(decisions), decisions.broken, decisions.recomputed) == ([], "", len(stated))
    assert decisions.decision_facts + decisions.unverifiable.total() == sum(len(each.facts) for each in stated)
    verdicts = sum(len(each.facts) for each in stated if each.by == "admission")
    assert decisions.judged + decisions.unverifiable.total() == verdicts
    assert decisions.folded == len(messages)


def test_another_choice_is_shown_with_what_would_have_been_chosen(written):
    place = next(
        at for at in of(written, "allocator") if any(isinstance(x, f.LeaseGrantedV1) for x in record(written[at]).facts)
    )
    granted = record(written[place])
    other = tuple(structs.replace(fact, rule="R2") if isinstance(fact, f.LeaseGrantedV1) else fact for fact in granted.facts)
    decisions = made_again(rechained([*written[:place], rewritten(written[place], facts=other), *written[place + 1 :]]))
    first = decisions.findings.in_order()[0]
    assert (first.kind, first.sequence) == ("decision", place + 1)
    assert [fact["rule"] for fact in first.recorded] == ["R2"] * len(first.recorded) != []
    assert [fact["type"] for fact in first.computed] == ["lease.granted.v1"] * len(first.recorded)
    assert "R2" not in str(first.computed)


def test_a_decision_that_was_left_out_is_found(written):
    place = next(at for at in of(written, "allocator") if len(record(written[at]).facts) > 1)
    fewer = rewritten(written[place], facts=record(written[place]).facts[:-1])
    decisions = made_again(rechained([*written[:place], fewer, *written[place + 1 :]]))
    first = decisions.findings.in_order()[0]
    assert (first.sequence, first.recorded, len(first.computed)) == (place + 1, (), 1)


def test_the_order_of_facts_in_a_round_does_not_matter(written):
    place = next(at for at in of(written, "allocator") if len(record(written[at]).facts) > 1)
    turned = rewritten(written[place], facts=record(written[place]).facts[::-1])
    messages = rechained([*written[:place], turned])
    assert found(made_again(messages)) == []


def test_other_software_is_counted_and_not_judged(written):
    decisions = made_again(written, "headrace/99")
    decided = sum(len(of(written, by)) for by in DECIDING)
    assert (decisions.recomputed, dict(decisions.others), found(decisions)) == (0, {ENGINE: decided}, [])


def test_what_people_submitted_is_counted_by_who_took_it_down(written):
    assert made_again(written).observed == {"governance": len(of(written, "governance"))}


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        (lambda fact: structs.replace(fact, request={"gpu": 99 * GPU_UNITS}), "would be rejected: BEYOND_PROFILE"),
        (lambda fact: structs.replace(fact, policy="none"), "would be rejected: UNKNOWN_QUEUE"),
        (lambda fact: structs.replace(fact, replicas=2), "its replicas would be otherwise"),
        (
            lambda fact: f.JobRejectedV1(
                job=fact.job, policy=fact.policy, profile=fact.profile, reason="UNKNOWN_TENANT", message="there is no tenant"
            ),
            "is rejected with UNKNOWN_TENANT, and would not be for that",
        ),
    ],
)
def test_a_forged_verdict_of_admission_is_found_and_located(written, forged, why):
    place = of(written, "admission")[1]
    honest = record(written[place]).facts
    facts = tuple(forged(fact) if isinstance(fact, f.JobAdmittedV1) else fact for fact in honest)
    messages = rechained([*written[:place], rewritten(written[place], facts=facts), *written[place + 1 :]])
    first = made_again(messages).findings.in_order()[0]
    assert (first.kind, first.sequence, first.through) == ("decision", place + 1, place + 1)
    assert why in first.text
    assert first.recorded[0]["job"] == next(fact.job for fact in honest if isinstance(fact, f.JobAdmittedV1))


def test_a_lost_node_is_an_observation(written):
    place = of(written, "preemption")[0]
    with_one = rewritten(written[place], facts=(*record(written[place]).facts, f.NodeLostV1(node="n", silent_for=1)))
    assert found(made_again(rechained([*written[:place], with_one]))) == []


def test_decisions_stop_where_there_is_no_prefix_to_stand_on(written):
    decisions = made_again([*written[:5], *written[6:]])
    assert (decisions.folded, found(decisions)) == (5, [("void", 7)])
    assert decisions.broken == "after sequence 5 comes 7: records are missing"


def test_a_decision_on_a_prefix_that_is_long_gone_is_counted_and_not_judged(written, monkeypatch):
    monkeypatch.setattr(verify_decisions, "AHEAD", 2)
    place = of(written, "allocator")[2]
    before = sum(at < place for by in DECIDING for at in of(written, by))
    late = rewritten(written[place], as_of=1)
    decisions = made_again([*written[:place], late])
    assert (found(decisions), decisions.late, decisions.recomputed) == ([], 1, before)


def test_what_was_stored_long_enough_ago_is_folded_without_waiting_for_more(written):
    decisions = Decisions(ENGINE, AuditFindings())
    for message in written:
        decisions.take(message, head_of(message.payload))
    assert decisions.folded == 0
    last = next(message.sequence for message in written if message.stamped == written[-1].stamped) - 1
    assert (decisions.fold_before(written[-1].stamped, 3), decisions.folded) == (True, 3)
    assert (decisions.fold_before(written[-1].stamped, last), decisions.folded) == (False, last)


class Forgetful(Allocator):
    """Remembers something that is not so: at its second look it decides nothing."""

    looks = 0

    def decide(self, now):
        self.looks += 1
        return () if self.looks > 1 else super().decide(now)


def test_where_a_memo_is_stale_one_that_remembers_nothing_decides(written, monkeypatch):
    monkeypatch.setitem(verify_decisions.DECIDERS, "allocator", Forgetful)
    decisions = made_again(written)
    assert (found(decisions), decisions.recomputed > 2) == ([], True)


def test_a_later_decision_of_another_service_on_fewer_records_ends_no_back_off():
    messages = played("R36_a_start_that_never_came_is_not_charged")
    last = messages[-1]
    late = [
        rewritten(last, by="preemption", as_of=sequence, facts=())._replace(subject="hr.ledger.preemption")
        for sequence in range(1, len(messages))
    ]
    decisions = made_again(rechained([*messages, *late]))
    assert [sequence for _, sequence in found(decisions) if sequence <= len(messages)] == []
    assert decisions.recomputed == len(late) + sum(len(of(messages, by)) for by in DECIDING)
