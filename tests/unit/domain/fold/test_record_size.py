"""What one record holds: whole groups of facts, up to its facts and its bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record
from headrace.contracts.transport.codec import decode_record, encode
from headrace.domain.fold.record_size import AROUND, RecordCapacity


def fact(message: str = "") -> f.JobDismissedV1:
    return f.JobDismissedV1(job="default.ann.a", reason="QUEUE_DELETED", message=message)


SIZE = len(encode(fact())) + 1
"""A fact, and the comma behind it."""


def left(capacity: RecordCapacity) -> tuple[int, int, bool]:
    return capacity.facts, capacity.size, capacity.is_untouched


def test_a_record_begins_with_room_for_as_much_as_readers_take():
    assert left(RecordCapacity()) == (RECORD_FACTS_MAX, RECORD_BYTES_MAX - AROUND, True)


@pytest.mark.parametrize(
    ("facts", "size", "count", "taken"),
    [
        pytest.param(2, 9_999, 2, True, id="as many as there is room for"),
        pytest.param(1, 9_999, 2, False, id="one too many"),
        pytest.param(9, 2 * SIZE, 2, True, id="to the byte"),
        pytest.param(9, 2 * SIZE - 1, 2, False, id="a byte too large"),
    ],
)
def test_what_belongs_together_goes_in_whole_or_not_at_all(facts, size, count, taken):  # R2, R26
    capacity = RecordCapacity(facts, size)
    assert capacity.takes([fact()] * count) is taken
    assert left(capacity) == ((facts - count, size - count * SIZE, False) if taken else (facts, size, True))


def test_nothing_always_fits():
    capacity = RecordCapacity(0, 0)
    assert capacity.takes(()) is True
    assert (capacity.facts, capacity.size) == (0, 0)


def test_after_something_too_large_something_small_still_fits():
    capacity = RecordCapacity(9, 2 * SIZE)
    assert [capacity.takes([fact("x" * 99)]), capacity.takes([fact()])] == [False, True]


def test_facts_go_in_one_by_one_up_to_the_first_that_does_not_fit():
    facts = [fact("a"), fact("b" * 99), fact("c")]
    assert list(RecordCapacity(9, 3 * SIZE).fill(facts)) == [facts[0]]
    assert list(RecordCapacity(2).fill([fact()] * 3)) == [fact()] * 2


def test_what_does_not_fit_is_not_even_worked_out():
    worked_out = []

    def some():
        for number in range(9):
            worked_out.append(number)
            yield fact()

    assert len(list(RecordCapacity(2).fill(some()))) == 2
    assert worked_out == [0, 1, 2]


@given(st.lists(st.integers(0, 60_000), max_size=40))
def test_what_fits_is_a_record_that_every_reader_takes(lengths):
    facts = tuple(RecordCapacity().fill([fact("x" * length) for length in lengths]))
    around = {"by": "allocator", "now": 2**53 - 1, "engine": "1.0.0", "as_of": 2**53 - 1, "prev": "f" * 32, "cause": "c" * 300}
    record = Record(facts=facts, **around)
    assert decode_record(encode(record)) == record
