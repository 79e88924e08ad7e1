"""Operators' approvals of nodes' claims (`domain.model.node_claims`), with a node's token or later, as facts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import AMENDED
from headrace.contracts.messages.queries import ApplyAnswer, Change
from headrace.contracts.messages.tokens import ApproveNodeRequest, NodeClaims
from headrace.contracts.values.ids import is_token
from headrace.contracts.values.isolation import LEVELS
from headrace.domain.fold.entitlement import DEVICES_MAX
from headrace.domain.model.node_claims import NOTHING_APPROVED, Approval, approval_of, widened
from headrace.governance.decide import Decision, Operation
from headrace.governance.objects import REASON_MAX
from headrace.governance.validation.diagnostics import unknown

if TYPE_CHECKING:
    from headrace.domain.state.state import State

LABELS_MAX = 64
LABEL_MAX = 127
"""Maximum characters of a label's key, and of its value."""


def claims_error(claims: NodeClaims) -> str:
    """First error in claims to be approved, one line with the field; empty if they are valid."""
    labels = claims.labels or {}
    if len(labels) > LABELS_MAX:
        return f"labels: write at most {LABELS_MAX}"
    for key, value in labels.items():
        if not (key and value and key.isprintable() and value.isprintable()) or max(len(key), len(value)) > LABEL_MAX:
            return f"labels: {key[:40]!r}: write KEY=VALUE, each of 1 to {LABEL_MAX} printable characters; the value * stands for any"
    if claims.gpus is not None and not 0 <= claims.gpus <= DEVICES_MAX:
        return f"gpus: write 0 to {DEVICES_MAX}"
    if claims.isolation is not None and claims.isolation not in LEVELS:
        return f"isolation: {unknown('level', claims.isolation, LEVELS)}"
    return ""


def claims_or_none(claims: NodeClaims | None) -> NodeClaims | None:
    """The claims; None if all of their fields are unset."""
    return None if claims == NodeClaims() else claims


def not_yet_possible(state: State) -> str:
    """Reason why approvals are not possible yet; empty if they are."""
    if state.terms.amended:
        return ""
    return (
        f"claims of nodes are approved from level {AMENDED} of the installation on, and it is at {state.terms.level}; "
        "`headrace status` says what keeps it there, and after a first start it takes some seconds"
    )


def with_token(state: State, node: str, claims: NodeClaims | None, author: str, reason: str) -> tuple[f.NodeApprovedV1, ...]:
    """Approval stated with a node's token: the claims, or the earlier approval, or what a registered node has."""
    if not state.terms.amended:
        return ()
    known = state.approvals.get(node)
    there = state.nodes.get(node)
    registered = there.claims if there is not None else None
    base = known or (approval_of(registered) if registered is not None else NOTHING_APPROVED)
    wanted = _changed_by(claims, base) if claims is not None else base
    return (_stated(node, wanted, author, reason),) if wanted != known else ()


def approving(request: ApproveNodeRequest, author: str) -> Operation:
    """Operation that approves a node's claims."""

    def operation(state: State, _now: int) -> Decision:
        there, known = state.nodes.get(request.node), state.approvals.get(request.node)
        registered = there.claims if there is not None else None
        explicit = request.claims != NodeClaims()
        if wrong := claims_error(request.claims):
            return _refused("INVALID", wrong)
        if early := not_yet_possible(state):
            return _refused("REFUSED", early)
        if not is_token(request.node) or (there is None and known is None):
            names = {*state.nodes, *state.approvals}
            return _refused("NOT_FOUND", unknown("node", request.node, names))
        if registered is None and not explicit:
            error = f"{request.node} has not registered yet; say what it may claim with --labels, --gpus and --isolation"
            return _refused("REFUSED", error)
        if known is None and registered is not None:
            known = approval_of(registered)
        base = known or NOTHING_APPROVED
        wanted = widened(base, registered) if registered is not None and not explicit else _changed_by(request.claims, base)
        if wanted == state.approvals.get(request.node) or (wanted == base and request.node not in state.approvals):
            return Decision(ApplyAnswer(changes=(Change(kind="node", name=request.node, action="keep"),), applied=True))
        change = Change(kind="node", name=request.node, action="update", fields=_differences(base, wanted))
        return Decision(ApplyAnswer(changes=(change,), applied=True), (_stated(request.node, wanted, author, request.reason),))

    return operation


def _changed_by(claims: NodeClaims, base: Approval) -> Approval:
    """The approval with the set fields of the claims."""
    return Approval(
        base.labels if claims.labels is None else claims.labels,
        base.gpus if claims.gpus is None else claims.gpus,
        base.isolation if claims.isolation is None else claims.isolation,
    )


def _stated(node: str, approval: Approval, author: str, reason: str) -> f.NodeApprovedV1:
    return f.NodeApprovedV1(
        author=author,
        reason=reason[:REASON_MAX],
        node=node,
        labels=approval.labels,
        gpus=approval.gpus,
        isolation=approval.isolation,
        joins=approval.joins,
    )


def _differences(was: Approval, will_be: Approval) -> tuple[str, ...]:
    pairs = (
        ("labels", _labels(was), _labels(will_be)),
        ("gpus", str(was.gpus), str(will_be.gpus)),
        ("isolation", was.isolation, will_be.isolation),
        ("may join a pool", _yes(was.joins), _yes(will_be.joins)),
    )
    return tuple(f"{name}: {before} -> {after}" for name, before, after in pairs if before != after)


def _yes(whether: bool) -> str:
    return "yes" if whether else "no"


def _labels(approval: Approval) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(approval.labels.items())) or "none"


def _refused(code: str, error: str) -> Decision:
    return Decision(ApplyAnswer(changes=()), code=code, error=error)
