"""Operations of administrators on nodes: cordon, uncordon, drain, and confirm that one is empty (R28, R32, R36). Pure."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.levels import MAINTENANCE, PROVISIONING
from headrace.contracts.messages.queries import ApplyAnswer, Change, NodeRequest
from headrace.contracts.messages.tokens import TokenRole
from headrace.contracts.values.durations import DAY, format_time
from headrace.domain.model.nodes import NodeState
from headrace.domain.state.state import State
from headrace.governance.decide import Decision, Operation
from headrace.governance.objects import REASON_MAX
from headrace.governance.validation.diagnostics import unknown

AHEAD_MAX = 366 * DAY
"""How far ahead a drain may be scheduled."""


def cordoning(request: NodeRequest, author: str, *, cordon: bool) -> Operation:
    """Operation that cordons or uncordons a node; to uncordon it cancels a scheduled drain as well."""

    def operation(state: State, _now: int) -> Decision:
        node = state.nodes.get(request.node)
        reason = request.reason[:REASON_MAX]
        if node is None and request.node in state.excluded and not cordon:
            change = Change(kind="node", name=request.node, action="update", fields=("excluded: yes -> no",))
            fact = f.NodeUncordonedV1(author=author, reason=reason, node=request.node)
            return Decision(ApplyAnswer(changes=(change,), applied=True), (fact,))
        if node is None:
            return _not_found(state, request)
        if node.leaves and cordon:
            says = f"node {node.name} takes no work for good ({node.cordoned}); the reason {reason!r} is not kept"
            return _kept(node, warnings=(says,) if reason else ())
        if node.leaves:
            error = f"node {node.name} is about to leave ({node.cordoned}); it takes no work any more"
            return Decision(ApplyAnswer(changes=()), code="INVALID", error=error)
        will_be = (reason or f"cordoned by {author}") if cordon else ""
        drain = state.maintenance.drains.get(node.name) if not cordon else None
        if will_be == node.cordoned and drain is None:
            return _kept(node)
        fields = [] if will_be == node.cordoned else [f"cordoned: {node.cordoned or 'no'} -> {will_be or 'no'}"]
        fields += [] if drain is None else [f"drain: at {format_time(drain.begins)} -> no"]
        kind = f.NodeCordonedV1 if cordon else f.NodeUncordonedV1
        return _changed(node, ", ".join(fields), kind(author=author, reason=reason, node=node.name))

    return operation


def draining(request: NodeRequest, author: str) -> Operation:
    """Operation that drains a node: no new work, and everything on it leaves by its ladder (R28); with a time, then (R41).

    Repeated, it returns how many are left.
    """

    def operation(state: State, now: int) -> Decision:
        node = state.nodes.get(request.node)
        if node is None:
            return _not_found(state, request)
        if request.begins:
            return _scheduled(state, node, request, author, now)
        jobs = len({lease.job.key for lease in node.leases.values()})
        if node.draining:
            return _kept(node, running=jobs)
        reason = request.reason[:REASON_MAX]
        fact = f.NodeDrainOrderedV1(author=author, reason=reason, node=node.name)
        return _changed(node, f"draining: no -> yes, {jobs} jobs have to leave", fact, running=jobs)

    return operation


def _scheduled(state: State, node: NodeState, request: NodeRequest, author: str, now: int) -> Decision:
    """The drain of a node at a time to come; one that was scheduled before is moved."""
    if error := _why_not_scheduled(state, node, request.begins, now):
        return Decision(ApplyAnswer(changes=()), code="INVALID", error=error)
    before, reason = state.maintenance.drains.get(node.name), request.reason[:REASON_MAX]
    if before is not None and (before.begins, before.reason) == (request.begins, reason):
        return _kept(node)
    was = "no" if before is None else f"at {format_time(before.begins)}"
    fact = f.NodeDrainScheduledV1(author=author, reason=reason, node=node.name, begins=request.begins)
    return _changed(node, f"drain: {was} -> at {format_time(request.begins)}", fact)


def _why_not_scheduled(state: State, node: NodeState, begins: int, now: int) -> str:
    """Why a drain may not be scheduled, and the way out; empty if it may."""
    if state.terms.level < MAINTENANCE:
        level = f"it is at {state.terms.level}; `headrace status` says what keeps it there"
        return f"drains are scheduled from level {MAINTENANCE} of the installation on, and {level}"
    if begins <= now:
        return f"at: {format_time(begins)} is in the past; name a time to come, or leave it out to drain {node.name} now"
    if begins > now + AHEAD_MAX:
        return f"at: {format_time(begins)} is too far ahead; name a time within {AHEAD_MAX // DAY} days"
    if node.draining:
        return f"{node.name} is drained already; `headrace node uncordon {node.name}` ends that"
    return ""


def confirming_empty(request: NodeRequest, author: str) -> Operation:
    """An operator's confirmation that overdue leases on a node have ended, or all leases of a node that is away (R28, R32)."""

    def operation(state: State, _now: int) -> Decision:
        node = state.nodes.get(request.node)
        if node is None:
            return _not_found(state, request)
        gone = [lease for lease in node.leases.values() if (lease.overdue or not node.healthy) and not lease.empty]
        if not gone and node.leases and node.healthy:
            error = (
                f"{node.name} is there and has {len(node.leases)} leases in order; `headrace node drain {node.name}` empties it"
            )
            return Decision(ApplyAnswer(changes=()), code="REFUSED", error=error)
        if not gone:
            return _kept(node)
        reason = request.reason[:REASON_MAX]
        fact = f.NodeConfirmedEmptyV1(author=author, reason=reason, node=node.name)
        return _changed(node, f"confirmed empty of {len(gone)} leases", fact, running=len({lease.job.key for lease in gone}))

    return operation


def removing_node(request: NodeRequest, author: str) -> Operation:
    """Operation that removes a node for good: one that is away, and on which nothing is held. Its logins are revoked."""

    def operation(state: State, _now: int) -> Decision:
        node = state.nodes.get(request.node)
        if node is None:
            return _not_found(state, request)
        if error := _why_it_stays(state, node):
            return Decision(ApplyAnswer(changes=()), code="REFUSED", error=error)
        reason = request.reason[:REASON_MAX]
        removed = f.NodeRemovedV1(author=author, reason=reason, node=node.name)
        logins = [
            f.TokenRevokedV1(author=author, reason=reason, token=name, tenant="", handle="")
            for name, token in state.tokens.known.items()
            if token.role == TokenRole.NODE and token.handle == node.name and not token.revoked_at
        ]
        change = Change(kind="node", name=node.name, action="delete")
        return Decision(ApplyAnswer(changes=(change,), applied=True), (removed, *logins))

    return operation


def _why_it_stays(state: State, node: NodeState) -> str:
    """Why a node may not be removed, and the way out; empty if it may."""
    name, instance = node.name, state.instances.get(node.name)
    if state.terms.level < PROVISIONING:
        level = f"it is at {state.terms.level}; `headrace status` says what keeps it there"
        return f"nodes are removed from level {PROVISIONING} of the installation on, and {level}"
    if instance is not None and instance.lives:
        return f"{name} is an instance of pool {instance.pool}; `headrace burst end {name}` ends it"
    if node.leases:
        return f"{name} holds {len(node.leases)} leases; `headrace node drain {name}` empties it, or, if it is lost, `confirm-empty`"
    if node.healthy:
        return f"{name} is there; stop its executor first, and remove it then"
    return ""


def _not_found(state: State, request: NodeRequest) -> Decision:
    return Decision(ApplyAnswer(changes=()), code="NOT_FOUND", error=unknown("node", request.node, state.nodes))


def _kept(node: NodeState, *, running: int = 0, warnings: tuple[str, ...] = ()) -> Decision:
    change = Change(kind="node", name=node.name, action="keep")
    return Decision(ApplyAnswer(changes=(change,), applied=True, running=running, warnings=warnings))


def _changed(node: NodeState, field: str, fact: AnyFact, *, running: int = 0) -> Decision:
    change = Change(kind="node", name=node.name, action="update", fields=(field,))
    return Decision(ApplyAnswer(changes=(change,), applied=True, running=running), (fact,))
