"""The connection to the bus: questions that are answered or refused within seconds, and subjects to listen to.

The feed needs a second connection, opened on first use, because the servers let a connection publish or receive the feed, not both.

Strategy: NATS tells a publisher that it may not publish by a complaint beside the stream of messages, not by an answer. So whatever is
asked is remembered by its subject until it is answered, and a complaint about that subject is its answer.
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
from headrace.contracts.transport.tls import Distrust, trust

if TYPE_CHECKING:
    from nats.aio.msg import Msg

CONNECT_WITHIN = 2
ANSWER_WITHIN = 5.0
REFUSED_FOR = 30.0
"""Seconds."""
UNHEARD_MAX = 10_000
"""Messages that wait for a slow listener; of more, the oldest are dropped."""

_FORBIDDEN = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')


class Link:
    """One connection with one login. Once it stands it is repaired for as long as it is open."""

    def __init__(self, door: ConnectionTarget) -> None:
        self.door = door
        self._nats = ReconnectingClient()
        self._listeners: list[Link] = []
        self._listening = 0
        self._opening = asyncio.Lock()
        self._refused_since = 0.0
        self._closing: asyncio.Future[None] | None = None
        self._asked: dict[asyncio.Future[None], str] = {}

    async def open(self) -> None:
        """Connect; `Unreachable` where nobody is there within two seconds, `Refused` where the login is not known."""
        named = servers(self.door.url)
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
        """Try the first of these; the others stand in for it from then on."""
        url, login, ca = self.door
        try:
            await self._nats.connect(
                named,
                dont_randomize=True,
                name=login.name,
                user=login.name,
                password=login.password,
                inbox_prefix=inbox_prefix(login.name, login.password),
                tls=_trusted(url, ca),
                connect_timeout=CONNECT_WITHIN,
                error_cb=self._complained,
                reconnected_cb=self._back,
                allow_reconnect=False,  # until the first connection stands: else a wrong password looks like silence
                reconnect_time_wait=0.2,  # type: ignore[arg-type]  # nats-py counts any seconds
                max_reconnect_attempts=1,
                ping_interval=ping_interval(url),  # type: ignore[arg-type]  # the same
            )
        except (OSError, TimeoutError, errors.Error) as error:
            with contextlib.suppress(Exception):  # of a connection that was never whole, the library waits for ever
                await asyncio.wait_for(self._nats.close(), CONNECT_WITHIN)
            if isinstance(error, ssl.SSLCertVerificationError):
                why = "set HEADRACE_CA to the file of the authority it is from"
                raise Unreachable(f"NATS at {url} shows a certificate that is not believed here: {why}") from None
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
        """Say goodbye; more than once does no harm."""
        for listener in self._listeners:
            await listener.close()
        if not self._nats.is_closed:
            await self._nats.close()

    async def ask(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, within: float = ANSWER_WITHIN
    ) -> bytes:
        """The answer. `Unreachable` where nobody listens or nothing comes; `Refused` where this login may not ask that."""
        refusal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        question = asyncio.ensure_future(self._nats.request(subject, payload, within, headers=dict(headers or {}) or None))
        self._asked[refusal] = subject
        try:
            await asyncio.wait((question, refusal), return_when=asyncio.FIRST_COMPLETED)
            if not question.done():
                raise self._not_allowed(subject)
            return question.result().data
        except errors.NoRespondersError:
            raise Unreachable(f"nobody listens on {subject}; `headrace status` tells what is away") from None
        except errors.MaxPayloadError:
            raise Refused("INVALID", f"{len(payload)} bytes are more than NATS takes, {self._nats.max_payload}") from None
        except (errors.Error, TimeoutError, OSError) as error:
            why = f"nothing within {within:g} s" if isinstance(error, TimeoutError) else str(error).removeprefix("nats: ")
            raise Unreachable(f"no answer on {subject}: {why}; `headrace status` tells what is away") from None
        finally:
            del self._asked[refusal]
            question.cancel()
            refusal.cancel()

    @asynccontextmanager
    async def listening(self, subject: str) -> AsyncIterator[asyncio.Queue[tuple[str, bytes]]]:
        """Whatever is said on a subject (wildcards allowed) from now on, as (subject, payload); who is slow hears the newest."""
        heard: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(UNHEARD_MAX)

        async def hear(message: Msg) -> None:
            if heard.full():  # FEED keeps no promise; what is asked next tells what has become of it
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
                raise Unreachable(f"NATS went away: {error}") from None
            finally:
                with contextlib.suppress(errors.Error):
                    await subscription.unsubscribe()
        finally:
            listener._listening -= 1

    async def _listener(self) -> Link:
        """A connection that hears the feed and has room for one more subscription."""
        async with self._opening:
            self._listeners = [one for one in self._listeners if not one._nats.is_closed]
            for listener in self._listeners:
                if listener._listening < FEED_SUBSCRIPTIONS:
                    return listener
            login = msgspec.structs.replace(self.door.login, name=self.door.login.name + FEED_SUFFIX)
            listener = Link(self.door._replace(login=login))
            await listener.open()
            self._listeners.append(listener)
            return listener

    def _not_allowed(self, subject: str) -> Refused:
        return Refused(
            "NOT_ALLOWED", f"the login {self.door.login.name!r} may not speak on {subject}: look at the tenant and the user"
        )

    async def _back(self) -> None:
        self._refused_since = 0.0

    async def _complained(self, error: Exception) -> None:
        if "authorization" in str(error).lower():  # it comes back, and is not let in: those who decide may be away for a moment
            now = asyncio.get_running_loop().time()
            self._refused_since = self._refused_since or now
            if now - self._refused_since > REFUSED_FOR:
                self._closing = asyncio.ensure_future(self._nats.close())
        forbidden = _FORBIDDEN.search(str(error).lower())  # nats-py makes the subject lower case as well
        if forbidden is not None:
            for refusal, subject in self._asked.items():
                if subject.lower() == forbidden[2] and not refusal.done():
                    refusal.set_result(None)


def _trusted(url: str, ca: str) -> ssl.SSLContext | None:
    try:
        return trust(url, ca)
    except Distrust as error:
        raise Unreachable(str(error)) from None
