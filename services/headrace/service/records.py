"""The ledger as written, a page at a time: for tools that read and fold the past themselves."""

from __future__ import annotations

from headrace.bus.log import Log
from headrace.contracts.messages.queries import RecordsAnswer, StoredRecord

PAGE_BYTES = 4 * 1024 * 1024
"""Approximate bytes of payloads per page; as text in JSON they take a third more, and a message holds 8 MiB."""
BATCH = 100
WAIT = 2.0


async def page(log: Log, after: int) -> RecordsAnswer:
    """The records after a sequence, as many as fit, and the end of the ledger."""
    tip = await log.tip()
    found: list[StoredRecord] = []
    if after >= tip:
        return RecordsAnswer(tip=tip)
    reader = await log.read(after)
    try:
        size = 0
        while size < PAGE_BYTES and after + len(found) < tip:
            for message in await reader.batch(BATCH, WAIT):
                if size >= PAGE_BYTES:
                    break
                size += len(message.payload)
                found.append(StoredRecord(**message._asdict()))
    finally:
        await reader.close()
    return RecordsAnswer(tip=tip, records=tuple(found))
