"""What is written into a file of the store is read from it, up to where it is damaged."""

from __future__ import annotations

from struct import pack

import pytest

from headrace.archive.nats_blocks import StreamBlock, read
from headrace.bus.log import StoredMessage

BLOCK = StreamBlock("LEDGER", 1)
RECORDS = [
    StoredMessage(1, "hr.ledger.allocator", 1_000, b"NATS/1.0\r\nA: b\r\n\r\n", b"one"),
    StoredMessage(2, "hr.ledger.node.gpu01", 2_000, b"", b""),
    StoredMessage(5, "hr.ledger.allocator", 3_000, b"", b"three" * 100),
]
DATA = b"".join(BLOCK.write(RECORDS))


def test_records_come_back_with_their_checks():
    placed, end = read(DATA)
    assert ([each.record for each in placed], end) == (RECORDS, len(DATA))
    assert [BLOCK.check(each.record) for each in placed] == [each.check for each in placed]
    assert [StreamBlock("LEDGER", 2).check(each.record) == each.check for each in placed] == [False] * 3


@pytest.mark.parametrize("cut", [1, 8, 40, len(DATA) - 1])
def test_a_file_that_was_cut_is_read_up_to_there(cut):
    placed, end = read(DATA[:-cut])
    assert [each.record for each in placed] == RECORDS[: len(placed)]
    assert end < len(DATA[:-cut]) or not DATA[:-cut]


@pytest.mark.parametrize("length", [0, 5, 2**31 - 1, 200])
def test_a_length_that_makes_no_sense_ends_it(length):
    first = next(iter(BLOCK.write(RECORDS[:1])))
    placed, end = read(first + pack("<I", length) + DATA[len(first) + 4 :][:100])
    assert ([each.record for each in placed[:1]], end) == (RECORDS[:1], len(first))


def test_what_was_deleted_is_not_a_record():
    gone = [RECORDS[0]._replace(sequence=1 | 1 << 63), RECORDS[1]._replace(sequence=2 | 1 << 62), RECORDS[2]]
    placed, end = read(b"".join(BLOCK.write(gone)))
    assert ([each.record for each in placed], end > 0) == (RECORDS[2:], True)
