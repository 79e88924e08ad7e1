"""The ledger as written, a page at a time: for tools that read and fold the past themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.bus.log import Log, LogBroken, LogError
from headrace.contracts.messages.queries import RecordsAnswer, RecordsRequest, StoredRecord
from headrace.contracts.transport.codec import decode
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from headrace.service.answering import Handler

PAGE_BYTES = 4 * 1024 * 1024
"""Approximate bytes of payloads per page; as text in JSON they take a third more, and a message holds 8 MiB."""
BATCH = 100
WAIT = 2.0


def records(log: Log) -> Handler:
    """The handler of `records`, for a service that only administrators may query: records contain the data of all tenants."""

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
