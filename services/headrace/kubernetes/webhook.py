"""The webhook's HTTPS server: one path, POST only, with limits on size, duration and number of connections."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import msgspec
import structlog

from headrace.kubernetes.admission_review import BadReview, review

BODY_MAX = 8 * 1024 * 1024
"""Bytes of a review: the API server takes objects of up to 3 MiB, and a review has two."""
HEAD_MAX = 16 * 1024
WITHIN = 10.0
CONNECTIONS_MAX = 128
PATH = b"/review"

_log = structlog.get_logger("headrace.kubernetes")


class Certificate:
    """TLS by `tls.crt` and `tls.key` of a directory, such as a mounted Secret; `context` serves each connection by the pair as it is then.

    A renewed pair that cannot be used is noted, and the former one serves on. Raises OSError if the first one cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        self._files = directory / "tls.crt", directory / "tls.key"
        self._seen = self._stamp()
        self.context = self._current = self._load()
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._current = self._load()
                _log.info("certificate_renewed")
            except OSError as error:
                _log.warning("certificate_unusable", reason=str(error))
        connection.context = self._current

    def _load(self) -> ssl.SSLContext:
        # A context of its own for each pair: one that has refused a key is left without any.
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.load_cert_chain(*self._files)
        return made

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        with contextlib.suppress(OSError):
            return tuple((found.st_ino, found.st_mtime_ns) for found in (path.stat() for path in self._files))
        return ()


class Webhook:
    """Answers reviews. `bridge`: the user as whom the bridge calls the API server."""

    def __init__(self, bridge: str) -> None:
        self.port = 0
        self.reviewed = 0
        self._bridge = bridge
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Listen; `port` 0 takes any free port, see `self.port`. Raises OSError."""
        within = WITHIN if context is not None else None
        self._server = await asyncio.start_server(
            self._serve, host, port, ssl=context, limit=HEAD_MAX, ssl_handshake_timeout=within
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._open.add(task)
        try:
            async with asyncio.timeout(WITHIN):
                status, body = await self._answer(reader)
                head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        parts = first.split(b" ")
        length = fields.get(b"content-length", b"")
        if len(parts) != 3 or parts[0] != b"POST" or parts[1].partition(b"?")[0] != PATH:
            return 404, b"{}"
        if not length.isdigit() or len(length) > 9 or int(length) > BODY_MAX:
            return 413, b"{}"
        try:
            answer = review(await reader.readexactly(int(length)), self._bridge)
        except BadReview as error:
            _log.warning("review_unreadable", reason=str(error))
            return 400, b"{}"
        self.reviewed += 1
        return 200, msgspec.json.encode(answer)
