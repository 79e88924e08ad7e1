"""Of what the stream has alone, only what obeys the law is kept, in the places that are left."""

from __future__ import annotations

import pytest

from headrace.bus.log import StoredMessage
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.supervisor.repair.stream_repair import StreamDamage, _lawful
from tests.unit.audit.ledgers import played


def stored(messages):
    return [StoredMessage(each.sequence, each.subject, each.stamped * 1_000, b"", each.payload) for each in messages]


@pytest.fixture(scope="module")
def written():
    """A ledger with two records that its allocator did not write, and the void one of a node, which the law allows."""
    messages = played("V02")
    place = next(place for place, message in enumerate(messages) if ".node." in message.subject)
    forged = messages[0]._replace(subject="hr.ledger.allocator", payload=b"{}")
    more = [forged, messages[place], forged, messages[place]._replace(payload=b"nonsense")]
    return [each._replace(sequence=number) for number, each in enumerate([*messages, *more], 1)], len(messages)


def lawful(written, vouched):
    return _lawful(FoldedLedger(), StreamDamage(0, stored(written), vouched, [], frozenset()))


def test_what_breaks_the_law_goes_and_what_is_behind_it_moves_up(written):
    messages, honest = written
    kept, void = lawful(messages, honest)
    assert list(void) == [honest + 1, honest + 3]
    assert [why.partition(":")[0] for why in void.values()] == [
        f"record {honest + number} on hr.ledger.allocator is void" for number in (1, 3)
    ]
    assert kept[:honest] == stored(messages[:honest])
    assert [(each.sequence, each.payload) for each in kept[honest:]] == [
        (honest + 1, messages[honest + 1].payload),
        (honest + 2, b"nonsense"),
    ]


def test_what_another_party_vouches_for_does_not_matter_for_us(written):
    messages, honest = written
    with pytest.raises(LedgerBroken, match=f"^record {honest + 1} on hr.ledger.allocator is void"):
        lawful(messages, honest + 1)


def test_a_whole_ledger_stays_as_it_is(written):
    messages, honest = written
    assert lawful(messages[:honest], 0) == (stored(messages[:honest]), {})
