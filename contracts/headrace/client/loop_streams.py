"""Connections of the event loop, see `streams`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import TypeVar

from headrace.client.streams import CONNECT_WITHIN, LINE_MAX, Address, Ended, TooLong

T = TypeVar("T")


class LoopStream:
    """A connection of the running event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._until: float | None = 0.0

    def begin(self, within: float) -> None:
        self._until = None if within == math.inf else asyncio.get_running_loop().time() + within

    async def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def exactly(self, size: int) -> bytes:
        return await self._in_time(self._reader.readexactly(size))

    async def until(self, end: bytes) -> bytes:
        return await self._in_time(self._reader.readuntil(end))

    @property
    def is_over(self) -> bool:
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()

    async def _in_time(self, reading: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout_at(self._until):
                return await reading
        except asyncio.IncompleteReadError as error:
            raise Ended(partial=bool(error.partial)) from None
        except asyncio.LimitOverrunError:
            raise TooLong from None


async def open_stream(address: Address) -> LoopStream:
    """A new connection. Raises OSError, TimeoutError."""
    async with asyncio.timeout(CONNECT_WITHIN):
        if address.socket:
            return LoopStream(*await asyncio.open_unix_connection(address.socket, limit=LINE_MAX))
        return LoopStream(*await asyncio.open_connection(address.host, address.port, ssl=address.context, limit=LINE_MAX))
