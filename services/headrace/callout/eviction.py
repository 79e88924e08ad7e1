"""Ends the connections of bearers whose access was withdrawn: lists the connections of every server and asks it to close those."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container

import msgspec
import structlog

from headrace.bus.log import LogUnavailable
from headrace.bus.nats.permissions import CONNECTIONS
from headrace.callout.connection_limits import connected
from headrace.callout.permits import ConnectionTag
from headrace.contracts.messages.tokens import NODE_TENANT
from headrace.domain.state.state import State
from headrace.identity.caller import Role, Unauthenticated
from headrace.identity.principals import IssuedToken, resolve
from headrace.nats_client.connection import Connection

_log = structlog.get_logger("headrace.callout")


def may_stay(state: State, tag: ConnectionTag) -> bool:
    """Whether the same token, or login of the installation, would be accepted again, as far as the ledger says."""
    if not tag.token and tag.role == Role.NODE:
        return tag.handle not in state.excluded
    if tag.issued_at:
        is_revoked = tag.token in state.tokens.revoked
        return not is_revoked and not state.tokens.is_outdated((tag.tenant, tag.handle), 0, tag.issued_at)
    try:
        caller = resolve(state, IssuedToken(tag.token, 0))
    except Unauthenticated:
        return False
    return (caller.tenant, caller.handle) == (tag.tenant, tag.handle)


class Eviction:
    """Checks all connections, over a login of the servers' system account."""

    def __init__(self, system: Connection) -> None:
        self._system = system

    async def run(self, state: State, paused: Container[str] = ()) -> int:
        """End the connections that may not stay, and those of nodes in `paused`. Returns how many were ended."""
        return sum(await asyncio.gather(*(self._end_in(account, state, paused) for account in CONNECTIONS)))

    async def _end_in(self, account: str, state: State, paused: Container[str]) -> int:
        ended = 0
        for server, connection, tag in await connected(self._system, account):
            if not may_stay(state, tag) or (tag.tenant == NODE_TENANT and tag.handle in paused):
                _log.info("disconnected", account=account, tenant=tag.tenant, who=tag.handle, token=tag.token)
                await self._kick(server, connection)
                ended += 1
        return ended

    async def tags(self, account: str) -> list[ConnectionTag]:
        """Tags of the connections in an account."""
        return [one.tag for one in await connected(self._system, account)]

    async def _kick(self, server: str, connection: int) -> None:
        with contextlib.suppress(LogUnavailable):  # the connection or its server has gone already
            await self._system.ask(f"$SYS.REQ.SERVER.{server}.KICK", msgspec.json.encode({"cid": connection}))
