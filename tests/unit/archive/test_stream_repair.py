"""The right record is the one that a source vouches for; where two sources differ, a person has to look."""

from __future__ import annotations

import pytest

from headrace.archive.nats_blocks import StoredRecord
from headrace.archive.stream_repair import Choice, CopiedRecord, choose, describe
from headrace.bus.log import LogBroken, StoredMessage
from headrace.contracts.facts.records import digest

RIGHT = StoredMessage(7, "hr.ledger.allocator", 1_234_567, b"h", b"right")
WRONG = RIGHT._replace(payload=b"wrong")
COPY = CopiedRecord(7, RIGHT.subject, 1_234, digest(b"right"), b"right")
BAD_COPY = COPY._replace(payload=b"r1ght")
MADE = RIGHT._replace(time=1_234_000, headers=b"")
MISSING, OTHER = "is missing or cannot be read", "is another one, by its payload"


@pytest.mark.parametrize(
    ("there", "copied", "archived", "vouched", "expected"),
    [
        (RIGHT, COPY, None, False, Choice(RIGHT, "")),
        (RIGHT, COPY, RIGHT, False, Choice(RIGHT, "")),
        (WRONG, COPY, None, True, Choice(MADE, "is another one, by its time and headers and payload")),
        (WRONG, COPY, RIGHT, True, Choice(RIGHT, OTHER)),
        (WRONG, None, RIGHT, True, Choice(RIGHT, OTHER)),
        (None, COPY, None, True, Choice(MADE, MISSING)),
        (None, BAD_COPY, RIGHT, True, Choice(RIGHT, MISSING)),
        (RIGHT, BAD_COPY, None, True, Choice(RIGHT, "")),
        (RIGHT, None, None, True, Choice(RIGHT, "")),
        (RIGHT, None, None, False, None),
        (WRONG, BAD_COPY, None, False, None),
        (None, None, None, True, None),
    ],
)
def test_the_right_record_is_chosen(there, copied, archived, vouched, expected):
    placed = None if there is None else StoredRecord(there, b"")
    assert choose(7, placed, copied, archived, lambda _: vouched) == expected


def test_where_two_vouch_for_different_records_nothing_is_guessed():
    with pytest.raises(LogBroken, match="record 7 is another one in the archive than in the copy, and both say it is whole"):
        choose(7, StoredRecord(RIGHT, b""), COPY, WRONG, lambda _: True)


def test_troubles_are_told_in_runs():
    assert describe({4: MISSING, 5: MISSING, 6: OTHER, 9: OTHER}) == [
        "records 4 to 5: each is missing or cannot be read",
        "record 6 is another one, by its payload",
        "record 9 is another one, by its payload",
    ]
    assert describe({}) == []
