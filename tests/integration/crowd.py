"""Connections that say nothing and stay."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

from tests.patience import PATIENCE


class Crowd:
    """Connections that say nothing and stay, each with one login."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def grow(self, user: str, password: str, most: int) -> int:
        """Open connections until one is refused, up to a maximum; returns how many were let in."""
        for number in range(most):
            reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port)
            hello = {"user": user, "pass": password, "verbose": False, "pedantic": False, "lang": "x", "version": "1"}
            writer.write(b"CONNECT " + json.dumps(hello).encode() + b"\r\nPING\r\n")
            async with asyncio.timeout(PATIENCE):
                while (line := await reader.readline()).startswith(b"INFO"):
                    pass
            if not line.startswith(b"PONG"):
                writer.close()
                return number
            self._open.append((reader, writer))
        return most

    async def ended(self) -> None:
        """Wait until the server has ended all of them."""
        async with asyncio.timeout(PATIENCE):
            for reader, writer in self._open:
                await reader.read()
                writer.close()

    def leave(self) -> None:
        for _, writer in self._open:
            writer.close()
