"""How much of the ledger goes into the books at once: a stretch of messages is one transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.bus.log import LogReader, Message

BATCH_MESSAGES = 1_000
BATCH_BYTES = 8 * 1024 * 1024
BATCH_SECONDS = 0.05
"""What one transaction holds at most: whichever comes first."""

BUSY_BYTES = 64 * 1024
BUSY_SECONDS = 0.25
"""Where so much comes within `BATCH_SECONDS`, what comes within this is taken along: fewer transactions, and a job that is quick
is written once."""

READ_AT_ONCE = 200


async def gather(reader: LogReader) -> list[Message]:
    """The next stretch: everything there is, and what comes within `BATCH_SECONDS`, until it is enough for one transaction."""
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
