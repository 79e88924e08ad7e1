"""What is kept of one that stands by."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.records import Record
from headrace.feed.outgoing_message import FeedPosition
from headrace.feed.standby_buffer import FoldedRecord, StandbyBuffer


def folded_record(sequence, facts=1, size=10):
    stated = tuple(f.NodeUncordonedV1(author="a.b", node=f"n{number}") for number in range(facts))
    return FoldedRecord(Record(by="governance", now=1, engine="test", as_of=0, facts=stated), sequence, (), size)


@pytest.fixture
def skipped():
    return []


def test_what_feed_has_is_let_go_of_but_not_the_record_that_it_may_have_in_part(skipped):
    buffer = StandbyBuffer(skipped.append, 100)
    kept = [folded_record(number) for number in (3, 5, 6)]
    for one in kept:
        buffer.add(one)
    buffer.drop_published(FeedPosition(5, 1))
    assert (skipped, bool(buffer)) == ([kept[0].record], True)
    assert list(buffer.take()) == kept[1:]
    assert not buffer


def test_of_too_much_the_oldest_goes_and_the_newest_stays_however_large(skipped):
    buffer = StandbyBuffer(skipped.append, 3)
    kept = [folded_record(1, 2), folded_record(2, 2), folded_record(3, 9)]
    for one in kept:
        buffer.add(one)
    assert [record.facts for record in skipped] == [one.record.facts for one in kept[:2]]
    assert list(buffer.take()) == kept[2:]


def test_of_records_that_are_too_large_together_the_oldest_goes(skipped):
    buffer = StandbyBuffer(skipped.append, 100, bytes_max=30)
    kept = [folded_record(1, size=5), folded_record(2, size=25), folded_record(3, size=6), folded_record(4, size=7)]
    for one in kept:
        buffer.add(one)
    assert buffer.lost == 2
    buffer.drop_published(FeedPosition(3, 1))
    assert buffer.lost == 0
    buffer.add(last := folded_record(5, size=18))
    assert skipped == [one.record for one in kept[:3]]
    assert list(buffer.take()) == [kept[3], last]
