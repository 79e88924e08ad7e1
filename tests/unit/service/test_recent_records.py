"""The newest records in memory: from which sequence on they are complete, and waiting for the next one."""

from __future__ import annotations

import asyncio

from headrace.contracts.facts.records import Record
from headrace.service.recent_records import RecentRecords


def record(number: int) -> Record:
    return Record(by="admission", now=number, engine="test", as_of=0, facts=())


def test_records_after_a_sequence_come_in_their_order() -> None:
    recent = RecentRecords(after=5)
    for number in (6, 7, 9):
        recent.note(record(number), number)
    assert [sequence for sequence, _ in recent.after(6) or ()] == [7, 9]
    assert recent.after(9) == []
    assert recent.oldest == 5


def test_records_that_are_no_longer_in_memory_are_not_left_out_silently() -> None:
    recent = RecentRecords(after=5, kept=2)
    for number in (6, 7, 8):
        recent.note(record(number), number)
    assert recent.oldest == 6
    assert recent.after(5) is None
    assert [sequence for sequence, _ in recent.after(6) or ()] == [7, 8]


async def test_all_who_wait_are_woken_by_the_next_record() -> None:
    recent = RecentRecords()
    waiting = [asyncio.create_task(recent.arrival()) for _ in range(2)]
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [False, False]
    recent.note(record(1), 1)
    await asyncio.gather(*waiting)
