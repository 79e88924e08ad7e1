"""The service of nodes: nodes as the caller sees them, and the orders of administrators (R28, R32)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts.api import nodes_pb2 as pb
from headrace.contracts.messages.explanation import MaintenanceView
from headrace.contracts.messages.queries import NodeRequest
from headrace.contracts.messages.tokens import ApproveNodeRequest, NodeClaims
from headrace.contracts.values.amounts import CPU, GPU, MEMORY, format_amount
from headrace.governance.api import filters, names, paging
from headrace.governance.api.apply import plan_message
from headrace.governance.api.errors import invalid, not_found
from headrace.governance.api.filter_fields import field_lookup
from headrace.governance.api.messages import microseconds, moment
from headrace.governance.approvals import approving
from headrace.governance.nodes import confirming_empty, cordoning, draining, removing_node
from headrace.views.tenant_views import node_view
from headrace.views.visibility import sees_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.domain.state.state import State
    from headrace.governance.api.context import CallContext
    from headrace.governance.decide import Operation


async def list_nodes(request: Any, call: CallContext) -> pb.ListNodesResponse:
    """A page of the nodes that the caller sees."""
    backend = call.backend
    page = paging.page_of(request.page_size, request.page_token, call.method, request.filter)
    passes = filters.parse(request.filter, pb.Node.DESCRIPTOR.fields_by_name)
    answer = pb.ListNodesResponse(sequence=str(backend.state.sequence))
    for name in paging.after(sorted(backend.state.nodes), page.last):
        if not sees_node(backend.state, call.tenant, backend.state.nodes[name]):
            continue
        message = message_of(backend.state, name, backend.last_seen, call.tenant)
        if passes is not None and not passes(field_lookup(message)):
            continue
        if len(answer.nodes) == page.size:
            answer.next_page_token = page.token(answer.nodes[-1].name.removeprefix("nodes/"))
            break
        answer.nodes.append(message)
    return answer


async def get_node(request: Any, call: CallContext) -> pb.Node:
    (name,) = names.parts_of(request.name, "nodes/*")
    node = call.backend.state.nodes.get(name)
    if node is None or not sees_node(call.backend.state, call.tenant, node):
        raise not_found("node", request.name)
    return message_of(call.backend.state, name, call.backend.last_seen, call.tenant)


def message_of(state: State, name: str, last_seen: Mapping[str, int], tenant: str) -> pb.Node:
    """A node as the tenant sees it."""
    node = state.nodes[name]
    view = node_view(state, node, last_seen.get(name, 0), tenant)
    return pb.Node(
        name=f"nodes/{name}",
        pool=view.pool,
        state=view.state,
        labels=view.labels,
        model=view.model,
        gpus=view.gpus,
        gpu_free=format_amount(GPU, view.gpu_free),
        cpu=format_amount(CPU, view.cpu),
        cpu_free=format_amount(CPU, view.cpu_free),
        memory=format_amount(MEMORY, view.memory),
        memory_free=format_amount(MEMORY, view.memory_free),
        leases=view.leases,
        heard_time=moment(view.last_heard),
        slices=[pb.DeviceSlices(device=device, slices=slices) for device, slices in view.slices.items()],
        dedicated_to=view.dedicated_to,
        cordoned=view.reason,
        sequence=str(state.sequence),
        isolation=view.isolation,
        unfit=view.unfit,
        unapproved=view.unapproved,
        maintenance=_maintenance(view.maintenance) if view.maintenance is not None else None,
    )


def _maintenance(view: MaintenanceView) -> pb.NodeMaintenance:
    return pb.NodeMaintenance(
        kind=view.kind,
        begin_time=moment(view.begins),
        end_time=moment(view.ends),
        reason=view.reason,
        scheduled_by=view.by,
    )


async def cordon_node(request: Any, call: CallContext) -> Any:
    return await _operate(request, call, lambda request, author: cordoning(request, author, cordon=True))


async def uncordon_node(request: Any, call: CallContext) -> Any:
    return await _operate(request, call, lambda request, author: cordoning(request, author, cordon=False))


async def drain_node(request: Any, call: CallContext) -> Any:
    """Drain a node now, or at a time to come."""
    begins = microseconds(request.begin_time, "begin_time") if request.HasField("begin_time") else 0
    if request.HasField("begin_time") and begins <= 0:
        raise invalid("begin_time", "name a time to come, such as 2026-11-21T08:00:00Z")
    (name,) = names.parts_of(request.name, "nodes/*")
    operation = draining(NodeRequest(node=name, reason=request.reason, begins=begins), call.caller.author)
    answer = await call.decided(operation, validate_only=request.validate_only)
    return plan_message(answer, call.backend.state.sequence)


async def confirm_node_empty(request: Any, call: CallContext) -> Any:
    """Confirm that a node's overdue leases have ended."""
    return await _operate(request, call, confirming_empty)


async def remove_node(request: Any, call: CallContext) -> Any:
    """Forget a node that has left for good."""
    return await _operate(request, call, removing_node)


async def approve_node(request: Any, call: CallContext) -> Any:
    """Approve a node's claims."""
    (name,) = names.parts_of(request.name, "nodes/*")
    claims = claims_of(request.claims) if request.HasField("claims") else NodeClaims()
    operation = approving(ApproveNodeRequest(node=name, claims=claims, reason=request.reason), call.caller.author)
    answer = await call.decided(operation, validate_only=request.validate_only)
    return plan_message(answer, call.backend.state.sequence)


def claims_of(message: Any) -> NodeClaims:
    """Claims of a node in a request."""
    return NodeClaims(
        labels=dict(message.labels) if message.labels else None,
        gpus=message.gpus if message.HasField("gpus") else None,
        isolation=message.isolation if message.HasField("isolation") else None,
    )


async def _operate(request: Any, call: CallContext, make: Callable[[NodeRequest, str], Operation]) -> Any:
    if request.HasField("begin_time"):
        raise invalid("begin_time", "only a drain may be scheduled; leave it out")
    (name,) = names.parts_of(request.name, "nodes/*")
    operation = make(NodeRequest(node=name, reason=request.reason), call.caller.author)
    answer = await call.decided(operation, validate_only=request.validate_only)
    return plan_message(answer, call.backend.state.sequence)
