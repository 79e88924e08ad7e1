"""What a caller may do on the bus (interfaces page, Accounts), and the tag by which its connections are known."""

from __future__ import annotations

from typing import NamedTuple

from headrace.bus.accounts import Credential, Kind, Rights, rights
from headrace.contracts.tokens import inbox_prefix
from headrace.identity.caller import Caller, Role

LIFETIME = 15 * 60
"""Seconds for which a connection is let in; then it comes again, and is looked at again."""

_KINDS: dict[Role, Kind] = {
    Role.PROVIDER_ADMIN: "admin",
    Role.PROVIDER_VIEWER: "viewer",
    Role.TENANT_ADMIN: "user",
    Role.TENANT_MEMBER: "user",
    Role.SERVICE_ACCOUNT: "user",
    Role.NODE: "node",
}


class Permit(NamedTuple):
    """Account and rights of one connection, `until` when (seconds since 1970), and the tag that says whose it is.

    Limits are the accounts': of what a permission says besides, the server heeds none.
    """

    account: str
    rights: Rights
    until: int
    tag: str


class Tag(NamedTuple):
    """Whose connection it is: enough to find out whether it may go on. `issued_at` in microseconds, 0: a token of ours."""

    tenant: str
    handle: str
    token: str
    issued_at: int

    def __str__(self) -> str:
        """As the server keeps it with the connection."""
        return "|".join((self.tenant, self.handle, str(self.issued_at), self.token))


def read_tag(text: str) -> Tag | None:
    """The tag of a connection; None where it is none of ours."""
    parts = text.split("|", 3)
    if len(parts) != 4 or not parts[2].isdecimal():
        return None
    return Tag(parts[0], parts[1], parts[3], int(parts[2]))


def former_name(caller: Caller) -> str:
    """What a caller was called on the bus by release 0.1.0: `acme_alice`, `node_gpu01`. Two roles, or two tokens, may share it."""
    return f"node_{caller.handle}" if caller.role is Role.NODE else f"{caller.tenant}_{caller.handle}"


def permit(caller: Caller, shown: str, issued_at: int, now: int, *, former: bool = False) -> Permit:
    """What a caller may do. `shown`: the token; `now` in seconds since 1970; `issued_at` see `Tag`.

    `former`: programs of release 0.1.0 may be about, which await answers at an inbox by name. The provider's people are never let hear
    there: what is answered to them may be a secret.
    """
    is_node = caller.role is Role.NODE
    login = Credential(
        former_name(caller),
        shown,
        _KINDS[caller.role],
        tenant=caller.tenant,
        user="" if is_node else caller.handle,
        node=caller.handle if is_node else "",
    )
    may = rights(login)
    if former and not caller.is_provider:
        may = may._replace(subscribe=(*may.subscribe, f"{inbox_prefix(login.name, '')}.>"))
    return Permit(
        account="NODES" if is_node else "USERS",
        rights=may,
        until=min(now + LIFETIME, caller.expires_at // 1_000_000),
        tag=str(Tag(caller.tenant, caller.handle, caller.token, issued_at)),
    )
