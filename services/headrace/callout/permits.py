"""A caller's permissions on the bus (interfaces page, Accounts), and the tag that identifies its connections."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import msgspec

from headrace.bus.nats.permissions import Credential, Kind, Rights, account_of, hearing, rights
from headrace.contracts.messages.tokens import FEED_SUFFIX, inbox_prefix
from headrace.identity.caller import OF_NODES, Caller, Role

LIFETIME = 15 * 60
"""Seconds until a connection's permission expires; the client then reconnects and is checked again."""

_KINDS: dict[Role, Kind] = {
    Role.PROVIDER_ADMIN: "admin",
    Role.PROVIDER_VIEWER: "viewer",
    Role.TENANT_ADMIN: "user",
    Role.TENANT_MEMBER: "user",
    Role.SERVICE_ACCOUNT: "user",
    Role.NODE: "node",
    Role.INSTANCE: "instance",
}


class ConnectionTag(NamedTuple):
    """Bearer of a connection: enough to decide whether the connection may stay, and to count the bearer's connections.

    `issued_at` in microseconds; 0 for a token issued by Headrace. `role`: the bearer's; a user, a service account and an administrator may
    share a handle. `connection`: the key that the server made for the connection; unique.
    """

    tenant: str
    handle: str
    token: str
    issued_at: int
    role: str = ""
    connection: str = ""

    def __str__(self) -> str:
        """Text that the server stores with the connection: a JSON array."""
        return msgspec.json.encode(self).decode()


class Permit(NamedTuple):
    """Account and rights of one connection, its expiry `until` (seconds since 1970), and the bearer's tag.

    Limits are set per account: the server ignores limits in a permission.
    """

    account: str
    rights: Rights
    until: int
    whose: ConnectionTag


def read_tag(text: str) -> ConnectionTag | None:
    """The tag of a connection; None if the text is not a tag. Release 0.1.0 wrote `tenant|handle|issued_at|token`."""
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=ConnectionTag)
    parts = text.split("|", 3)
    if len(parts) != 4 or not parts[2].isdecimal():
        return None
    return ConnectionTag(parts[0], parts[1], parts[3], int(parts[2]))


def former_name(caller: Caller) -> str:
    """A caller's name on the bus in release 0.1.0: `acme_alice`, `node_gpu01`. Two roles, or two tokens, may share it."""
    return f"node_{caller.handle}" if caller.role in OF_NODES else f"{caller.tenant}_{caller.handle}"


def permit(
    caller: Caller, shown: str, issued_at: int, now: int, *, former: bool = False, asked_as: str = "", connection: str = ""
) -> Permit:
    """A caller's permissions. `shown`: the token; `now` in seconds since 1970; `issued_at` and `connection` see `ConnectionTag`.

    `former`: the installation is below level 2, so programs of release 0.1.0 may connect, which await answers at an inbox by name, and
    receive the feed on the connection on which they ask. The provider's people have no such inbox: answers to them may contain secrets.
    `asked_as`: the user name that the connection gave. It decides only whether this connection receives the feed, and is the name of a node
    whose login is the installation's own (without a token).
    """
    is_node = caller.role in OF_NODES
    on_feed = asked_as.endswith(FEED_SUFFIX) and not is_node
    login = Credential(
        former_name(caller) if caller.token or not is_node else asked_as,
        shown,
        _KINDS[caller.role],
        tenant=caller.tenant,
        user="" if is_node else caller.handle,
        node=caller.handle if is_node else "",
    )
    account, may = account_of(login.kind, on_feed=on_feed), hearing(login) if on_feed else rights(login)
    if former and account in ("USERS", "NODES") and not caller.is_provider:
        may = may._replace(subscribe=(*may.subscribe, f"{inbox_prefix(login.name, '')}.>"))
    if former and account == "USERS":
        account, may = "FORMER", may._replace(subscribe=(*hearing(login).subscribe, *may.subscribe))
    return Permit(
        account=account,
        rights=may,
        until=min(now + LIFETIME, caller.expires_at // 1_000_000),
        whose=ConnectionTag(caller.tenant, caller.handle, caller.token, issued_at, caller.role.value, connection),
    )
