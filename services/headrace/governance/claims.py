"""Groups claimed by a provider's token, stated once for each token, so that admission knows them (R12). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.governance.decide import Decision
from headrace.identity.principals import is_stated

if TYPE_CHECKING:
    from headrace.domain.state.state import State
    from headrace.governance.decide import Operation
    from headrace.identity.caller import Caller


def claiming(caller: Caller) -> Operation:
    """Operation that states the claims of the caller's token, unless they are stated already."""

    def operation(state: State, _now: int) -> Decision:
        answer = ApplyAnswer(changes=(), applied=True)
        if is_stated(state, caller):
            return Decision(answer)
        fact = f.MembershipClaimedV1(
            tenant=caller.tenant,
            handle=caller.handle,
            groups=caller.groups,
            issued_at=caller.claimed_at,
            until=caller.expires_at,
        )
        return Decision(answer, (fact,))

    return operation
