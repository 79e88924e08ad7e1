"""The service of queues, which is read-only: queues are made and deleted with the links of policies (R12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts.api import queues_pb2 as pb
from headrace.contracts.values.amounts import format_amount
from headrace.governance.api import filters, names, paging
from headrace.governance.api.errors import not_found
from headrace.governance.api.filter_fields import field_lookup
from headrace.governance.api.messages import moment, texts
from headrace.views.tenant_views import queue_views

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.contracts.messages.queries import BudgetView, QueueView, ScopeView, UserUseView
    from headrace.domain.state.state import State
    from headrace.governance.api.context import CallContext
    from headrace.views.job_index import Queue, QueueCounts


async def list_queues(request: Any, call: CallContext) -> pb.ListQueuesResponse:
    """A page of a tenant's queues."""
    (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
    backend = call.backend
    page = paging.page_of(request.page_size, request.page_token, call.method, tenant, request.filter)
    passes = filters.parse(request.filter, pb.Queue.DESCRIPTOR.fields_by_name)
    answer = pb.ListQueuesResponse(sequence=str(backend.state.sequence))
    for message in messages(backend.state, backend.job_index.lines, tenant, backend.now()):
        if page.last and message.name <= page.last:
            continue
        if len(answer.queues) == page.size:
            answer.next_page_token = page.token(answer.queues[-1].name)
            break
        if passes is None or passes(field_lookup(message)):
            answer.queues.append(message)
    return answer


async def get_queue(request: Any, call: CallContext) -> pb.Queue:
    tenant, policy, profile = names.parts_of(request.name, "tenants/*/queues/*/*")
    backend = call.backend
    if (tenant, policy) in backend.state.policies:
        for message in messages(backend.state, backend.job_index.lines, tenant, backend.now(), policy):
            if message.profile == profile:
                return message
    raise not_found("queue", request.name)


def messages(state: State, lines: Mapping[Queue, QueueCounts], tenant: str, now: int, policy: str = "") -> Iterator[pb.Queue]:
    """The queues of a tenant, or of one of its policies, in the order of their names."""
    found = [view for view in queue_views(state, lines, tenant, now) if policy in ("", view.policy)]
    for view in sorted(found, key=lambda view: view.policy + "/" + view.profile):
        yield _message(state, view)


def _message(state: State, view: QueueView) -> pb.Queue:
    document = state.policies[view.tenant, view.policy].document
    link = next(link for link in document.profiles if link.name == view.profile)
    return pb.Queue(
        name=f"tenants/{view.tenant}/queues/{view.policy}/{view.profile}",
        policy=view.policy,
        profile=view.profile,
        group=document.group,
        submitters=link.submitters,
        borrow=link.borrow,
        pending=view.pending,
        running=view.running,
        scopes=map(_scope, view.scopes),
        closed=view.closed,
        shut=view.shut,
        opens_time=moment(view.opens_at),
        budgets=map(_budget, view.budgets),
        fair_among=view.fair_among,
        users=map(_user, view.users),
        sequence=str(state.sequence),
    )


def _scope(view: ScopeView) -> pb.ScopeUse:
    key = view.key
    return pb.ScopeUse(
        key=key,
        used=format_amount(key, view.used),
        reservation=format_amount(key, view.reservation),
        limit="" if view.limit is None else format_amount(key, view.limit),
        reserved=format_amount(key, view.reserved),
        borrowed=format_amount(key, view.borrowed),
    )


def _user(view: UserUseView) -> pb.UserUse:
    return pb.UserUse(
        user=view.user,
        used=texts(view.used),
        limit=texts(view.limit),
        pending=view.pending,
        max_pending=view.max_pending,
    )


def _budget(view: BudgetView) -> pb.BudgetUse:
    return pb.BudgetUse(
        key=view.key,
        hours=view.hours,
        per=view.per,
        then=view.then,
        used=view.used,
        spent=view.spent,
        ends_time=moment(view.ends_at),
        warning=view.warning,
    )
