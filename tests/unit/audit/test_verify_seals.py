"""A ledger held against its seals, as they come in it and as they were kept apart."""

from __future__ import annotations

import pytest
from msgspec import structs

from headrace.audit import sequence_diff, verify_seals
from headrace.audit.findings import AuditFindings
from headrace.audit.verify_seals import Seals
from tests.unit.audit.seals_made import KEY, OTHER, marks, seals_over

SIZE = 4


@pytest.fixture(autouse=True)
def near(monkeypatch):
    """It looks a few records ahead, so that small ledgers show what large ones do."""
    monkeypatch.setattr(sequence_diff, "SEARCH_WINDOW", 6)
    monkeypatch.setattr(verify_seals, "SEARCH_WINDOW", 6)


def held(messages, *, kept=(), in_ledger=(), key="", tail=()):
    """After all messages; `in_ledger`: seals that come in the ledger, each right behind what it covers, as (seal, in which record)."""
    findings = AuditFindings()
    seals = Seals(findings, kept=kept, key=key, tail=tail)
    for message in messages:
        seals.take(message)
        for seal in in_ledger:
            if message.sequence == seal.last + 1:
                seals.note(seal, message.sequence)
    seals.finish()
    return seals, [(finding.kind, finding.sequence, finding.through) for finding in findings.in_order()], findings


def closed(messages):
    """Numbered anew, as in a stream that was written again."""
    return [message._replace(sequence=number) for number, message in enumerate(messages, 1)]


def test_a_ledger_holds_under_seals_kept_apart_and_under_its_own(written):
    made = seals_over(written, SIZE)
    for how in ({"kept": made}, {"in_ledger": made}, {"kept": made[:2], "in_ledger": made}, {"kept": made, "in_ledger": made}):
        seals, found, _ = held(written, key=KEY.public, **how)
        believed = [seal for seal in made if seal.last < len(written)] if "kept" not in how else made
        assert (found, seals.held, seals.through) == ([], len(believed), believed[-1].last)


def test_the_first_key_holds_where_none_is_known(written):
    made = seals_over(written, SIZE)
    others = [*made[:1], *seals_over(written, SIZE, OTHER)[1:2]]
    seals, found, findings = held(written, in_ledger=others)
    assert (found, seals.key) == ([("seal", 9, 9)], KEY.public)
    assert findings.in_order()[0].text == f"seal 2 in record 9 is invalid: it was made with another key, {OTHER.public}"


@pytest.mark.parametrize("where", ["kept", "in_ledger"])
@pytest.mark.parametrize("place", range(12))
def test_a_changed_record_is_named(written, place, where):
    made = seals_over(written, SIZE)
    for change in ({"payload": b"x"}, {"subject": "hr.ledger.node.x"}):
        messages = [*written[:place], written[place]._replace(**change), *written[place + 1 :]]
        assert held(messages, **{where: made})[1] == [("changed", place + 1, place + 1)]
    messages = [*written[:place], written[place]._replace(stamped=1), *written[place + 1 :]]
    assert held(messages, **{where: made})[1] == [("restamped", place + 1, place + 1)]


@pytest.mark.parametrize("number", [closed, list])
@pytest.mark.parametrize("place", range(12))
def test_a_record_that_is_gone_is_named_whether_or_not_the_gap_was_closed(written, place, number):
    made = seals_over(written, SIZE)
    messages = number([*written[:place], *written[place + 1 :]])
    assert held(messages, kept=made[:-1])[1] == [("removed", place + 1, place + 1)]


@pytest.mark.parametrize("place", range(12))
def test_records_that_are_new_or_there_twice_or_exchanged_are_named(written, place):
    made = seals_over(written, SIZE)[:-1]
    new = written[place]._replace(payload=b"new")
    assert held(closed([*written[:place], new, *written[place:]]), kept=made)[1] == [("inserted", place + 1, place + 1)]
    twice = closed([*written[: place + 1], written[place], *written[place + 1 :]])
    assert held(twice, kept=made)[1] == [("repeated", place + 2, place + 2)]
    turned = closed([*written[:place], written[place + 1], written[place], *written[place + 2 :]])
    found = held(turned, kept=made)[1]
    is_across = (place + 1) % SIZE == 0  # of two stretches: the one lacks a record, and the other has it too often
    assert sorted(kind for kind, _, _ in found) == (["removed", "repeated"] if is_across else ["moved"])
    assert {sequence for _, sequence, _ in found} <= {place + 1, place + 2}


def test_an_end_that_is_gone_is_known_to_who_has_the_seals(written):
    made = seals_over(written, SIZE)
    last = made[-1].last
    assert held(written[: last - 6], kept=made)[1] == [("removed", last - 5, last)]
    assert held(written[:2], in_ledger=made)[1] == []


def test_what_is_not_sealed_yet_is_held_by_the_tail(written):
    made = seals_over(written, SIZE)[:2]
    tail = marks(written[8:12])
    assert held(written, kept=made, tail=tail)[1] == []
    assert held(written[:10], kept=made, tail=tail)[1] == [("removed", 11, 12)]
    messages = [*written[:9], written[9]._replace(payload=b"x"), *written[10:]]
    assert held(messages, kept=made, tail=tail)[1] == [("changed", 10, 10)]


def test_a_seal_of_the_ledger_that_is_not_the_one_kept_apart_is_told(written):
    made = seals_over(written, SIZE)
    other = structs.replace(made[1], contents="00")
    _, found, findings = held(written, kept=made, in_ledger=[made[0], other])
    assert found == [("seal", other.last + 1, other.last + 1)]
    assert findings.in_order()[0].text == "seal 2 in record 9 is not the one that was kept apart"


def test_a_seal_that_is_missing_leaves_its_records_unlooked_at_and_those_behind_it_held(written):
    made = seals_over(written, SIZE)
    messages = [
        *written[:5],
        written[5]._replace(payload=b"x"),
        *written[6:13],
        written[13]._replace(payload=b"x"),
        *written[14:],
    ]
    _, found, findings = held(messages, in_ledger=[made[0], *made[2:]])
    assert found == [("seal", 13, 13), ("changed", 14, 14)]
    assert "nothing holds the records 5 to 8" in findings.in_order()[0].text


def test_a_seal_that_comes_again_or_names_another_is_told(written):
    made = seals_over(written, SIZE)
    strange = seals_over([written[0]._replace(payload=b"x"), *written[1:]], SIZE)
    _, found, _ = held(written, in_ledger=[made[0], strange[1]])
    assert found == [("seal", 9, 9)]
    findings = AuditFindings()
    seals = Seals(findings)
    for message in written[:9]:
        seals.take(message)
    seals.note(made[0], 9)
    seals.note(made[0], 10)
    assert [finding.text for finding in findings.in_order()] == ["seal 1 in record 10 is invalid: seal 2 comes next"]


def test_what_the_marks_do_not_show_is_told_of_the_whole_stretch(written, monkeypatch):
    """A mark is eight bytes of a digest: who finds another record with the same ones is still found by the whole digest."""
    made = seals_over(written, SIZE)
    monkeypatch.setattr(verify_seals.RecordRange, "contents", lambda *_: "00")
    assert held(written[:10], kept=made[:1])[1] == [("changed", 1, 4)]
