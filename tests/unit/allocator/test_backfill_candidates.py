"""For which heads units may be kept now (R16)."""

from __future__ import annotations

import pytest

from headrace.allocator import backfill_candidates as module
from headrace.contracts.values.durations import HOUR, MINUTE
from tests.unit.allocator.history import History, policy


def posts_of(history: History) -> tuple[object, object, int]:
    """The pool's backfill, and the candidates and bit of a job that waits for room."""
    history.node("n1", 1)
    history.run("a/one")
    waiting = history.admit("a/two")
    history.allocator.index.refresh()
    candidates, number = history.allocator.index.candidates_of(waiting, "hall")
    return candidates.queue.backfill, candidates, 1 << number


def sets(backfill, candidates) -> tuple[int, int, int, int]:
    return backfill.due, candidates.due, backfill.resting, candidates.resting


def test_a_head_is_due_then_it_rests_and_is_due_again():
    history = History(policy("a"))
    backfill, candidates, bit = posts_of(history)
    since = history.now
    due, resting = (bit, bit, 0, 0), (0, 0, bit, bit)
    assert (backfill.advance(since), sets(backfill, candidates), backfill.next()) == (False, (0, 0, 0, 0), since + 10 * MINUTE)

    for after, expected, then in (
        (10 * MINUTE, due, 70 * MINUTE),
        (70 * MINUTE, resting, 130 * MINUTE),
        (130 * MINUTE, due, 190 * MINUTE),
        (190 * MINUTE, resting, 310 * MINUTE),
    ):
        assert backfill.advance(since + after)
        assert (sets(backfill, candidates), backfill.next()) == (expected, since + then)
    assert not backfill.advance(since + 191 * MINUTE)


def test_a_first_look_finds_the_turn_of_that_moment():
    history = History(policy("a"))
    backfill, candidates, bit = posts_of(history)
    assert backfill.advance(history.now + 3 * HOUR + 30 * MINUTE)
    assert sets(backfill, candidates) == (0, 0, bit, bit)


def test_a_new_job_at_the_head_has_its_own_time():
    history = History(policy("a"))
    backfill, candidates, bit = posts_of(history)
    history.wait(10 * MINUTE)
    backfill.advance(history.now)
    assert candidates.due == bit
    urgent = history.admit("a/two", priority=9)
    history.allocator.index.refresh()
    assert (candidates.pending_class.heads[bit.bit_length() - 1][1], candidates.due) == (urgent, 0)
    assert backfill.next() == history.now + 10 * MINUTE


@pytest.mark.parametrize("limit", [None, HOUR])
def test_it_is_known_whether_a_head_has_had_a_time_limit(limit):
    history = History(policy("a"))
    backfill, _, _ = posts_of(history)
    assert not backfill.has_limited
    history.admit("a/half", time_limit=limit)
    history.allocator.index.refresh()
    assert backfill.has_limited is (limit is not None)


def test_those_who_have_left_are_thrown_out_when_they_are_most(monkeypatch):
    monkeypatch.setattr(module, "WAITING_KEPT", 4)
    history = History(policy("a"))
    backfill, _, _ = posts_of(history)
    for _ in range(20):
        job = history.admit("a/three")
        history.allocator.index.refresh()
        history.cancel(job)
        history.allocate()
    assert len(backfill.waiting) <= 12
