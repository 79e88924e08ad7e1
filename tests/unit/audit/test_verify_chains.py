"""The chains alone, without a fold: what is missing, there twice, or does not name the record before it."""

from __future__ import annotations

import pytest

from headrace.audit.findings import AuditFindings
from headrace.audit.verify_chains import Chains, head_of
from tests.unit.audit.ledgers import of, record, rewritten


def looked_at(messages):
    """What is found, as (kind, first, last)."""
    findings = AuditFindings()
    chains = Chains(findings)
    for message in messages:
        chains.take(message)
    return [(finding.kind, finding.sequence, finding.through) for finding in findings.in_order()]


def test_what_services_wrote_holds(written):
    assert looked_at(written) == []


def test_a_head_is_what_the_record_says(written):
    expected = record(written[-1])
    head = head_of(written[-1].payload)
    assert (head.by, head.now, head.engine, head.as_of, head.prev) == (
        expected.by,
        expected.now,
        expected.engine,
        expected.as_of,
        expected.prev,
    )
    assert head_of(b"{}") is head_of(b"\xff") is head_of(b"[" * 10_000) is None


def test_a_hole_is_named_from_its_first_record_to_its_last(written):
    assert looked_at([*written[:4], *written[7:]]) == [("removed", 5, 7)]


def test_a_record_that_comes_again_is_told(written):
    assert looked_at([*written[:6], written[5], *written[6:]]) == [("repeated", 6, 6)]


@pytest.mark.parametrize("by", ["allocator", "admission"])
def test_a_changed_record_of_a_service_is_found_at_the_next_of_its_writer(written, by):
    first, second = of(written, by)[:2]
    changed = [*written[:first], rewritten(written[first], cause="x"), *written[first + 1 :]]
    assert looked_at(changed) == [("unchained", first + 1, second + 1)]


def test_one_that_was_taken_out_and_closed_up_is_found_at_the_next_of_its_writer(written):
    first, second, third = of(written, "allocator")[:3]
    rest = [message for place, message in enumerate(written) if place != second]
    closed = [message._replace(sequence=number) for number, message in enumerate(rest, 1)]
    assert ("unchained", first + 1, third) in looked_at(closed)


def test_the_first_of_a_writer_names_none(written):
    first, second = of(written, "allocator")[:2]
    without = [rewritten(written[second], prev="")]
    assert looked_at([*written[:second], *without, *written[second + 1 :]])[0] == ("unchained", second + 1, second + 1)
    gone = [message._replace(sequence=n) for n, message in enumerate([*written[:first], *written[first + 1 :]], 1)]
    assert ("unchained", second, second) in looked_at(gone)


def test_a_record_decided_before_its_writers_last_is_of_an_instance_that_was_deposed(written):
    _, second = of(written, "allocator")[:2]
    early = rewritten(written[second], as_of=1)
    assert ("unchained", second + 1, second + 1) in looked_at([*written[:second], early, *written[second + 1 :]])


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda message: message._replace(payload=b"{"), "changed"),
        (lambda message: rewritten(message, by="admission"), "void"),
        (lambda message: message._replace(subject="hr.ledger.stranger"), "void"),
        (lambda message: message._replace(subject="somewhere.else"), "void"),
    ],
)
def test_what_is_not_a_record_of_its_writer_is_told(written, change, kind):
    place = of(written, "allocator")[-1]
    assert looked_at([*written[:place], change(written[place])])[-1] == (kind, place + 1, place + 1)


def test_a_node_that_writes_nonsense_is_not_found_here_because_it_is_void_and_counted(written):
    place = (
        of(written, "node.n-1")[0]
        if of(written, "node.n-1")
        else next(place for place, message in enumerate(written) if ".node." in message.subject)
    )
    assert looked_at([*written[:place], written[place]._replace(payload=b"nonsense"), *written[place + 1 :]]) == []
