"""Connections on which calls of the API travel: of the event loop, or of a program without one, which they block.

Strategy: a call is written once, as a coroutine. Where no event loop runs its connection blocks, so that the coroutine never waits and
`answered` runs it to its end. A command that asks one question thus needs no asyncio, whose import takes longer than the call.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

CONNECT_WITHIN = 5.0
LINE_MAX = 1024 * 1024
"""Maximum bytes of a line of a stream, and of the head of an answer."""
READ_AT_ONCE = 64 * 1024


class Address(NamedTuple):
    """Host, port and TLS (None: without) of a server, or the path of a local socket."""

    host: str = ""
    port: int = 0
    context: ssl.SSLContext | None = None
    socket: str = ""


class Ended(Exception):
    """The connection ended before what was read came whole. `partial`: whether a part of it came."""

    def __init__(self, *, partial: bool) -> None:
        super().__init__("the connection ended")
        self.partial = partial


class TooLong(Exception):
    """A line has more than `LINE_MAX` bytes."""


class Stream(Protocol):
    """One connection. Every method raises OSError, TimeoutError once `within` (seconds, since `begin`) is over, Ended or TooLong."""

    def begin(self, within: float) -> None:
        """Give what follows this long; `math.inf`: without a bound."""

    async def send(self, data: bytes) -> None:
        """Send all of it."""

    async def exactly(self, size: int) -> bytes:
        """Read `size` bytes, no more and no less."""

    async def until(self, end: bytes) -> bytes:
        """Bytes up to and including `end`."""

    @property
    def is_over(self) -> bool:
        """True once nothing more can come."""

    def close(self) -> None:
        """Close; closing twice is harmless."""


class BlockingStream:
    """A connection of a program without an event loop."""

    def __init__(self, plain: socket.socket) -> None:
        self._socket = plain
        self._read = bytearray()
        self._until = 0.0
        self.is_over = False

    def begin(self, within: float) -> None:
        self._until = time.monotonic() + within

    async def send(self, data: bytes) -> None:
        self._wait_at_most()
        self._socket.sendall(data)

    async def exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            self._fill()
        return self._take(size)

    async def until(self, end: bytes) -> bytes:
        looked = 0
        while (found := self._read.find(end, looked)) < 0:
            if len(self._read) > LINE_MAX:
                raise TooLong
            looked = max(0, len(self._read) - len(end) + 1)
            self._fill()
        return self._take(found + len(end))

    def close(self) -> None:
        self.is_over = True
        self._socket.close()

    def _wait_at_most(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(None if left == math.inf else left)

    def _fill(self) -> None:
        self._wait_at_most()
        data = self._socket.recv(READ_AT_ONCE)
        if not data:
            self.is_over = True
            raise Ended(partial=bool(self._read))
        self._read += data

    def _take(self, size: int) -> bytes:
        taken = bytes(self._read[:size])
        del self._read[:size]
        return taken


def open_blocking(address: Address) -> BlockingStream:
    """A new connection. Raises OSError, TimeoutError."""
    if address.socket:
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(CONNECT_WITHIN)
        try:
            plain.connect(address.socket)
        except OSError:
            plain.close()
            raise
        return BlockingStream(plain)
    plain = socket.create_connection((address.host, address.port), CONNECT_WITHIN)
    try:
        if address.context is not None:
            plain = address.context.wrap_socket(plain, server_hostname=address.host)
    except OSError:
        plain.close()
        raise
    return BlockingStream(plain)


def answered(asking: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for calls of the API and for nothing else, without an event loop."""
    try:
        while True:
            asking.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
