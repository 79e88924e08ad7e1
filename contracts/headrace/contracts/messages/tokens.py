"""Tokens of the embedded issuer: roles, claims, and the requests by which *governance* issues and revokes them."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from enum import StrEnum
from typing import NamedTuple

import msgspec

from headrace.contracts.values.durations import DAY
from headrace.contracts.values.value import Value

ISSUER = "headrace"
"""The embedded issuer, in claim `iss`."""
AUDIENCE = "headrace"
"""The audience that every token has to name, in claim `aud`."""

LIFETIME = 30 * DAY
LIFETIME_MAX = 366 * DAY
"""Maximum lifetime of a token, in microseconds. A token for a node or a pipeline has to be replaced before it expires."""

FEED_SUFFIX = "_feed"
"""Suffix of the user name of a connection that receives the feed; names of logins do not contain `_`."""
FEED_SUBSCRIPTIONS = 8
"""Maximum number of subscriptions of a feed connection; the server ends it beyond that."""

PERSON_CONNECTIONS = 64
"""Maximum number of connections of one user or service account in each NATS account of users; lower with many tenants."""

NODE_TENANT = ""
PROVIDER_TENANT = "default"


class TokenRole(StrEnum):
    """What a token is for. The permissions of its bearer are decided when it is shown (`headrace.identity.principals`)."""

    USER = "user"
    SERVICE_ACCOUNT = "service-account"
    NODE = "node"
    INSTANCE = "instance"
    """The one-time code of an instance that is to join (R38): good for nothing but to be exchanged for a node's token."""
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


class UnverifiedBearer(NamedTuple):
    """The bearer of a token as the client reads it, unverified: enough to know its own subjects."""

    role: str
    tenant: str
    handle: str


class NodeClaims(Value, frozen=True, kw_only=True):
    """What a node may state about itself. Each field: None if nothing is stated.

    `labels`: the value `*` stands for any. `gpus`: the number of devices. `isolation`: the highest level, one of `isolation.LEVELS`.
    """

    labels: dict[str, str] | None = None
    gpus: int | None = None
    isolation: str | None = None


class ApproveNodeRequest(Value, frozen=True, kw_only=True):
    """What an operator approves: believe what a node states about itself up to `claims`; without claims: all that it states now."""

    node: str
    claims: NodeClaims = NodeClaims()
    reason: str = ""


class StorageReport(Value, frozen=True, kw_only=True):
    """From *callout* to *governance* `storage`: bytes used by streams on the NATS server with the least room, and its limit."""

    used: int
    limit: int


class PauseRequest(Value, frozen=True, kw_only=True):
    """From *governance* to *callout* `pause`: end a node's connections, and refuse its login until the fact that excludes it is read."""

    node: str


class TokenRequest(Value, frozen=True, kw_only=True):
    """A token to issue for a user, a service account, a node, or an administrator of the installation.

    `lifetime` in microseconds, 0 for the default. `claims`: how much of a node's own statements is believed. Fields that are not given
    keep what was approved before; without an approval nothing is believed until an operator approves the node.
    """

    role: str
    handle: str
    tenant: str = ""
    lifetime: int = 0
    reason: str = ""
    claims: NodeClaims | None = None


class TokenAnswer(Value, frozen=True, kw_only=True):
    """The token itself, which is returned once and not stored, and its id. `expires_at` in microseconds since 1970."""

    token: str
    id: str
    expires_at: int


class RevokeRequest(Value, frozen=True, kw_only=True):
    """What to revoke: one token by its id, or all tokens of a bearer up to now, of any issuer."""

    token: str = ""
    tenant: str = ""
    handle: str = ""
    reason: str = ""


class TokensRequest(Value, frozen=True, kw_only=True):
    """Which tokens to list: those of one tenant, or of all."""

    tenant: str = ""


class TokenView(Value, frozen=True, kw_only=True):
    """A token of the embedded issuer that has not expired; times in microseconds since 1970, `revoked_at` 0 if it is valid."""

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
    """Prefix of the subjects of answers to a connection. `login`: its name; `shown`: the password, or the bearer's token.

    A login of the servers' own configuration has an inbox by its name, and a bearer one by the token, so that answers to another token
    cannot
    be received, even one of the same handle with another role. (A token has three parts, and the first begins as JSON in base64.)
    """
    if shown.startswith("e") and shown.count(".") == 2:
        from hashlib import blake2b  # noqa: PLC0415 - it loads OpenSSL, which a call over a local socket does without

        return f"_INBOX_t_{blake2b(shown.encode(), digest_size=16).hexdigest()}"
    return f"_INBOX_{login}" if login else "_INBOX"


def read_bearer(token: str) -> UnverifiedBearer | None:
    """The bearer in a token of the embedded issuer; None for other tokens and other texts. Nothing is verified."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = msgspec.json.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Payload)
    except (ValueError, RecursionError):
        return None
    return UnverifiedBearer(payload.role, payload.tenant, payload.handle) if payload.handle else None
