"""Findings: each place once, in order, and of very many the first."""

from __future__ import annotations

from headrace.audit.findings import KEPT, AuditFindings, at, gone_records


def test_the_same_place_is_told_once_however_it_is_found():
    findings = AuditFindings()
    findings.add(at("removed", 3, "it is missing", 5))
    findings.add(at("removed", 3, "it is not there", 5))
    assert (findings.count, [finding.text for finding in findings.in_order()]) == (1, ["it is missing"])


def test_they_are_told_by_place():
    findings = AuditFindings()
    for sequence in (9, 2, 4):
        findings.add(at("void", sequence, "x"))
    assert [finding.sequence for finding in findings.in_order()] == [2, 4, 9]


def test_of_very_many_the_first_are_kept_and_all_are_counted():
    findings = AuditFindings()
    for sequence in range(1, KEPT + 11):
        findings.add(at("void", sequence, "x"))
    assert (findings.count, len(findings.in_order())) == (KEPT + 10, KEPT)


def test_a_record_is_touched_by_what_was_found_about_it_or_before_it():
    findings = AuditFindings()
    findings.add(at("removed", 3, "x", 5))
    assert [sequence for sequence in range(9) if findings.touches(sequence)] == [3, 4, 5, 6]


def test_another_decision_is_not_damage():
    findings = AuditFindings()
    findings.add(at("decision", 3, "x"))
    findings.add(at("void", 4, "x"))
    assert (findings.count, findings.damages) == (2, 1)


def test_what_is_gone_behind_what_is_gone_is_told_at_once():
    findings = AuditFindings()
    for first, last in ((3, 4), (5, 5), (7, 9)):
        findings.add(gone_records(first, last))
    assert [finding.text for finding in findings.in_order()] == [
        "records 3 to 5, which were sealed, are gone",
        "records 7 to 9, which were sealed, are gone",
    ]
    assert findings.count == 2
