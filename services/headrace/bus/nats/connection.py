"""The connection to NATS: waits for a server that is not up yet, reconnects without end, and has cheap requests.

Strategy: `ask` is a request with one reply inbox for the lifetime of the connection and a counter as the token: a tenth of the cost of
nats-py's. Unanswered requests fail at once when the server disconnects, so that a writer learns of it in milliseconds and not by a
timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog
from nats import errors

from headrace.bus.log import LogError, LogRefused, LogUnavailable
from headrace.bus.nats.hardened_client import HardenedClient
from headrace.contracts.messages.tokens import inbox_prefix
from headrace.contracts.transport.servers import ping_interval, servers
from headrace.contracts.transport.tls import tls_context

if TYPE_CHECKING:
    from headrace.bus.nats.raw_message import RawMessage

ASK_TIMEOUT = 3.0
"""Timeout of an answer in seconds; a durable append with a busy disk takes well under one."""
ASK_AMONG = 1.0
"""Timeout in seconds with several servers: while they have no leader they do not answer, and the request is repeated afterwards."""

RECONNECT_WAIT = 0.1
WAIT_FIRST, WAIT_MOST = 0.1, 1.0

_FORBIDDEN = re.compile(r'permissions violation for publish to "([^"]*)"')
_NO_RESPONDERS = "503"

_log = structlog.get_logger("headrace.bus")


class Connection(HardenedClient):
    """One connection of one user. `closed_for_good` is set when the server rejected the user and it will not reconnect.

    `several`: more than one server is configured, and each can replace the others.
    """

    several = False

    def __init__(self) -> None:
        super().__init__()
        self.closed_for_good = asyncio.Event()
        self._asked = 0
        self._inbox = ""
        self._unanswered: dict[str, tuple[str, asyncio.Future[RawMessage]]] = {}
        self._watchers: dict[Callable[[], None], None] = {}
        self._last_complaint = ""

    async def ask(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, within: float | None = None
    ) -> RawMessage:
        """The answer to a request.

        Raises `LogUnavailable` without a listener, without a server, or without an answer `within` that many seconds (None: the default
        for these servers): the request may or may not have been received. Raises `LogRefused` if this user may not publish there, or the
        payload is too large.
        """
        within = (ASK_AMONG if self.several else ASK_TIMEOUT) if within is None else within
        answer = await self._ask_once(subject, payload, headers, within)
        if _unheard(answer):  # also sent for a moment after a connection in another account; then the request was not received
            answer = await self._ask_once(subject, payload, headers, within)
        if _unheard(answer):
            raise LogUnavailable(f"no listener on {subject}: is that stream or service up?")
        return answer

    async def _ask_once(self, subject: str, payload: bytes, headers: Mapping[str, str] | None, within: float) -> RawMessage:
        if not self.is_connected:
            raise LogUnavailable("NATS is away")
        self._asked += 1
        token = str(self._asked)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RawMessage] = loop.create_future()
        self._unanswered[token] = (subject, future)
        try:
            await self.publish(subject, payload, reply=self._inbox + token, headers=dict(headers) if headers else None)
            timer = loop.call_later(within, _time_up, future)
            try:
                return await future
            finally:
                timer.cancel()
        except TimeoutError:
            raise LogUnavailable(f"no answer on {subject} within {within:g} s") from None
        except errors.MaxPayloadError:
            raise LogRefused(f"{len(payload)} bytes on {subject}: the server takes at most {self.max_payload}") from None
        except errors.Error as error:
            raise LogUnavailable(f"NATS is away: {error}") from error
        finally:
            del self._unanswered[token]

    def watch(self, came_back: Callable[[], None]) -> Callable[[], None]:
        """Call `came_back` whenever the server is back after a disconnect; the result ends that."""
        self._watchers[came_back] = None  # ordered, so that calls happen in the same order each time
        return lambda: self._watchers.pop(came_back, None)

    async def open(self, url: str, user: str, password: str, name: str) -> None:
        """Connect once. Raises what nats-py raises. From then on it reconnects without end."""
        await self.connect(
            servers(url),
            name=name or user,
            user=user or None,
            password=password or None,
            inbox_prefix=inbox_prefix(user, password),
            tls=tls_context(url),
            error_cb=self._complained,
            disconnected_cb=self._lost,
            reconnected_cb=self._back,
            closed_cb=self._closed,
            allow_reconnect=False,  # only until the first connection is up: otherwise nats-py hides the reason of a failure
            max_reconnect_attempts=1,
            reconnect_time_wait=RECONNECT_WAIT,  # type: ignore[arg-type]
            ping_interval=ping_interval(url),  # type: ignore[arg-type]  # nats-py counts any seconds
        )
        self.options["allow_reconnect"] = True
        self.options["max_reconnect_attempts"] = -1
        self.several = len(servers(url)) > 1
        self._inbox = f"{self.new_inbox()}."
        await self.listen(self._inbox + "*", self._answered)

    def _answered(self, message: RawMessage) -> None:
        waiting = self._unanswered.get(message.subject[len(self._inbox) :])
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(message)

    async def _lost(self) -> None:
        if not self.is_closed:
            _log.warning("nats_lost", url=_address(self))
        self._fail_unanswered(LogUnavailable, "NATS went away before it answered")

    async def _back(self) -> None:
        self._last_complaint = ""
        _log.info("nats_back", url=_address(self))
        for came_back in tuple(self._watchers):
            came_back()

    async def _closed(self) -> None:
        self.closed_for_good.set()
        self._fail_unanswered(LogUnavailable, "the connection to NATS is closed")

    async def _complained(self, error: Exception) -> None:
        complaint = str(error) or type(error).__name__
        forbidden = _FORBIDDEN.search(complaint)
        if forbidden:  # nats-py converts it to lower case
            self._fail_unanswered(LogRefused, f"this user may not publish to {forbidden[1]}", forbidden[1])
        if (
            self._inbox and complaint != self._last_complaint
        ):  # while the server is away the same error comes ten times a second
            self._last_complaint = complaint
            _log.warning("nats_complains", complaint=complaint)

    def _fail_unanswered(self, kind: type[LogError], why: str, subject: str = "") -> None:
        for asked, future in self._unanswered.values():
            if not future.done() and subject in {"", asked.lower()}:
                future.set_exception(kind(why))


async def connect(url: str, user: str = "", password: str = "", *, name: str = "") -> Connection:
    """A connection to the server(s) at `url` (comma-separated); waits until one is up and logs that once.

    Raises `LogRefused` if the server does not know the user or the password.
    """
    wait = WAIT_FIRST
    while True:
        connection = Connection()
        try:
            await connection.open(url, user, password, name)
        except (OSError, TimeoutError, errors.Error) as error:
            with contextlib.suppress(Exception):  # the library waits without end for a connection that was never complete
                await asyncio.wait_for(connection.close(), WAIT_MOST)
            if "authorization" in str(error).lower():
                raise LogRefused(
                    f"NATS at {url} does not let {user or 'without a user'!r} in: look at the user and the password"
                ) from None
            if wait == WAIT_FIRST:
                _log.info("nats_awaited", url=url, reason=str(error))
            await asyncio.sleep(wait)
            wait = min(2 * wait, WAIT_MOST)
        else:
            return connection


def _address(connection: Connection) -> str:
    url = connection.connected_url
    return f"{url.hostname}:{url.port}" if url else ""


def _time_up(future: asyncio.Future[RawMessage]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def _unheard(answer: RawMessage) -> bool:
    """True for the server's own answer that the subject has no listener."""
    return not answer.data and answer.headers.get("Status") == _NO_RESPONDERS
