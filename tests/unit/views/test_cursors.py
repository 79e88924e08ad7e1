"""Folds that are kept for questions about the past."""

from __future__ import annotations

import pytest

from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.state.state import State
from headrace.views import cursors as module
from headrace.views.cursors import Cursor, Cursors, Mark


def cursor(sequence: int, stamped: int | None = None, jobs: int = 0, asked=(0, 0)) -> Cursor:
    return Cursor(FoldedLedger(State(sequence=sequence, jobs=dict.fromkeys(map(str, range(jobs))))), stamped, asked)


def kept(*given) -> Cursors:
    found = Cursors()
    for one in given:
        found.mark(one) if isinstance(one, Mark) else found.give_back(one)
    return found


@pytest.mark.parametrize(
    ("last", "at", "sequence"),
    [(9, None, 7), (7, None, 7), (6, None, 5), (4, None, 3), (2, None, 0), (9, 70, 5), (9, 49, 3), (9, 1, 0)],
)
def test_the_nearest_is_the_last_one_before_the_record_and_the_time(last, at, sequence):
    assert kept(cursor(3, 30), cursor(7), Mark(5, 50, b"")).nearest(last, at) == sequence


def test_a_cursor_is_taken_by_one_and_a_mark_by_all():
    there = kept(first := cursor(3), mark := Mark(5, None, b""))
    assert [there.take(3), there.take(3), there.take(5), there.take(5)] == [first, None, mark, mark]


def test_a_cursor_is_there_if_it_was_asked_for_so_or_stands_at_that_record():
    there = kept(first := cursor(3, asked=(0, 77)), second := cursor(4))
    assert [there.there((0, 77)), there.there((3, 0)), there.there((4, 0))] == [first, None, second]


def test_beyond_the_bounds_those_are_dropped_that_were_not_used_for_longest(monkeypatch):
    monkeypatch.setattr(module, "KEPT", 2)
    assert [kept(*map(cursor, (5, 3, 4))).nearest(last, None) for last in (4, 3, 5)] == [4, 3, 4]
    monkeypatch.setattr(module, "JOBS_KEPT", 9)
    assert kept(cursor(1, jobs=5), cursor(2, jobs=5)).nearest(1, None) == 0
    assert kept(cursor(1, jobs=50)).nearest(1, None) == 1


def test_beyond_the_bounds_the_oldest_marks_are_dropped(monkeypatch):
    monkeypatch.setattr(module, "MARKS", 2)
    marks = kept(*(Mark(sequence, None, b"") for sequence in (1, 2, 1, 3)))
    assert [marks.nearest(last, None) for last in (3, 2, 1)] == [3, 1, 1]
    monkeypatch.setattr(module, "MARK_BYTES", 3)
    assert kept(Mark(1, None, b"ab"), Mark(2, None, b"cd")).nearest(1, None) == 0


def test_all_is_forgotten():
    there = kept(cursor(3), Mark(5, None, b""))
    there.clear()
    assert there.nearest(9, None) == 0
