"""The caller of a request: the bearer of a token, as services that answer requests know it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The role of a caller: the strongest one that it has."""

    PROVIDER_ADMIN = "provider admin"
    PROVIDER_VIEWER = "provider viewer"
    TENANT_ADMIN = "tenant admin"
    TENANT_MEMBER = "tenant member"
    SERVICE_ACCOUNT = "service account"
    NODE = "node"
    INSTANCE = "instance"


OF_NODES = (Role.NODE, Role.INSTANCE)
"""Roles of machines: a node, and an instance that is to become one."""


class Unauthenticated(Exception):
    """The token does not identify a caller; the text is one line with the reason, without details that help an attacker."""


class Denied(Exception):
    """The caller may not do this; the text is the same whether or not the object exists."""


def only_the_owner(why: str) -> str:
    """The error for a login that is refused because jobs can read what the owner can."""
    way_out = "`headrace up --jobs-are-trusted` allows others"
    return f"jobs here are not kept apart ({why}), so only the owner and administrators can log in: {way_out}"


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity of a caller. For a node `tenant` is empty and `handle` its name; for the provider's users `tenant` is `default`.

    `groups` are the caller's groups in the tenant, sorted. `acting_for`: the user for whom a service account acts. `token` is
    the id of the token (empty if its issuer gives none), `expires_at` its expiry, microseconds since 1970. `claimed_at`: the time of issue
    of the token whose claims give the groups; 0 if documents give them, or a newer token in the ledger.
    """

    role: Role
    tenant: str
    handle: str
    groups: tuple[str, ...] = ()
    acting_for: str = ""
    token: str = ""
    expires_at: int = 0
    claimed_at: int = 0

    @property
    def author(self) -> str:
        """The caller's name in facts, such as `acme.alice`."""
        return f"{self.tenant}.{self.handle}"

    @property
    def bearer(self) -> str:
        """The key that distinguishes callers: two of different roles may share a handle."""
        return f"{self.role} {self.author}"

    @property
    def is_provider(self) -> bool:
        """True for roles that see all tenants."""
        return self.role in (Role.PROVIDER_ADMIN, Role.PROVIDER_VIEWER)
