"""The HTTP page of one process, served by its own loop: that it answers is what `/livez` means.

Strategy: nothing but GET and HEAD of four paths, one request a connection, small and soon, and so few at once that nobody can keep the
process busy with it. Who is alive and ready everybody on the machine may know; the figures name tenants and policies, and ask for a
token where one is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from typing import NamedTuple

import msgspec
import structlog

from headrace.health.health import Health
from headrace.health.metrics import QUICK

LIVE, READY, FIGURES = "/livez", "/readyz", "/metrics"
AT_ONCE_MAX = 16
REQUEST_MAX = 8 * 1024
REQUEST_WITHIN = 5.0
TURN_EVERY = 0.5
"""Seconds between two looks at how late the loop is."""

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_SAID = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}

_log = structlog.get_logger("headrace.health")


class HttpResponse(NamedTuple):
    """What is said to one request."""

    status: int
    body: bytes
    kind: str = _TEXT
    header: str = ""


class HealthServer:
    """Serves `health`. `token`: what who reads the figures has to show; empty: nothing."""

    def __init__(self, health: Health, token: str = "") -> None:
        self.port = 0
        self._health = health
        self._token = token
        self._server: asyncio.Server | None = None
        self._turning: asyncio.Task[None] | None = None
        self._talking: set[asyncio.Task[None]] = set()
        self._late = health.figures.histogram(
            "headrace_loop_delay_seconds", "how late the process comes back to what is due, looked at twice a second", QUICK
        )

    async def open(self, host: str, port: int) -> None:
        """Listen; `port` 0: any free one, see `port`. Raises `OSError`."""
        self._server = await asyncio.start_server(self._taken, host, port, limit=REQUEST_MAX)
        self.port = self._server.sockets[0].getsockname()[1]
        self._turning = asyncio.create_task(self._turn())

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._turning is not None:
            self._turning.cancel()
        if self._server is not None:
            self._server.close()
        for task in self._talking:
            task.cancel()
        await asyncio.gather(*self._talking, return_exceptions=True)

    async def answer(self, request: str, authorization: str = "") -> HttpResponse:
        """What is said to `GET /path HTTP/1.1`, the first line of a request."""
        words = request.split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return HttpResponse(400, b"this is no request of HTTP/1.1\n")
        method, path = words[0], words[1].partition("?")[0]
        if path not in ("/", LIVE, READY, FIGURES):
            return HttpResponse(404, f"there is no {path[:100]}; there are {LIVE}, {READY} and {FIGURES}\n".encode())
        if method not in ("GET", "HEAD"):
            return HttpResponse(405, b"this page is only read: GET or HEAD\n", header="allow: GET, HEAD\r\n")
        if path == FIGURES:
            return await self._figures(authorization)
        if path == READY:
            found = await self._health.readiness()
            said = {"name": self._health.name, "ready": found.ready, "role": found.role, "checks": found.checks}
            return HttpResponse(200 if found.ready else 503, msgspec.json.encode(said) + b"\n", _JSON)
        return HttpResponse(200, b"ok\n" if path == LIVE else f"{LIVE}\n{READY}\n{FIGURES}\n".encode())

    async def _figures(self, authorization: str) -> HttpResponse:
        scheme, _, shown = authorization.partition(" ")
        if self._token and not (
            scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self._token.encode())
        ):
            wanted = b"the figures ask for a token: Authorization: Bearer TOKEN\n"
            return HttpResponse(401, wanted, header="www-authenticate: Bearer\r\n")
        return HttpResponse(200, await self._health.text(), _PROMETHEUS)

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._talking) >= AT_ONCE_MAX:
            writer.close()
            return
        self._talking.add(task)
        try:
            async with asyncio.timeout(REQUEST_WITHIN):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                said = await self.answer(head[0], _header(head, "authorization"))
                writer.write(_written(said, bodiless=head[0].startswith("HEAD ")))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asks so gets no answer
        finally:
            self._talking.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TURN_EVERY
            await asyncio.sleep(TURN_EVERY)
            self._late.observe(max(0.0, loop.time() - due))


def _header(head: list[str], name: str) -> str:
    for line in head[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _written(said: HttpResponse, *, bodiless: bool) -> bytes:
    head = (
        f"HTTP/1.1 {said.status} {_SAID[said.status]}\r\ncontent-type: {said.kind}\r\ncontent-length: {len(said.body)}\r\n"
        f"{said.header}cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if bodiless else said.body)
