"""The HTTP server of one process for health and metrics, in its own event loop, so that an answer shows that the loop runs.

Strategy: GET and HEAD of four paths only, one request per connection, with limits on size, duration and number of connections, so that
requests cannot keep the process busy. Liveness and readiness are public on the machine; the metrics name tenants and policies, and
require a token if one is configured.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from typing import NamedTuple

import msgspec
import structlog

from headrace.health.addresses import FIGURES, LIVE, READY
from headrace.health.health import Health
from headrace.health.metrics import QUICK

CONNECTIONS_MAX = 16
REQUEST_MAX = 8 * 1024
REQUEST_WITHIN = 5.0
MEASURE_EVERY = 0.5
"""Seconds between two measurements of the delay of the event loop."""

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}

_log = structlog.get_logger("headrace.health")


class HttpResponse(NamedTuple):
    """The answer to one request."""

    status: int
    body: bytes
    kind: str = _TEXT
    header: str = ""


class HealthServer:
    """Serves `health`. `token`: the bearer token that `/metrics` requires; empty: none."""

    def __init__(self, health: Health, token: str = "") -> None:
        self.port = 0
        self._health = health
        self._token = token
        self._server: asyncio.Server | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._delay = health.metrics.histogram(
            "headrace_loop_delay_seconds", "delay of the event loop, measured twice a second", QUICK
        )

    async def open(self, host: str, port: int) -> None:
        """Listen; `port` 0 takes any free port, see `self.port`. Raises OSError."""
        self._server = await asyncio.start_server(self._handle, host, port, limit=REQUEST_MAX)
        self.port = self._server.sockets[0].getsockname()[1]
        self._measuring = asyncio.create_task(self._measure_delay())

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._measuring is not None:
            self._measuring.cancel()
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def answer(self, request: str, authorization: str = "") -> HttpResponse:
        """The answer to the first line of a request, such as `GET /path HTTP/1.1`."""
        words = request.split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return HttpResponse(400, b"not a request of HTTP/1.1\n")
        method, path = words[0], words[1].partition("?")[0]
        if path not in ("/", LIVE, READY, FIGURES):
            return HttpResponse(404, f"not found: {path[:100]}; use {LIVE}, {READY} or {FIGURES}\n".encode())
        if method not in ("GET", "HEAD"):
            return HttpResponse(405, b"method not allowed; use GET or HEAD\n", header="allow: GET, HEAD\r\n")
        if path == FIGURES:
            return await self._metrics(authorization)
        if path == READY:
            readiness = await self._health.readiness()
            response = {"name": self._health.name, "ready": readiness.ready, "role": readiness.role, "checks": readiness.checks}
            return HttpResponse(200 if readiness.ready else 503, msgspec.json.encode(response) + b"\n", _JSON)
        return HttpResponse(200, b"ok\n" if path == LIVE else f"{LIVE}\n{READY}\n{FIGURES}\n".encode())

    async def _metrics(self, authorization: str) -> HttpResponse:
        scheme, _, token = authorization.partition(" ")
        if self._token and not (
            scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token.encode())
        ):
            wanted = b"metrics require a token; send the header Authorization: Bearer TOKEN\n"
            return HttpResponse(401, wanted, header="www-authenticate: Bearer\r\n")
        return HttpResponse(200, await self._health.text(), _PROMETHEUS)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._connections.add(task)
        try:
            async with asyncio.timeout(REQUEST_WITHIN):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                response = await self.answer(head[0], _header(head, "authorization"))
                writer.write(_encode(response, bodiless=head[0].startswith("HEAD ")))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a request that is malformed, too large or too slow gets no answer
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _measure_delay(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + MEASURE_EVERY
            await asyncio.sleep(MEASURE_EVERY)
            self._delay.observe(max(0.0, loop.time() - due))


def _header(head: list[str], name: str) -> str:
    for line in head[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _encode(response: HttpResponse, *, bodiless: bool) -> bytes:
    head = (
        f"HTTP/1.1 {response.status} {_REASONS[response.status]}\r\n"
        f"content-type: {response.kind}\r\ncontent-length: {len(response.body)}\r\n"
        f"{response.header}cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if bodiless else response.body)
