"""Logins of instances that pools create (R38), as facts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.messages.tokens import Grant, NodeClaims, TokenRequest, TokenRole
from headrace.contracts.values.durations import DAY, SECOND
from headrace.contracts.values.isolation import ANY, LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.documents.model import Burst
    from headrace.domain.model.tokens import Token
    from headrace.domain.state.state import State

AUTHOR = "headrace.provisioner"
ENDED = "its instance has ended"
LIFETIME = 30 * DAY
"""For how long the login of an instance is good whose pool sets no `max_life`."""


def code_request(state: State, name: str, now: int) -> TokenRequest | None:
    """The one-time code of an instance that was ordered, good until it has to have joined. None if no such instance is to join."""
    burst, one = _burst_of(state, name), state.instances.get(name)
    if burst is None or one is None or one.joined_at:
        return None
    lifetime = max(SECOND, one.expires + 2 * burst.boot - now)
    return TokenRequest(role=TokenRole.INSTANCE, handle=name, lifetime=lifetime, reason=f"pool {one.pool}")


def code_of(state: State, name: str, now: int) -> Grant | None:
    """The code that was made for the instance and still counts: the same one for a call to its provider that is repeated."""
    for token, stored in state.tokens.known.items():
        if (stored.role, stored.handle) == (TokenRole.INSTANCE, name) and not stored.revoked_at and stored.expires_at > now:
            return stated_grant(token, stored)
    return None


def stated_grant(name: str, token: Token) -> Grant:
    """A grant as the ledger has it, so that it is signed alike each time."""
    issued, expires = token.created_at // SECOND, token.expires_at // SECOND
    return Grant(name, TokenRole(token.role), token.tenant, token.handle, issued, expires)


def token_request(state: State, name: str) -> TokenRequest | None:
    """The token of an instance's node: what its pool promises is believed of it. None if no such instance is to join."""
    burst, one = _burst_of(state, name), state.instances.get(name)
    pool = state.pools.get(one.pool) if one is not None else None
    if burst is None or one is None or pool is None:
        return None
    isolation = LEVELS[-1] if burst.node.isolation == ANY else burst.node.isolation
    claims = NodeClaims(labels=dict(pool.document.selector), gpus=burst.node.gpus, isolation=isolation)
    lifetime = burst.max_life + 2 * burst.boot if burst.max_life else LIFETIME
    return TokenRequest(role=TokenRole.NODE, handle=name, lifetime=lifetime, reason=f"pool {one.pool}", claims=claims)


def _burst_of(state: State, name: str) -> Burst | None:
    one = state.instances.get(name)
    pool = state.pools.get(one.pool) if one is not None and one.serves else None
    return pool.document.burst if pool is not None else None


def logins_of_ended(state: State) -> Iterator[f.TokenRevokedV1]:
    """Revocations of the tokens of instances that have ended, and of the codes of those that have joined."""
    ended = {one.name for one in state.instances.values() if not one.lives}
    known = state.tokens.known.items() if state.instances else ()
    for name, token in known:
        one = state.instances.get(token.handle) if token.role == TokenRole.INSTANCE and not token.revoked_at else None
        if one is not None and (one.joined_at or not one.lives):
            yield f.TokenRevokedV1(
                author=AUTHOR, reason="it was used" if one.joined_at else ENDED, token=name, tenant="", handle=""
            )
    for name, token in state.tokens.known.items() if ended else ():
        if token.role == TokenRole.NODE and token.handle in ended and not token.revoked_at and token.expires_at > state.now:
            yield f.TokenRevokedV1(author=AUTHOR, reason=ENDED, token=name, tenant="", handle="")
