"""Reads a ledger that may be damaged: all messages that still exist, in order, without the missing ones.

The readers of services stop at a gap, as they must; verification continues after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.bus.log import LogBroken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.bus.log import Log, Message

BATCH = 500
SILENCE = 2.0
"""Seconds without a message after which it is checked whether the next one exists at all."""


async def stored_messages(log: Log, after: int, through: int) -> AsyncIterator[list[Message]]:
    """The messages after `after` up to `through`, in batches that are not empty. Raises `LogUnavailable`."""
    reader = await log.read(after)
    try:
        while after < through:
            try:
                batch = await reader.batch(BATCH, SILENCE)
            except LogBroken:
                batch = []
            if not batch:  # a gap, or a message that cannot be delivered
                await reader.close()
                found = await log.following(after)
                if found is None:
                    return
                batch = [found]
                reader = await log.read(found.sequence)
            batch = [message for message in batch if message.sequence <= through]
            if batch:
                after = batch[-1].sequence
                yield batch
            else:
                return
    finally:
        await reader.close()
