"""Tokens: whom the embedded issuer gives one, what stands in it, and the questions by which *governance* makes and revokes them."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from headrace.contracts.facts.fact import Value
from headrace.contracts.values.durations import DAY

ISSUER = "headrace"
"""The embedded issuer, as `iss` names it."""
AUDIENCE = "headrace"
"""For whom every token has to be made, as `aud` says."""

LIFETIME = 30 * DAY
LIFETIME_MAX = 366 * DAY
"""Microseconds. A node or a pipeline that is given one for a year is given the next one before."""

FEED_SUFFIX = "_feed"
"""What the user name of a connection that hears the feed ends in; names of logins have no `_`."""
FEED_SUBSCRIPTIONS = 8
"""Max subscriptions of such a connection; the server ends it if there are more."""

PERSON_CONNECTIONS = 64
"""Max connections of one person or service account in each account of NATS that has people; less where there are many tenants."""

NODE_TENANT = ""
PROVIDER_TENANT = "default"


class TokenRole(StrEnum):
    """For what a token was made. What its bearer may do is decided when it is shown (`headrace.identity.principals`)."""

    USER = "user"
    SERVICE_ACCOUNT = "service-account"
    NODE = "node"
    ADMIN = "admin"
    VIEWER = "viewer"


class Grant(NamedTuple):
    """A token to be signed. Times in seconds since 1970."""

    id: str
    role: TokenRole
    tenant: str
    handle: str
    issued_at: int
    expires_at: int


class Spoken(NamedTuple):
    """Whom a token speaks for, as its bearer reads it, unverified: enough to know which subjects are one's own."""

    role: str
    tenant: str
    handle: str


class NodeClaims(Value, frozen=True, kw_only=True):
    """What a node may say of itself. Each field: None where nothing is said of it.

    `labels`: the value `*` stands for any. `gpus`: the number of devices. `isolation`: the highest level, one of `isolation.LEVELS`.
    """

    labels: dict[str, str] | None = None
    gpus: int | None = None
    isolation: str | None = None


class ApproveNodeRequest(Value, frozen=True, kw_only=True):
    """To *governance* `approve`: what a node says of itself is to be believed as far as `claims` go; without any: all that it says now."""

    node: str
    claims: NodeClaims = NodeClaims()
    reason: str = ""


class StorageReport(Value, frozen=True, kw_only=True):
    """From *callout* to *governance* `storage`: bytes used by streams on the NATS server with the least room, and its limit."""

    used: int
    limit: int


class PauseRequest(Value, frozen=True, kw_only=True):
    """From *governance* to *callout* `pause`: end a node's connections, and keep it out until the fact that excludes it is read."""

    node: str


class TokenRequest(Value, frozen=True, kw_only=True):
    """To *governance* `token-create`: a token for a user, a service account, a node, or an administrator of the installation.

    `lifetime` in microseconds, 0 for the usual one. `claims`: how much of what a node says of itself is believed. Fields that are not said
    keep what was approved before; without that nothing is believed until an operator approves it.
    """

    role: str
    handle: str
    tenant: str = ""
    lifetime: int = 0
    reason: str = ""
    claims: NodeClaims | None = None


class TokenAnswer(Value, frozen=True, kw_only=True):
    """The token itself, which is told once and kept by nobody, and its id. `expires_at` in microseconds since 1970."""

    token: str
    id: str
    expires_at: int


class RevokeRequest(Value, frozen=True, kw_only=True):
    """To *governance* `token-revoke`: one token by its id, or all that a bearer was given up to now, by whichever issuer."""

    token: str = ""
    tenant: str = ""
    handle: str = ""
    reason: str = ""


class TokensRequest(Value, frozen=True, kw_only=True):
    """To *governance* `tokens`: those that are good, of one tenant or of all."""

    tenant: str = ""


class TokenView(Value, frozen=True, kw_only=True):
    """A token of the embedded issuer that has not expired; times in microseconds since 1970, `revoked_at` 0 where it is good."""

    id: str
    role: str
    tenant: str
    handle: str
    author: str
    created_at: int
    expires_at: int
    revoked_at: int = 0


class TokensAnswer(Value, frozen=True, kw_only=True):
    """The tokens, newest first."""

    tokens: tuple[TokenView, ...] = ()


class _Payload(msgspec.Struct):
    role: str = TokenRole.USER
    tenant: str = ""
    handle: str = ""


def inbox_prefix(login: str, shown: str) -> str:
    """Below which subject the answers to a connection come. `login`: its name; `shown`: the password, or the bearer's token.

    A login of the servers' own configuration has an inbox by its name, and a bearer one by the token: so nobody hears what is answered to
    another token, one of the same handle and another role included. (A token is three parts, and the first begins as JSON in base64.)
    """
    if shown.startswith("e") and shown.count(".") == 2:
        return f"_INBOX_t_{blake2b(shown.encode(), digest_size=16).hexdigest()}"
    return f"_INBOX_{login}" if login else "_INBOX"


def spoken_for(token: str) -> Spoken | None:
    """What a token of the embedded issuer says of its bearer; None for another issuer's, or what is no token. Nothing is verified."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = msgspec.json.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Payload)
    except (ValueError, RecursionError):
        return None
    return Spoken(payload.role, payload.tenant, payload.handle) if payload.handle else None
