"""The synchronous core of the in-memory log; what it shares with the real one is in the integration suite of the twins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.log import LogRefused, WrongLast
from headrace.bus.memory import DUPLICATE_WINDOW, MemoryLog


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


def test_messages_are_stamped_by_the_clock_given() -> None:
    clock = Clock()
    log = MemoryLog(clock)
    log.append_now("a", b"1", 0)
    clock.now += 5
    log.append_now("a", b"2", 1)
    assert log.messages_after(0) == [(1, "a", 1_000_000, b"1"), (2, "a", 1_000_005, b"2")]


def test_messages_after_a_sequence_may_be_limited() -> None:
    log = MemoryLog(Clock())
    for n in range(5):
        log.append_now("a", b"%d" % n, None)
    assert [m.sequence for m in log.messages_after(1, limit=2)] == [2, 3]
    assert [log.count_after(n) for n in (0, 3, 5, 9)] == [5, 2, 0, 0]


def test_a_message_id_is_forgotten_after_the_window() -> None:
    clock = Clock()
    log = MemoryLog(clock)
    assert log.append_now("a", b"1", None, "id") == 1
    clock.now += DUPLICATE_WINDOW - 1
    assert log.append_now("a", b"1", None, "id") == 1
    clock.now += 1
    assert log.append_now("a", b"1", None, "id") == 2


def test_a_repeated_message_is_not_refused_in_a_full_subject() -> None:
    log = MemoryLog(Clock(), cap=1)
    assert log.append_now("a", b"1", None, "id") == 1
    assert log.append_now("a", b"1", None, "id") == 1
    with pytest.raises(LogRefused, match="a has 1"):
        log.append_now("a", b"2", None, "other")


async def test_what_is_purged_is_gone_and_sequences_go_on() -> None:
    log = MemoryLog(Clock(), begins_late=True)
    for subject in ("a", "b", "a"):
        log.append_now(subject, b"x", None)
    await log.purge_through(2)
    assert [m.sequence for m in log.messages_after(0)] == [3]
    assert (log.first, log.last_sequence) == (3, 3)
    assert await log.last("b") is None
    with pytest.raises(WrongLast):
        log.append_now("b", b"x", 2)
    assert log.append_now("b", b"x", 0) == 4


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-1, 3)), max_size=30))
def test_an_append_succeeds_exactly_when_its_expectation_is_the_subjects_last(tries: list[tuple[str, int]]) -> None:
    log = MemoryLog(Clock())
    last = {"a": 0, "b": 0}
    for subject, offset in tries:
        if offset == 0:
            last[subject] = log.append_now(subject, b"x", last[subject])
        else:
            with pytest.raises(WrongLast):
                log.append_now(subject, b"x", last[subject] + offset)
    stored = log.messages_after(0)
    assert [m.sequence for m in stored] == list(range(1, len(stored) + 1))


def test_a_log_can_go_on_where_another_one_is():
    log = MemoryLog(lambda: 5, after=7, lasts={"a": 3})
    with pytest.raises(WrongLast):
        log.append_now("a", b"x", 0)
    assert log.append_now("a", b"x", 3) == 8
    assert [(message.sequence, message.payload) for message in log.messages_after(7)] == [(8, b"x")]
