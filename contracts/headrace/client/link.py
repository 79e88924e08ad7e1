"""The connection to NATS: requests that are answered or refused within seconds, and subscriptions.

The feed needs a second connection, opened on first use, because the servers let a connection publish or receive the feed, not both.

Strategy: NATS reports a missing permission to publish as an asynchronous error, not as an answer. So the subject of each request is kept
until it is answered, and a permission error about that subject is its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from nats import errors

from headrace.client.endpoint import ConnectionTarget
from headrace.client.errors import Refused, Unreachable
from headrace.client.nats_client import ReconnectingClient
from headrace.contracts.messages.tokens import FEED_SUBSCRIPTIONS, FEED_SUFFIX, PERSON_CONNECTIONS, inbox_prefix
from headrace.contracts.transport.servers import ping_interval, servers
from headrace.contracts.transport.tls import CertificateError, tls_context

if TYPE_CHECKING:
    from nats.aio.msg import Msg

CONNECT_WITHIN = 2
ANSWER_WITHIN = 5.0
REFUSED_FOR = 30.0
"""Seconds for which the client reconnects although its login is refused."""
PENDING_MAX = 10_000
"""Maximum number of messages that wait for a slow subscriber; the oldest are dropped."""

_FORBIDDEN = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')


class Link:
    """One connection with one login. Once connected it reconnects for as long as it is open."""

    def __init__(self, target: ConnectionTarget) -> None:
        self.target = target
        self._nats = ReconnectingClient()
        self._listeners: list[Link] = []
        self._listening = 0
        self._opening = asyncio.Lock()
        self._refused_since = 0.0
        self._closing: asyncio.Future[None] | None = None
        self._asked: dict[asyncio.Future[None], str] = {}

    async def open(self) -> None:
        """Connect. Raises Unreachable without a server within two seconds, Refused if the login is unknown."""
        named = servers(self.target.url)
        random.shuffle(named)
        for _ in named[1:]:
            try:
                await self._open(named)
            except Unreachable:
                named = [*named[1:], named[0]]
                self._nats = ReconnectingClient()
            else:
                return
        await self._open(named)

    async def _open(self, named: list[str]) -> None:
        """Connect to the first of these; the others are fallbacks from then on."""
        url, login, ca = self.target
        try:
            await self._nats.connect(
                named,
                dont_randomize=True,
                name=login.name,
                user=login.name,
                password=login.password,
                inbox_prefix=inbox_prefix(login.name, login.password),
                tls=_tls_context(url, ca),
                connect_timeout=CONNECT_WITHIN,
                error_cb=self._on_error,
                reconnected_cb=self._on_reconnected,
                allow_reconnect=False,  # until the first connection: else a wrong password looks like a server that does not answer
                reconnect_time_wait=0.2,  # type: ignore[arg-type]  # nats-py accepts fractions of seconds
                max_reconnect_attempts=1,
                ping_interval=ping_interval(url),  # type: ignore[arg-type]  # the same
            )
        except (OSError, TimeoutError, errors.Error) as error:
            with contextlib.suppress(Exception):  # the library waits without end for a connection that was never complete
                await asyncio.wait_for(self._nats.close(), CONNECT_WITHIN)
            if isinstance(error, ssl.SSLCertVerificationError):
                why = "set HEADRACE_CA to the file of the certificate authority"
                raise Unreachable(f"NATS at {url} shows a certificate that is not trusted here: {why}") from None
            if "authorization" in str(error).lower():
                raise Refused(
                    "NOT_ALLOWED",
                    f"NATS at {url} does not let {login.name!r} in: look at its password, or ask for a new token;"
                    f" if it has many connections open (at most {PERSON_CONNECTIONS}, fewer with many tenants), close some",
                ) from None
            raise Unreachable(f"NATS at {url} does not answer. Is Headrace up? `headrace up` starts it") from None
        self._nats.options["allow_reconnect"] = True
        self._nats.options["max_reconnect_attempts"] = -1

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
        refusal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        question = asyncio.ensure_future(self._nats.request(subject, payload, within, headers=dict(headers or {}) or None))
        self._asked[refusal] = subject
        try:
            await asyncio.wait((question, refusal), return_when=asyncio.FIRST_COMPLETED)
            if not question.done():
                raise self._not_allowed(subject)
            return question.result().data
        except errors.NoRespondersError:
            raise Unreachable(f"no service listens on {subject}; `headrace status` tells what is away") from None
        except errors.MaxPayloadError:
            raise Refused(
                "INVALID", f"a message of {len(payload)} bytes is too large; NATS accepts {self._nats.max_payload}"
            ) from None
        except (errors.Error, TimeoutError, OSError) as error:
            why = f"nothing within {within:g} s" if isinstance(error, TimeoutError) else str(error).removeprefix("nats: ")
            raise Unreachable(f"no answer on {subject}: {why}; `headrace status` tells what is away") from None
        finally:
            del self._asked[refusal]
            question.cancel()
            refusal.cancel()

    @asynccontextmanager
    async def listening(self, subject: str) -> AsyncIterator[asyncio.Queue[tuple[str, bytes]]]:
        """Messages on a subject (wildcards allowed) from now on, as (subject, payload); a slow subscriber loses the oldest."""
        heard: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(PENDING_MAX)

        async def hear(message: Msg) -> None:
            if heard.full():  # the feed may lose facts; the next query returns the state
                heard.get_nowait()
            heard.put_nowait((message.subject, message.data))

        listener = await self._listener()
        listener._listening += 1
        try:
            subscription = await listener._nats.subscribe(subject, cb=hear)
            try:
                await listener._nats.flush()
                yield heard
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
            listener = Link(self.target._replace(login=login))
            await listener.open()
            self._listeners.append(listener)
            return listener

    def _not_allowed(self, subject: str) -> Refused:
        return Refused(
            "NOT_ALLOWED", f"the login {self.target.login.name!r} may not publish on {subject}: check the tenant and the user"
        )

    async def _on_reconnected(self) -> None:
        self._refused_since = 0.0

    async def _on_error(self, error: Exception) -> None:
        if "authorization" in str(error).lower():  # the services that decide on logins may be away for a moment
            now = asyncio.get_running_loop().time()
            self._refused_since = self._refused_since or now
            if now - self._refused_since > REFUSED_FOR:
                self._closing = asyncio.ensure_future(self._nats.close())
        forbidden = _FORBIDDEN.search(str(error).lower())  # nats-py makes the subject lower case as well
        if forbidden is not None:
            for refusal, subject in self._asked.items():
                if subject.lower() == forbidden[2] and not refusal.done():
                    refusal.set_result(None)


def _tls_context(url: str, ca: str) -> ssl.SSLContext | None:
    try:
        return tls_context(url, ca)
    except CertificateError as error:
        raise Unreachable(str(error)) from None
