"""Service accounts: handles that groups name in `service_accounts`. They are created, changed and deleted by one change of their groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpc import StatusCode
from msgspec import structs

from headrace.contracts.api import service_accounts_pb2 as pb
from headrace.contracts.documents.model import Documents, Group
from headrace.governance.api import filters, names, paging
from headrace.governance.api.apply import plan_message
from headrace.governance.api.errors import ApiError, Violation, invalid, not_found
from headrace.governance.api.filter_fields import field_lookup
from headrace.governance.api.messages import sequence_of
from headrace.governance.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.contracts.messages.queries import ApplyAnswer
    from headrace.domain.state.state import State
    from headrace.governance.api.context import CallContext

PATTERN = "tenants/*/serviceAccounts/*"
FIELDS = frozenset({"groups", "on_behalf"})


async def list_service_accounts(request: Any, call: CallContext) -> pb.ListServiceAccountsResponse:
    """A page of a tenant's service accounts."""
    (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
    state = call.backend.state
    page = paging.page_of(request.page_size, request.page_token, call.method, tenant, request.filter)
    passes = filters.parse(request.filter, pb.ServiceAccount.DESCRIPTOR.fields_by_name)
    handles = sorted({handle for group, _ in _groups(state, tenant).values() for handle in group.service_accounts})
    answer = pb.ListServiceAccountsResponse(sequence=str(state.sequence))
    for handle in paging.after(handles, page.last):
        if len(answer.service_accounts) == page.size:
            answer.next_page_token = page.token(answer.service_accounts[-1].name.rpartition("/")[2])
            break
        message = _message(state, tenant, handle)
        if passes is None or passes(field_lookup(message)):
            answer.service_accounts.append(message)
    return answer


async def get_service_account(request: Any, call: CallContext) -> pb.ServiceAccount:
    tenant, handle = names.parts_of(request.name, PATTERN)
    if not _named(call.backend.state, tenant, handle):
        raise not_found("service account", request.name)
    return _message(call.backend.state, tenant, handle)


async def create_service_account(request: Any, call: CallContext) -> pb.ServiceAccount:
    (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
    handle = names.check_id(request.service_account_id, "service_account_id")
    if _named(call.backend.state, tenant, handle):
        message = f"service_account_id: {handle} is there already; change it by PATCH"
        violation = Violation("service_account_id", "is there already")
        raise ApiError(StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS", message, violation)
    wanted = request.service_account
    return await _write(tenant, handle, wanted.groups, wanted.on_behalf, request, call)


async def update_service_account(request: Any, call: CallContext) -> pb.ServiceAccount:
    wanted = request.service_account
    tenant, handle = names.parts_of(wanted.name, PATTERN, "service_account.name")
    there = _message(call.backend.state, tenant, handle)
    if not there.groups and not request.allow_missing:
        raise not_found("service account", wanted.name)
    if wanted.etag and wanted.etag != there.etag:
        message = f"etag: it is based on {wanted.etag[:20]}, the service account is at {there.etag}: get it again"
        raise ApiError(StatusCode.ABORTED, "STALE", message, Violation("etag", message))
    mask = set(request.update_mask.paths) or {field for field in FIELDS if getattr(wanted, field)}
    if not mask <= FIELDS | {"*"}:
        raise invalid("update_mask", f"there are {', '.join(sorted(FIELDS))} to be written")
    groups = wanted.groups if mask & {"groups", "*"} else there.groups
    on_behalf = wanted.on_behalf if mask & {"on_behalf", "*"} else there.on_behalf
    return await _write(tenant, handle, groups, on_behalf, request, call)


async def delete_service_account(request: Any, call: CallContext) -> Any:
    tenant, handle = names.parts_of(request.name, PATTERN)
    state = call.backend.state
    there = _message(state, tenant, handle)
    if not there.groups:
        raise not_found("service account", request.name)
    if request.mode:
        raise invalid("mode", "a service account has none; cancel its jobs, then remove it")
    if request.etag and sequence_of(request.etag, "etag") != int(there.etag):
        raise ApiError(StatusCode.ABORTED, "STALE", f"etag: the service account is at {there.etag}: get it again")
    answer = await _apply(_changed(state, tenant, handle, (), ()), request, call)
    return plan_message(answer, call.backend.state.sequence)


def _groups(state: State, tenant: str) -> Mapping[str, tuple[Group, int]]:
    """The groups of a tenant and their revisions, by name."""
    return {
        name: (written.document, written.revision)
        for (owner, name), written in sorted(state.groups.items())
        if owner == tenant and isinstance(written.document, Group)
    }


def _named(state: State, tenant: str, handle: str) -> bool:
    return any(handle in group.service_accounts for group, _ in _groups(state, tenant).values())


def _message(state: State, tenant: str, handle: str) -> pb.ServiceAccount:
    """A service account as its groups describe it; its etag is the newest revision among them."""
    naming = {name: found for name, found in _groups(state, tenant).items() if handle in found[0].service_accounts}
    return pb.ServiceAccount(
        name=f"tenants/{tenant}/serviceAccounts/{handle}",
        groups=naming,
        on_behalf=[name for name, (group, _) in naming.items() if handle in group.on_behalf],
        etag=str(max((revision for _, revision in naming.values()), default=0)),
        sequence=str(state.sequence),
    )


async def _write(
    tenant: str, handle: str, groups: Iterable[str], on_behalf: Iterable[str], request: Any, call: CallContext
) -> pb.ServiceAccount:
    state, wanted, trusted = call.backend.state, tuple(groups), tuple(on_behalf)
    known = _groups(state, tenant)
    if not wanted:
        raise invalid("service_account.groups", "name at least one group; to remove it from all, delete it")
    for index, name in enumerate(wanted):
        if name not in known:
            raise invalid(f"service_account.groups[{index}]", "this tenant has no group of this name")
    for index, name in enumerate(trusted):
        if name not in wanted:
            raise invalid(f"service_account.on_behalf[{index}]", "the account is not in this group; name it in groups as well")
    answer = await _apply(_changed(state, tenant, handle, wanted, trusted), request, call)
    message = _message(call.backend.state, tenant, handle)
    if request.validate_only:
        message = pb.ServiceAccount(name=message.name, groups=sorted(set(wanted)), on_behalf=sorted(set(trusted)))
    message.warnings.extend(answer.warnings)
    return message


def _changed(state: State, tenant: str, handle: str, wanted: Iterable[str], trusted: Iterable[str]) -> list[tuple[Group, int]]:
    """The changed groups, with the revisions that the change is based on."""
    found: list[tuple[Group, int]] = []
    for name, (group, revision) in _groups(state, tenant).items():
        changed = structs.replace(
            group,
            service_accounts=_with(group.service_accounts, handle, name in wanted),
            on_behalf=_with(group.on_behalf, handle, name in trusted),
        )
        if changed != group:
            found.append((changed, revision))
    return found


def _with(handles: tuple[str, ...], handle: str, wanted: bool) -> tuple[str, ...]:
    if (handle in handles) == wanted:
        return handles
    return (*handles, handle) if wanted else tuple(one for one in handles if one != handle)


async def _apply(changed: list[tuple[Group, int]], request: Any, call: CallContext) -> ApplyAnswer:
    revisions = {name_of(group).key: revision for group, revision in changed}
    documents = Documents(groups=tuple(group for group, _ in changed))
    return await call.applied(documents, request.reason, revisions, dry_run=request.validate_only)
