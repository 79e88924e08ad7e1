"""What a provider's token claims of its bearer's groups, stated once for each token, so that admission knows it (R12). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.governance.decide import Decision
from headrace.identity.principals import is_stated

if TYPE_CHECKING:
    from headrace.domain.model.state import State
    from headrace.governance.decide import Wish
    from headrace.identity.caller import Caller


def claiming(caller: Caller) -> Wish:
    """The wish that the ledger have what the caller's token says; nothing is stated twice."""

    def wish(state: State, _now: int) -> Decision:
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

    return wish
