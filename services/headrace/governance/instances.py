"""Logins of instances that pools create (R38), as facts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.messages.tokens import NodeClaims, TokenRequest, TokenRole
from headrace.contracts.values.durations import DAY
from headrace.contracts.values.isolation import ANY, LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.state.state import State

AUTHOR = "headrace.provisioner"
LIFETIME = 30 * DAY
"""For how long the login of an instance is good whose pool sets no `max_life`."""


def token_request(state: State, name: str) -> TokenRequest | None:
    """The token of an instance: what its pool promises is believed of it. None if no such instance is to join."""
    one = state.instances.get(name)
    pool = state.pools.get(one.pool) if one is not None else None
    burst = pool.document.burst if pool is not None else None
    if one is None or not one.serves or pool is None or burst is None:
        return None
    isolation = LEVELS[-1] if burst.node.isolation == ANY else burst.node.isolation
    claims = NodeClaims(labels=dict(pool.document.selector), gpus=burst.node.gpus, isolation=isolation)
    lifetime = burst.max_life + 2 * burst.boot if burst.max_life else LIFETIME
    return TokenRequest(role=TokenRole.NODE, handle=name, lifetime=lifetime, reason=f"pool {one.pool}", claims=claims)


def logins_of_ended(state: State) -> Iterator[f.TokenRevokedV1]:
    """Revocations of the tokens of instances that have ended."""
    ended = {one.name for one in state.instances.values() if not one.lives}
    for name, token in state.tokens.known.items() if ended else ():
        if token.role == TokenRole.NODE and token.handle in ended and not token.revoked_at and token.expires_at > state.now:
            yield f.TokenRevokedV1(author=AUTHOR, reason="its instance has ended", token=name, tenant="", handle="")
