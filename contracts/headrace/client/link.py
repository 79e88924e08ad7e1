"""The connection to NATS: requests that are answered or refused within seconds, and subscriptions.

The feed needs a second connection, opened on first use, because the servers let a connection publish or receive the feed, not both.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
from nats import errors

from headrace.client.endpoint import ConnectionTarget
from headrace.client.errors import Busy, Refused, Unreachable
from headrace.contracts.messages.tokens import FEED_SUBSCRIPTIONS, FEED_SUFFIX, PERSON_CONNECTIONS
from headrace.contracts.transport.servers import servers
from headrace.contracts.transport.tls import CertificateError
from headrace.nats_client.acknowledgement import (
    DUPLICATE,
    TOO_MANY_AT_ONCE,
    TOO_MANY_SUBMISSIONS,
    TRY_AGAIN_AFTER,
    Acknowledgement,
)
from headrace.nats_client.connection import Address, Connection, Observer, is_refused
from headrace.nats_client.errors import LogRefused, LogUnavailable, NoListener, TooLarge
from headrace.nats_client.raw_message import RawMessage

ANSWER_WITHIN = 5.0
RECONNECT_WAIT = 0.2
REFUSED_FOR = 30.0
"""Seconds for which the client reconnects although its login is refused."""
PENDING_MAX = 10_000
"""Maximum number of messages that wait for a slow subscriber; the oldest are dropped."""


class Link(Observer):
    """One connection with one login. Once connected it reconnects for as long as it is open.

    `receives`: it gets the feed, and makes no requests.
    """

    def __init__(self, target: ConnectionTarget, *, receives: bool = False) -> None:
        self.target = target
        self._receives = receives
        self._nats = self._new()
        self._listeners: list[Link] = []
        self._listening = 0
        self._opening = asyncio.Lock()
        self._refused_since = 0.0
        self._closing: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Connect. Raises Unreachable without a server within two seconds, Refused if the login is unknown."""
        named = servers(self.target.url)
        random.shuffle(named)
        for _ in named[1:]:
            try:
                await self._open(named)
            except Unreachable:
                named = [*named[1:], named[0]]
                self._nats = self._new()
            else:
                return
        await self._open(named)

    async def _open(self, named: list[str]) -> None:
        """Connect to the first of these; the others are fallbacks from then on."""
        url, login, ca = self.target
        address = Address(",".join(named), login.name, login.password, ca)
        try:
            await self._nats.open(address, asks=not self._receives, in_order=True, reconnect_wait=RECONNECT_WAIT)
        except CertificateError as error:
            raise Unreachable(str(error)) from None
        except (OSError, TimeoutError, errors.Error) as error:
            if isinstance(error, ssl.SSLCertVerificationError):
                why = "set HEADRACE_CA to the file of the certificate authority"
                raise Unreachable(f"NATS at {url} shows a certificate that is not trusted here: {why}") from None
            if is_refused(error):
                raise Refused(
                    "NOT_ALLOWED",
                    f"NATS at {url} does not let {login.name!r} in: look at its password, or ask for a new token;"
                    f" if it has many connections open (at most {PERSON_CONNECTIONS}, fewer with many tenants), close some",
                ) from None
            raise Unreachable(f"NATS at {url} does not answer. Is Headrace up? `headrace up` starts it") from None

    async def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        for listener in self._listeners:
            await listener.close()
        if not self._nats.is_closed:
            await self._nats.close()

    async def ask(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, within: float = ANSWER_WITHIN
    ) -> bytes:
        """The answer. Raises Unreachable without a responder or answer, Refused if this login may not publish there."""
        try:
            return (await self._nats.ask(subject, payload, headers, within)).data
        except NoListener:
            raise Unreachable("no service takes this in now; `headrace status` shows what is not running") from None
        except LogUnavailable as error:
            raise Unreachable(f"{_without_subject(error)}; `headrace status` shows what is not running") from None
        except TooLarge:
            raise Refused(
                "INVALID", f"a message of {len(payload)} bytes is too large; NATS accepts {self._nats.max_payload}"
            ) from None
        except LogRefused:
            raise Refused(
                "NOT_ALLOWED",
                f"the login {self.target.login.name!r} may not do this for that tenant and user: check --tenant and --user",
            ) from None

    @asynccontextmanager
    async def listening(self, subject: str) -> AsyncIterator[asyncio.Queue[tuple[str, bytes]]]:
        """Messages on a subject (wildcards allowed) from now on, as (subject, payload); a slow subscriber loses the oldest."""
        received: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(PENDING_MAX)

        def enqueue(message: RawMessage) -> None:
            if received.full():  # the feed may lose facts; the next query returns the state
                received.get_nowait()
            received.put_nowait((message.subject, message.data))

        listener = await self._listener()
        listener._listening += 1
        try:
            subscription = await listener._nats.listen(subject, enqueue)
            try:
                await listener._nats.flush()
                yield received
            except (errors.Error, TimeoutError) as error:
                raise Unreachable(f"the connection to NATS ended: {error}") from None
            finally:
                with contextlib.suppress(errors.Error):
                    await subscription.unsubscribe()
        finally:
            listener._listening -= 1

    async def _listener(self) -> Link:
        """A connection that may receive the feed, with room for one more subscription."""
        async with self._opening:
            self._listeners = [one for one in self._listeners if not one._nats.is_closed]
            for listener in self._listeners:
                if listener._listening < FEED_SUBSCRIPTIONS:
                    return listener
            login = msgspec.structs.replace(self.target.login, name=self.target.login.name + FEED_SUFFIX)
            listener = Link(self.target._replace(login=login), receives=True)
            await listener.open()
            self._listeners.append(listener)
            return listener

    def _new(self) -> Connection:
        connection = Connection(self, keeps_requests=True)
        connection.watch(self._came_back)
        return connection

    def _came_back(self) -> None:
        self._refused_since = 0.0

    def refused(self) -> None:
        """Close after `REFUSED_FOR` seconds; the services that decide on logins may be away for a moment."""
        now = asyncio.get_running_loop().time()
        self._refused_since = self._refused_since or now
        if now - self._refused_since > REFUSED_FOR:
            self._closing = asyncio.ensure_future(self._nats.close())


def _without_subject(error: LogUnavailable) -> str:
    """The text of an error in words of people: a request without an answer names its subject, which tells them nothing."""
    return re.sub(r"^no answer on \S+ within", "no answer within", str(error))


def check_stored(answer: bytes) -> None:
    """Raises Refused unless the answer to a publish says that the message is stored, Busy if it may be repeated at once."""
    acknowledgement = msgspec.json.decode(answer, type=Acknowledgement)
    fault = acknowledgement.error
    if fault is None:
        if acknowledgement.duplicate:
            raise Refused("UNAVAILABLE", f"{DUPLICATE}; submit it again")
        return
    if fault.is_full:
        raise Refused("TOO_FAST", TOO_MANY_SUBMISSIONS, retry_after=TRY_AGAIN_AFTER)
    if acknowledgement.is_busy:
        raise Busy("TOO_FAST", TOO_MANY_AT_ONCE, retry_after=TRY_AGAIN_AFTER)
    if fault.disk_error:
        text = f"{fault.disk_error}; try again in {TRY_AGAIN_AFTER} s"
        raise Refused("DISK_FULL", text, retry_after=TRY_AGAIN_AFTER)
    raise Refused("UNAVAILABLE", f"NATS does not store it: {fault.description}; try again in a while")
