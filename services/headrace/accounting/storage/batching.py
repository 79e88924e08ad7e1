"""Batches: which messages of the ledger go into one transaction of the books."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.bus.log import LogReader, Message

BATCH_MESSAGES = 1_000
BATCH_BYTES = 8 * 1024 * 1024
BATCH_SECONDS = 0.05
"""Limits of one transaction: whichever comes first."""

BUSY_BYTES = 64 * 1024
BUSY_SECONDS = 0.25
"""If that many bytes come within `BATCH_SECONDS`, the batch lasts this long: fewer transactions, and a short job is written once."""

READ_AT_ONCE = 200


async def gather(reader: LogReader) -> list[Message]:
    """The next batch: all available messages, and those within `BATCH_SECONDS`, up to the limits of one transaction."""
    loop = asyncio.get_running_loop()
    messages = await reader.batch(READ_AT_ONCE)
    deadline = loop.time() + BATCH_SECONDS
    size = sum(len(message.payload) for message in messages)
    busy_deadline = deadline + BUSY_SECONDS - BATCH_SECONDS
    while len(messages) < BATCH_MESSAGES and size < BATCH_BYTES:
        left = (busy_deadline if size >= BUSY_BYTES else deadline) - loop.time()
        if left <= 0:
            break
        more = await reader.batch(min(READ_AT_ONCE, BATCH_MESSAGES - len(messages)), left)
        messages += more
        size += sum(len(message.payload) for message in more)
    return messages
