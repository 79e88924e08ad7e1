"""Who is connected, as every NATS server tells it over the login that may ask; and how many connections one bearer may have.

Strategy: servers limit connections of an account, not of a user in it, so the service that answers who may connect has to count. Every
instance of this service hears every question, so each counts every connection that is let in, by the key that the server made for it.
No message says that a connection has ended. So the count only rises until it says that there is no room; then the servers are asked,
at most once a second, and connections that they do not list are forgotten, but for those let in so lately that they may not stand in the
list yet.

Limits: of each account `PROVIDER_CONNECTIONS` are kept for the provider's people, however many tenants there are; the tenants have equal
shares of the rest, so that all of them together cannot fill it. One bearer gets at most a quarter of the share that it belongs to.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import msgspec

from headrace.bus.nats.connection import Connection
from headrace.bus.nats.permissions import CONNECTIONS
from headrace.callout.permits import ConnectionTag, read_tag
from headrace.callout.server_status import ask_all
from headrace.contracts.messages.tokens import PERSON_CONNECTIONS
from headrace.identity.caller import Role

WHO_IS_THERE = "$SYS.REQ.SERVER.PING.CONNZ"
PAGE = 2_048
LOOK_AGAIN_AFTER = 1.0
"""Seconds between two looks at the connections of one account."""
LISTED_AFTER = 5.0
"""Seconds after which a connection that was let in stands in the servers' lists, or the server has given it up."""

PROVIDER_CONNECTIONS = 128
"""Max connections of all administrators and viewers of the provider in each account: half of `ADMINS`; the other half is the owner's."""
PROVIDERS = (Role.PROVIDER_ADMIN, Role.PROVIDER_VIEWER)
LEAST_CONNECTIONS = 4
"""What one bearer gets in any case. A node has one connection, and for a moment two when it comes back."""


class ListedConnection(NamedTuple):
    """One connection: at which server, its number there, and whose it is."""

    server: str
    connection: int
    tag: ConnectionTag


class _Server(msgspec.Struct):
    id: str


class _Connection(msgspec.Struct):
    cid: int
    authorized_user: str = ""


class _Page(msgspec.Struct):
    connections: list[_Connection] = []


class _Told(msgspec.Struct):
    server: _Server
    data: _Page | None = None


_told = msgspec.json.Decoder(_Told)


async def connected(system: Connection, account: str) -> list[ListedConnection]:
    """All connections of bearers of tokens in an account."""
    found: list[ListedConnection] = []
    offset, more = 0, True
    while more:
        more = False
        question = {"auth": True, "acc": account, "limit": PAGE, "offset": offset}
        for payload in await ask_all(system, WHO_IS_THERE, question):
            with contextlib.suppress(msgspec.DecodeError):
                told = _told.decode(payload)
                page = told.data.connections if told.data is not None else []
                tagged = ((one.cid, read_tag(one.authorized_user)) for one in page)
                found += [ListedConnection(told.server.id, cid, tag) for cid, tag in tagged if tag is not None]
                more = more or len(page) == PAGE
        offset += PAGE
    return found


class ConnectionLimits:
    """The connections of each bearer. `look` lists the tags of all connections in an account; `tenants` counts the tenants there are."""

    def __init__(
        self,
        look: Callable[[str], Awaitable[Iterable[ConnectionTag]]],
        tenants: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._tenants = tenants
        self._clock = clock
        self._accounts = {account: _Account() for account in CONNECTIONS}

    async def take(self, account: str, tag: ConnectionTag) -> str:
        """Count one more connection; empty, or why there is no room for it."""
        here = self._accounts[account]
        if self._full(account, tag):
            async with here.lock:
                began = self._clock()
                if self._full(account, tag) and began - here.looked >= LOOK_AGAIN_AFTER:
                    here.looked = began
                    here.keep(await self._look(account), began - LISTED_AFTER)
        full = self._full(account, tag)
        if not full:
            here.add(tag, self._clock())
        return full

    def _full(self, account: str, tag: ConnectionTag) -> str:
        here = self._accounts[account]
        if tag.role == Role.NODE:
            most = LEAST_CONNECTIONS
        else:
            share, whose = self._share(account, tag), _account_of(tag)
            most = min(PERSON_CONNECTIONS, max(LEAST_CONNECTIONS, share // 4))
            if here.of_accounts[whose] >= max(LEAST_CONNECTIONS, share):
                return f"{whose} has {here.of_accounts[whose]} connections in {account} already"
        if here.of_bearers[_bearer(tag)] >= most:
            return f"{tag.role} {tag.handle} has {here.of_bearers[_bearer(tag)]} connections in {account} already"
        return ""

    def _share(self, account: str, tag: ConnectionTag) -> int:
        """Max connections of the tenant, or of the provider, in an account."""
        if tag.role in PROVIDERS:
            return PROVIDER_CONNECTIONS
        return (CONNECTIONS[account] - PROVIDER_CONNECTIONS) // self._tenants()


def _account_of(tag: ConnectionTag) -> str:
    """Whose connections are counted together. The provider's people have the tenant `default` and are not counted with that tenant."""
    return "the provider" if tag.role in PROVIDERS else f"tenant {tag.tenant}"


def _bearer(tag: ConnectionTag) -> tuple[str, str, str]:
    return tag.role, tag.tenant, tag.handle


class _Account:
    """The connections of one account, by key, each with the time at which it was let in (minus infinity: only listed)."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.looked = -math.inf
        self.of_bearers = Counter[tuple[str, str, str]]()
        self.of_accounts = Counter[str]()
        self._let_in: dict[str, tuple[ConnectionTag, float]] = {}

    def add(self, tag: ConnectionTag, now: float) -> None:
        if tag.connection not in self._let_in:
            self._let_in[tag.connection] = (tag, now)
            self.of_bearers[_bearer(tag)] += 1
            self.of_accounts[_account_of(tag)] += 1

    def keep(self, listed: Iterable[ConnectionTag], since: float) -> None:
        """Forget what is not listed, unless it was let in after `since`."""
        recent = [(tag, when) for tag, when in self._let_in.values() if when > since]
        self._let_in.clear()
        self.of_bearers.clear()
        self.of_accounts.clear()
        for tag, when in recent:
            self.add(tag, when)
        for number, tag in enumerate(listed):
            self.add(tag if tag.connection else tag._replace(connection=str(number)), -math.inf)
