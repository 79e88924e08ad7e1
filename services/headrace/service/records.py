"""The ledger as it was written, a page at a time: for who looks back, and folds it for himself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.bus.log import Log, LogBroken, LogError
from headrace.contracts.messages.queries import RecordsAnswer, RecordsRequest, StoredRecord
from headrace.contracts.transport.codec import decode
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from headrace.service.answering import Handler

PAGE_BYTES = 4 * 1024 * 1024
"""Payloads in one page, about; as text in JSON they take a third more, and a message holds 8 MiB."""
BATCH = 100
WAIT = 2.0


def records(log: Log) -> Handler:
    """Answers `records`. To be given to a service that administrators alone may ask: a record says everything of everybody."""

    async def answer(_tenant: str, _user: str, payload: bytes) -> RecordsAnswer:
        request = decode(payload, RecordsRequest)
        try:
            return await page(log, max(0, request.after))
        except LogBroken as error:
            raise Refused("REFUSED", f"the ledger is damaged: {error}") from None
        except LogError as error:
            raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}; try again in a while") from None

    return answer


async def page(log: Log, after: int) -> RecordsAnswer:
    """The records behind a sequence, as many as fit, and where the ledger ends."""
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
