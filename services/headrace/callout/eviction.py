"""Ends the connections of those who may be here no more: every server says who is connected, and is asked to end those connections."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator

import msgspec
import structlog

from headrace.bus.connection import Connection
from headrace.bus.log import LogUnavailable
from headrace.callout.permits import Tag, read_tag
from headrace.callout.servers import ask_all
from headrace.contracts.tokens import NODE_TENANT
from headrace.domain.state import State
from headrace.identity.caller import Unauthenticated
from headrace.identity.directory import Ours, resolve

WHO_IS_THERE = "$SYS.REQ.SERVER.PING.CONNZ"
PAGE = 2_048
ACCOUNTS = ("USERS", "NODES")

_log = structlog.get_logger("headrace.callout")


class _Server(msgspec.Struct):
    id: str


class _One(msgspec.Struct):
    cid: int
    authorized_user: str = ""


class _Page(msgspec.Struct):
    total: int = 0
    connections: list[_One] = []


class _Told(msgspec.Struct):
    server: _Server
    data: _Page | None = None


_told = msgspec.json.Decoder(_Told)


def may_stay(state: State, tag: Tag) -> bool:
    """Whether whoever has this connection would be let in again by the same token, as far as the ledger says."""
    if tag.issued_at:
        is_revoked = tag.token in state.tokens.revoked
        return not is_revoked and not state.tokens.is_outdated((tag.tenant, tag.handle), 0, tag.issued_at)
    try:
        caller = resolve(state, Ours(tag.token, 0))
    except Unauthenticated:
        return False
    return (caller.tenant, caller.handle) == (tag.tenant, tag.handle)


class Eviction:
    """Looks through all connections, over a login of the servers' own account."""

    def __init__(self, system: Connection) -> None:
        self._system = system

    async def run(self, state: State, paused: Container[str] = ()) -> int:
        """End the connections that may not stay, and those of nodes in `paused`; how many there were."""
        ended = 0
        for account in ACCOUNTS:
            for server, connection in await self._connected(account):
                tag = read_tag(connection.authorized_user)
                if tag is not None and (not may_stay(state, tag) or (tag.tenant == NODE_TENANT and tag.handle in paused)):
                    await self._kick(server, connection.cid)
                    _log.info("disconnected", account=account, tenant=tag.tenant, who=tag.handle, token=tag.token)
                    ended += 1
        return ended

    async def _kick(self, server: str, connection: int) -> None:
        with contextlib.suppress(LogUnavailable):  # it is gone by itself, or its server is
            await self._system.ask(f"$SYS.REQ.SERVER.{server}.KICK", msgspec.json.encode({"cid": connection}))

    async def _connected(self, account: str) -> list[tuple[str, _One]]:
        found: list[tuple[str, _One]] = []
        offset, more = 0, True
        while more:
            more = False
            for told in await self._ask({"auth": True, "acc": account, "limit": PAGE, "offset": offset}):
                found += _of(told)
                more = more or (told.data is not None and len(told.data.connections) == PAGE)
            offset += PAGE
        return found

    async def _ask(self, question: dict[str, object]) -> list[_Told]:
        told: list[_Told] = []
        for payload in await ask_all(self._system, WHO_IS_THERE, question):
            with contextlib.suppress(msgspec.DecodeError):
                told.append(_told.decode(payload))
        return told


def _of(told: _Told) -> Iterator[tuple[str, _One]]:
    if told.data is not None:
        yield from ((told.server.id, connection) for connection in told.data.connections)
