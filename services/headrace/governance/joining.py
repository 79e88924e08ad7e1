"""The exchange of an instance's one-time code for the token of its node (R38). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.messages.queries import ApplyAnswer
from headrace.contracts.messages.tokens import Grant, TokenRole
from headrace.governance.decide import Decision

if TYPE_CHECKING:
    from headrace.domain.state.state import State
    from headrace.governance.decide import Operation


def exchanging(code: str, grant: Grant, grants: Operation) -> Operation:
    """Operation that exchanges a code for the token of its node. `grants`: states that token.

    A code that was used is worth nothing, except that the same exchange may be repeated.
    """

    def operation(state: State, now: int) -> Decision:
        stored = state.tokens.known.get(code)
        if stored is None or stored.role != TokenRole.INSTANCE or stored.handle != grant.handle or stored.expires_at <= now:
            return _refused("the code is not one of this instance, or has expired")
        tokens = state.tokens.known.items()
        made = {name for name, one in tokens if (one.role, one.handle) == (TokenRole.NODE, grant.handle)}
        if grant.id in made and not state.tokens.known[grant.id].revoked_at:
            return Decision(ApplyAnswer(changes=()))
        if made or stored.revoked_at:
            return _refused("the code was used; if it was not by this instance, end it: `headrace burst end`")
        return grants(state, now)

    return operation


def _refused(error: str) -> Decision:
    return Decision(ApplyAnswer(changes=()), code="NOT_ALLOWED", error=error)
