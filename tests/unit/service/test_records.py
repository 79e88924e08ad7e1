"""The ledger a page at a time: every record once, in order, its very bytes."""

from __future__ import annotations

from headrace.bus.memory import MemoryLog
from headrace.contracts.messages.queries import RecordsAnswer, StoredRecord
from headrace.contracts.transport.codec import decode, encode
from headrace.service import records as module
from headrace.service.records import page


def written(count: int) -> MemoryLog:
    log = MemoryLog(lambda: 7)
    for number in range(count):
        log.append_now("hr.ledger.allocator", b"\xff%d" % number, None)
    return log


async def ask(log, after=0) -> RecordsAnswer:
    return await page(log, after)


async def test_records_come_with_their_very_bytes_and_the_end_of_the_ledger():
    answer = await ask(written(3), after=1)
    assert answer == RecordsAnswer(
        tip=3,
        records=(
            StoredRecord(sequence=2, subject="hr.ledger.allocator", stamped=7, payload=b"\xff1"),
            StoredRecord(sequence=3, subject="hr.ledger.allocator", stamped=7, payload=b"\xff2"),
        ),
    )
    assert decode(encode(answer), RecordsAnswer) == answer


async def test_page_after_page_every_record_comes_once(monkeypatch):
    monkeypatch.setattr(module, "PAGE_BYTES", 50)
    log, found = written(1_000), []
    while (answer := await ask(log, after=found[-1].sequence if found else 0)).records:
        found += answer.records
    assert [record.sequence for record in found] == list(range(1, 1_001))


async def test_behind_the_end_there_is_nothing():
    assert (await ask(written(3), after=3), await ask(written(0))) == (RecordsAnswer(tip=3), RecordsAnswer(tip=0))
