"""The whole look at a ledger, and what it reports."""

from __future__ import annotations

from headrace.audit.verify import Verifier
from headrace.contracts.audit import VerifyReport
from headrace.simulate.world import ENGINE
from tests.unit.audit.ledgers import of, record


def looked_at(messages, engine=ENGINE):
    verifier = Verifier(engine)
    verifier.take(messages)
    verifier.finish()
    return verifier.report()


def test_a_whole_ledger_is_reported_in_numbers(written):
    decided = [record(written[place]) for by in ("allocator", "preemption") for place in of(written, by)]
    assert looked_at(written) == VerifyReport(
        through=len(written),
        records=len(written),
        facts=sum(len(record(message).facts) for message in written),
        recomputed=len(decided),
        decision_facts=sum(len(each.facts) for each in decided),
        observed={by: len(of(written, by)) for by in ("admission", "governance")},
        folded=len(written),
    )


def test_without_an_engine_nothing_is_folded(written):
    assert looked_at(written, None) == VerifyReport(through=len(written), records=len(written))


def test_void_records_of_nodes_are_counted_by_node(written):
    place = next(place for place, message in enumerate(written) if ".node." in message.subject)
    node = written[place].subject.rpartition(".")[2]
    report = looked_at([*written[: place + 1], written[place]._replace(sequence=place + 2, payload=b"nonsense")])
    assert (report.voids, report.found) == ({node: 1}, 0)


def test_a_hole_is_told_once_and_why_decisions_stop(written):
    report = looked_at([*written[:5], *written[6:]])
    assert [(finding.kind, finding.sequence) for finding in report.findings][:1] == [("removed", 6)]
    assert (report.folded, report.stopped) == (5, "after sequence 5 comes 7: records are missing")
    assert "void" not in [finding.kind for finding in report.findings]


def test_more_may_be_taken_later(written):
    verifier = Verifier(ENGINE)
    for message in written:
        verifier.take([message])
        verifier.finish()
    assert verifier.report() == looked_at(written)
