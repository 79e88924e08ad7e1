"""Limits of connections per bearer and per account; connections are listed by every NATS server over the system login.

Strategy: servers limit connections per account, not per user of an account, so the service that authorizes connections has to count.
Every instance of this service receives every authorization request, so each counts every connection that is accepted, by the key that the
server made for it. The end of a connection is not announced. So the count only rises until a limit is reached; then the servers are asked,
at most once a second, and connections that they do not list are removed, except those accepted so recently that the list may not
contain them yet.

Limits: of each account `PROVIDER_CONNECTIONS` are reserved for the provider's people, however many tenants exist; the tenants have equal
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

from headrace.bus.nats.permissions import CONNECTIONS
from headrace.callout.permits import ConnectionTag, read_tag
from headrace.callout.server_status import ask_all
from headrace.contracts.messages.tokens import PERSON_CONNECTIONS
from headrace.identity.caller import OF_NODES, Role
from headrace.nats_client.connection import Connection

LIST_CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ"
PAGE = 2_048
LIST_AGAIN_AFTER = 1.0
"""Minimum seconds between two listings of the connections of one account."""
LISTED_AFTER = 5.0
"""Seconds after which an accepted connection is in the servers' lists or has been closed by the server."""

PROVIDER_CONNECTIONS = 128
"""Maximum connections per account of the provider's administrators and viewers: half of `ADMINS`; the other half is the owner's."""
PROVIDERS = (Role.PROVIDER_ADMIN, Role.PROVIDER_VIEWER)
MIN_CONNECTIONS = 4
"""Maximum connections of one bearer that every share allows. A node has one connection, and briefly two while it reconnects."""


class ListedConnection(NamedTuple):
    """One connection: the server's id, the connection's number at that server, and the bearer's tag."""

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


class _Reply(msgspec.Struct):
    server: _Server
    data: _Page | None = None


_reply = msgspec.json.Decoder(_Reply)


async def connected(system: Connection, account: str) -> list[ListedConnection]:
    """All connections in an account that bearers of tokens have."""
    found: list[ListedConnection] = []
    offset, more = 0, True
    while more:
        more = False
        question = {"auth": True, "acc": account, "limit": PAGE, "offset": offset}
        for payload in await ask_all(system, LIST_CONNECTIONS, question):
            with contextlib.suppress(msgspec.DecodeError):
                reply = _reply.decode(payload)
                page = reply.data.connections if reply.data is not None else []
                tagged = ((one.cid, read_tag(one.authorized_user)) for one in page)
                found += [ListedConnection(reply.server.id, cid, tag) for cid, tag in tagged if tag is not None]
                more = more or len(page) == PAGE
        offset += PAGE
    return found


class ConnectionLimits:
    """Connections per bearer. `list_tags` lists the tags of all connections in an account; `tenants` returns the number of tenants."""

    def __init__(
        self,
        list_tags: Callable[[str], Awaitable[Iterable[ConnectionTag]]],
        tenants: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_tags = list_tags
        self._tenants = tenants
        self._clock = clock
        self._accounts = {account: _Account() for account in CONNECTIONS}

    async def take(self, account: str, tag: ConnectionTag) -> str:
        """Count one more connection. Returns the limit that it would exceed, in which case it is not counted; otherwise an empty text."""
        counted = self._accounts[account]
        if self._full(account, tag):
            async with counted.lock:
                began = self._clock()
                if self._full(account, tag) and began - counted.listed_at >= LIST_AGAIN_AFTER:
                    counted.listed_at = began
                    counted.replace(await self._list_tags(account), began - LISTED_AFTER)
        full = self._full(account, tag)
        if not full:
            counted.add(tag, self._clock())
        return full

    def _full(self, account: str, tag: ConnectionTag) -> str:
        counted = self._accounts[account]
        if tag.role in OF_NODES:
            most = MIN_CONNECTIONS
        else:
            share, whose = self._share(account, tag), _account_of(tag)
            most = min(PERSON_CONNECTIONS, max(MIN_CONNECTIONS, share // 4))
            if counted.of_accounts[whose] >= max(MIN_CONNECTIONS, share):
                return f"{whose} has {counted.of_accounts[whose]} connections in {account} already"
        if counted.of_bearers[_bearer(tag)] >= most:
            return f"{tag.role} {tag.handle} has {counted.of_bearers[_bearer(tag)]} connections in {account} already"
        return ""

    def _share(self, account: str, tag: ConnectionTag) -> int:
        """Maximum connections of the tenant, or of the provider, in an account."""
        if tag.role in PROVIDERS:
            return PROVIDER_CONNECTIONS
        return (CONNECTIONS[account] - PROVIDER_CONNECTIONS) // self._tenants()


def _account_of(tag: ConnectionTag) -> str:
    """The group whose connections are counted together. The provider's people have the tenant `default`, but are counted apart from it."""
    return "the provider" if tag.role in PROVIDERS else f"tenant {tag.tenant}"


def _bearer(tag: ConnectionTag) -> tuple[str, str, str]:
    return tag.role, tag.tenant, tag.handle


class _Account:
    """The connections of one account, by key, each with the time at which it was accepted (minus infinity: known from a listing only)."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.listed_at = -math.inf
        self.of_bearers = Counter[tuple[str, str, str]]()
        self.of_accounts = Counter[str]()
        self._accepted: dict[str, tuple[ConnectionTag, float]] = {}

    def add(self, tag: ConnectionTag, now: float) -> None:
        if tag.connection not in self._accepted:
            self._accepted[tag.connection] = (tag, now)
            self.of_bearers[_bearer(tag)] += 1
            self.of_accounts[_account_of(tag)] += 1

    def replace(self, listed: Iterable[ConnectionTag], since: float) -> None:
        """Replace the count by the listed connections and those accepted after `since`."""
        recent = [(tag, when) for tag, when in self._accepted.values() if when > since]
        self._accepted.clear()
        self.of_bearers.clear()
        self.of_accounts.clear()
        for tag, when in recent:
            self.add(tag, when)
        for number, tag in enumerate(listed):
            self.add(tag if tag.connection else tag._replace(connection=str(number)), -math.inf)
