"""A connection to NATS with one login: reconnects without end once it has been open, and has cheap requests.

Strategy: `ask` is a request with one reply inbox for the lifetime of the connection and a counter as the token: a tenth of the cost of
nats-py's. Unanswered requests fail at once when the server disconnects, so that a writer learns of it in milliseconds and not by a
timeout. NATS reports a missing permission to publish as an asynchronous error, not as an answer: it fails the requests on that subject.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from nats import errors

from headrace.contracts.messages.tokens import inbox_prefix
from headrace.contracts.transport.servers import ping_interval, servers
from headrace.contracts.transport.tls import tls_context
from headrace.nats_client.errors import LogError, LogRefused, LogUnavailable, NoListener, TooLarge
from headrace.nats_client.hardened_client import HardenedClient
from headrace.nats_client.raw_message import RawMessage

ASK_TIMEOUT = 3.0
"""Timeout of an answer in seconds; a durable append with a busy disk takes well under one."""
ASK_AMONG = 1.0
"""Timeout in seconds with several servers: while they have no leader they do not answer, and the request is repeated afterwards."""

RECONNECT_WAIT = 0.1
CLOSE_WITHIN = 1.0

_FORBIDDEN = re.compile(r'permissions violation for publish to "([^"]*)"')
_NO_RESPONDERS = "503"


class Address(NamedTuple):
    """Addresses of the servers, comma-separated, and a login. `ca`: file of the trusted authority, see `contracts.transport.tls`."""

    url: str
    user: str = ""
    password: str = ""
    ca: str = ""


class Observer:
    """Hears what happens to a connection that has been open; this one ignores it. `server`: its host and port."""

    def lost(self, server: str) -> None:
        """The server is away; the client reconnects."""

    def back(self, server: str) -> None:
        """The client has reconnected."""

    def closed(self) -> None:
        """Closed, by this process or for good by the server."""

    def refused(self) -> None:
        """The server did not accept the login again; the client tries on."""

    def complained(self, complaint: str) -> None:
        """An error of the connection; one that is repeated is reported once."""


class Connection(HardenedClient):
    """One connection of one login. `closed_for_good` is set when it was closed, or the server rejected the login: it will not reconnect.

    `several`: more than one server is configured, and each can replace the others. `keeps_requests`: a request waits for its answer while
    the client reconnects, and may be made meanwhile; False: it fails at once.
    """

    several = False

    def __init__(self, observer: Observer | None = None, *, keeps_requests: bool = False) -> None:
        super().__init__()
        self.closed_for_good = asyncio.Event()
        self._observer = observer or Observer()
        self._keeps_requests = keeps_requests
        self._was_open = False
        self._asked = 0
        self._inbox = ""
        self._unanswered: dict[str, tuple[str, asyncio.Future[RawMessage]]] = {}
        self._watchers: dict[Callable[[], None], None] = {}
        self._last_complaint = ""

    async def ask(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, within: float | None = None
    ) -> RawMessage:
        """The answer to a request.

        Raises `LogUnavailable` without a server, or without an answer `within` that many seconds (None: the default for these servers): the
        request may or may not have been received. Raises `NoListener` without a listener, `TooLarge`, and `LogRefused` if this login may
        not publish there.
        """
        within = (ASK_AMONG if self.several else ASK_TIMEOUT) if within is None else within
        answer = await self._ask_once(subject, payload, headers, within)
        if _unheard(answer):  # also sent for a moment after a connection in another account; then the request was not received
            answer = await self._ask_once(subject, payload, headers, within)
        if _unheard(answer):
            raise NoListener(f"no listener on {subject}: is that stream or service up?")
        return answer

    async def _ask_once(self, subject: str, payload: bytes, headers: Mapping[str, str] | None, within: float) -> RawMessage:
        if not (self.is_connected or self._keeps_requests):
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
            raise TooLarge(f"{len(payload)} bytes on {subject}: the server takes at most {self.max_payload}") from None
        except (errors.Error, OSError) as error:
            raise LogUnavailable(f"NATS is away: {error}") from error
        finally:
            del self._unanswered[token]

    def watch(self, came_back: Callable[[], None]) -> Callable[[], None]:
        """Call `came_back` whenever the server is back after a disconnect; the result ends that."""
        self._watchers[came_back] = None  # ordered, so that calls happen in the same order each time
        return lambda: self._watchers.pop(came_back, None)

    async def open(
        self,
        address: Address,
        name: str = "",
        *,
        asks: bool = True,
        in_order: bool = False,
        reconnect_wait: float = RECONNECT_WAIT,
    ) -> None:
        """Connect once; from then on it reconnects without end, with `reconnect_wait` seconds between attempts.

        Raises what nats-py raises (see `is_refused`), and `CertificateError`. `asks`: it will make requests. `in_order`: begin with the
        first server, not with any.
        """
        try:
            await self.connect(
                servers(address.url),
                dont_randomize=in_order,
                name=name or address.user,
                user=address.user or None,
                password=address.password or None,
                inbox_prefix=inbox_prefix(address.user, address.password),
                tls=tls_context(address.url, address.ca),
                error_cb=self._on_error,
                disconnected_cb=self._on_lost,
                reconnected_cb=self._on_back,
                closed_cb=self._on_closed,
                allow_reconnect=False,  # only until the first connection is up: otherwise nats-py hides the reason of a failure
                max_reconnect_attempts=1,
                reconnect_time_wait=reconnect_wait,  # type: ignore[arg-type]  # nats-py counts any seconds
                ping_interval=ping_interval(address.url),  # type: ignore[arg-type]  # the same
            )
        except (OSError, TimeoutError, errors.Error):
            with contextlib.suppress(Exception):  # the library waits without end for a connection that was never complete
                await asyncio.wait_for(self.close(), CLOSE_WITHIN)
            raise
        self.options["allow_reconnect"] = True
        self.options["max_reconnect_attempts"] = -1
        self.several = len(servers(address.url)) > 1
        self._was_open = True
        if asks:
            self._inbox = f"{self.new_inbox()}."
            await self.listen(self._inbox + "*", self._answered)

    def _answered(self, message: RawMessage) -> None:
        waiting = self._unanswered.get(message.subject[len(self._inbox) :])
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(message)

    async def _on_lost(self) -> None:
        if not self.is_closed:
            self._observer.lost(self._server)
        if not self._keeps_requests:
            self._fail_unanswered(LogUnavailable, "NATS went away before it answered")

    async def _on_back(self) -> None:
        self._last_complaint = ""
        self._observer.back(self._server)
        for came_back in tuple(self._watchers):
            came_back()

    async def _on_closed(self) -> None:
        self.closed_for_good.set()
        self._fail_unanswered(LogUnavailable, "the connection to NATS is closed")
        if self._was_open:
            self._observer.closed()

    async def _on_error(self, error: Exception) -> None:
        complaint = str(error) or type(error).__name__
        forbidden = _FORBIDDEN.search(complaint)
        if forbidden:  # nats-py converts it to lower case
            self._fail_unanswered(LogRefused, f"this user may not publish to {forbidden[1]}", forbidden[1])
        if not self._was_open:
            return
        if is_refused(complaint):
            self._observer.refused()
        if complaint != self._last_complaint:  # while the server is away the same error comes ten times a second
            self._last_complaint = complaint
            self._observer.complained(complaint)

    @property
    def _server(self) -> str:
        url = self.connected_url
        return f"{url.hostname}:{url.port}" if url else ""

    def _fail_unanswered(self, kind: type[LogError], why: str, subject: str = "") -> None:
        for asked, future in self._unanswered.values():
            if not future.done() and subject in {"", asked.lower()}:
                future.set_exception(kind(why))


def is_refused(error: Exception | str) -> bool:
    """True for the error of a server that does not know the login, or for its text."""
    return "authorization" in str(error).lower()


def _time_up(future: asyncio.Future[RawMessage]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def _unheard(answer: RawMessage) -> bool:
    """True for the server's own answer that the subject has no listener."""
    return not answer.data and answer.headers.get("Status") == _NO_RESPONDERS
