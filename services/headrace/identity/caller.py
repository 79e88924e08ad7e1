"""A caller: who shows a token, as everything that answers questions knows them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What somebody is here. One caller has one role: the strongest they may have."""

    PROVIDER_ADMIN = "provider admin"
    PROVIDER_VIEWER = "provider viewer"
    TENANT_ADMIN = "tenant admin"
    TENANT_MEMBER = "tenant member"
    SERVICE_ACCOUNT = "service account"
    NODE = "node"


class Unauthenticated(Exception):
    """Nobody is let in with this: one line that says why, without anything an attacker could learn from."""


class Denied(Exception):
    """The caller is known and may not do this; the same words whether or not what they asked for exists."""


def only_the_owner(why: str) -> str:
    """The error for a login that is refused because jobs can read what the owner can."""
    way_out = "`headrace up --jobs-are-trusted` allows others"
    return f"jobs here are not kept apart ({why}), so only the owner and administrators can log in: {way_out}"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Of a node `tenant` is empty and `handle` its name; of the provider's people `tenant` is `default`.

    `groups` are those of the tenant that the caller is in, sorted. `acting_for`: the user for whom a service account acts. `token` is
    the id of the token shown (empty where its issuer gives none), `expires_at` when it ends, microseconds since 1970. `claimed_at`: when
    the token was made whose claims say the groups; 0 where documents do, or the ledger has a newer token's word.
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
        """How facts name them: `acme.alice`."""
        return f"{self.tenant}.{self.handle}"

    @property
    def bearer(self) -> str:
        """By what one caller is told from another: two of different roles may share a handle."""
        return f"{self.role} {self.author}"

    @property
    def is_provider(self) -> bool:
        """Whether they look at all tenants."""
        return self.role in (Role.PROVIDER_ADMIN, Role.PROVIDER_VIEWER)
