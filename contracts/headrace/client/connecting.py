"""Opens a connection of the kind that fits: of the event loop where one runs, else one that blocks (`streams`)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.client.streams import open_blocking

if TYPE_CHECKING:
    from headrace.client.streams import Address, Stream


async def connected(address: Address) -> Stream:
    """A new connection, of the running event loop if there is one. Raises OSError, TimeoutError."""
    if not has_event_loop():
        return open_blocking(address)
    from headrace.client.loop_streams import open_stream  # noqa: PLC0415 - asyncio is imported already

    return await open_stream(address)


def has_event_loop() -> bool:
    """True in a coroutine that asyncio runs."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
