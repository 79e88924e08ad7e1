"""The whole look at a ledger, and what it reports."""

from __future__ import annotations

import pytest
from msgspec import structs

from headrace.audit.verify import LedgerVerifier
from headrace.contracts.messages.audit import VerifyReport
from headrace.contracts.transport.codec import encode
from headrace.simulate.virtual_system import ENGINE
from tests.unit.audit.ledgers import of, rechained, record
from tests.unit.audit.seals_made import seals_over


def looked_at(messages, engine=ENGINE):
    verifier = LedgerVerifier(engine)
    verifier.take(messages)
    verifier.finish()
    return verifier.report()


def test_a_whole_ledger_is_reported_in_numbers(written):
    judged = [record(written[place]) for place in of(written, "admission")]
    decided = [record(written[place]) for by in ("allocator", "preemption") for place in of(written, by)] + judged
    assert looked_at(written) == VerifyReport(
        through=len(written),
        records=len(written),
        facts=sum(len(record(message).facts) for message in written),
        recomputed=len(decided),
        decision_facts=sum(len(each.facts) for each in decided),
        judged=sum(len(each.facts) for each in judged),
        observed={"governance": len(of(written, "governance"))},
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
    verifier = LedgerVerifier(ENGINE)
    for message in written:
        verifier.take([message])
        verifier.finish()
    assert verifier.report() == looked_at(written)


# ---- whatever is done to a stored record is found, and where ----

SIZE = 5


@pytest.fixture(scope="module")
def guarded(written):
    """A ledger that is sealed to its end, and its seals."""
    messages = written[: len(written) // SIZE * SIZE]
    return messages, seals_over(messages, SIZE)


def places_found(messages, seals):
    """(first, last) of everything found against seals that were kept apart; nothing is decided again."""
    verifier = LedgerVerifier(None, kept=seals)
    verifier.take(messages)
    verifier.finish()
    return [(finding.sequence, finding.through) for finding in verifier.report().findings]


def covers(found, sequence):
    return any(first <= sequence <= last for first, last in found)


@pytest.mark.parametrize("by", ["governance", "admission", "allocator", "preemption", "node.n"])
def test_every_byte_of_a_record_that_is_flipped_is_found_in_that_record(guarded, by):
    messages, seals = guarded
    place = of(messages, by)[-1]
    message = messages[place]
    missed = []
    for at in range(len(message.payload)):
        payload = bytearray(message.payload)
        payload[at] ^= 1 << (at % 8)
        found = places_found([*messages[:place], message._replace(payload=bytes(payload)), *messages[place + 1 :]], seals)
        if (place + 1, place + 1) not in found:
            missed.append(at)
    assert missed == []


@pytest.mark.parametrize(
    "changes",
    [
        {"by": "preemption"},
        {"now": 1},
        {"engine": "x"},
        {"as_of": 0},
        {"cause": "x"},
        {"trace": "x"},
        {"facts": ()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_changed_field_of_any_record_is_found_though_all_chains_were_made_to_hold_again(guarded, changes):
    messages, seals = guarded
    for place in range(len(messages)):
        other = messages[place]._replace(payload=encode(structs.replace(record(messages[place]), **changes)))
        if other.payload == messages[place].payload:
            continue
        found = places_found(rechained([*messages[:place], other, *messages[place + 1 :]]), seals)
        assert found[0] == (place + 1, place + 1), place


def test_another_subject_or_time_of_any_record_is_found(guarded):
    messages, seals = guarded
    for place, message in enumerate(messages):
        for other in (message._replace(subject="hr.ledger.node.other"), message._replace(stamped=message.stamped + 1)):
            assert (place + 1, place + 1) in places_found([*messages[:place], other, *messages[place + 1 :]], seals)


@pytest.mark.parametrize("again", [rechained, list], ids=["closed up and chained again", "as it is"])
def test_a_record_that_is_taken_out_put_in_repeated_or_exchanged_is_found_where_it_was_done(guarded, again):
    messages, seals = guarded
    for place in range(1, len(messages) - 1):
        done = {
            "out": [*messages[:place], *messages[place + 1 :]],
            "in": [*messages[:place], messages[place]._replace(payload=messages[0].payload), *messages[place:]],
            "twice": [*messages[:place], messages[place], *messages[place:]],
            "exchanged": [*messages[:place], messages[place + 1], messages[place], *messages[place + 2 :]],
        }
        for name, harmed in done.items():
            found = places_found(again(harmed), seals)
            assert covers(found, place + 1) or covers(found, place + 2), (name, place)


def test_an_end_that_is_cut_off_is_found_wherever_it_is_cut(guarded):
    messages, seals = guarded
    for left in range(len(messages)):
        assert places_found(messages[:left], seals) == [(left + 1, len(messages))]


def test_without_seals_the_chains_find_what_is_done_to_a_record_of_a_service_that_is_not_its_last(written):
    for by in ("governance", "admission", "allocator", "preemption"):
        for place in of(written, by)[:-1]:
            payload = bytearray(written[place].payload)
            payload[-2] ^= 1
            harmed = [*written[:place], written[place]._replace(payload=bytes(payload)), *written[place + 1 :]]
            assert covers(places_found(harmed, ()), place + 1)
