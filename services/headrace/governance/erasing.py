"""What a tenant's jobs ran can be made unreadable for ever: the fact stands first, then the key is destroyed (R13's texts). Pure."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.ids import is_token
from headrace.contracts.queries import ApplyAnswer, Change, EraseRequest
from headrace.domain.state import FINAL, State
from headrace.governance.decide import Decision, Wish
from headrace.governance.objects import REASON_MAX


def erasing(request: EraseRequest, author: str) -> Wish:
    """The wish that a tenant's texts be erased; refused while jobs of it are pending or run, because they need theirs.

    The tenant itself need not be there any more: its texts are.
    """

    def wish(state: State, _now: int) -> Decision:
        if not is_token(request.tenant):
            return _refused("INVALID", f"tenant: {request.tenant[:80]!r} is no name")
        alive = sum(job.tenant == request.tenant and job.state not in FINAL for job in state.jobs.values())
        if alive:
            error = f"tenant: {alive} jobs of {request.tenant} have not ended and need what they run; cancel them first"
            return _refused("REFUSED", error)
        change = Change(kind="tenant", name=request.tenant, action="update", fields=("texts: erased",))
        fact = f.TenantErasedV1(author=author, reason=request.reason[:REASON_MAX], tenant=request.tenant)
        return Decision(ApplyAnswer(changes=(change,), applied=True), (fact,))

    return wish


def _refused(code: str, error: str) -> Decision:
    return Decision(ApplyAnswer(changes=()), code=code, error=error)
