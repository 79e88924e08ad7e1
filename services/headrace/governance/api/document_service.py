"""The services of tenants, users, groups, pools, profiles and policies, all implemented alike (R9, R11).

Strategy: a change is completed to a whole document and passed to the plan that `apply` makes, based on the revision that was read; the
rules for documents are implemented once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from google.protobuf.message_factory import GetMessageClass
from grpc import StatusCode

from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import DocumentErrors, tree_of
from headrace.contracts.documents.writer import write_document
from headrace.contracts.messages.queries import DeleteRequest
from headrace.governance.api import filters, names, paging
from headrace.governance.api.apply import MODES, plan_message
from headrace.governance.api.errors import ApiError, Violation, invalid, not_found
from headrace.governance.api.filter_fields import field_lookup
from headrace.governance.api.masks import Written, merged
from headrace.governance.api.messages import sequence_of, written_of
from headrace.governance.api.resource_kinds import (
    ANSWERED,
    KINDS,
    FoundObject,
    ResourceKind,
    count_jobs,
    everything,
    look_up,
    message_of,
    name_in,
    resource_name,
)
from headrace.governance.decide import deleting
from headrace.governance.objects import ObjectName, name_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.contracts.documents.model import Document, Documents
    from headrace.governance.api.context import CallContext

    Handler = Callable[[Any, CallContext], Awaitable[Any]]

_PLACE = re.compile(r"^[a-z]+\[0\]\.?")


def handlers() -> dict[str, Handler]:
    """A handler for each method of the six services, by the method's name."""
    found: dict[str, Handler] = {}
    for kind in KINDS:
        served = _DocumentService(kind)
        found[f"List{kind.titles}"] = served.list
        found[f"Get{kind.title}"] = served.get
        found[f"Create{kind.title}"] = served.create
        found[f"Update{kind.title}"] = served.update
        found[f"Delete{kind.title}"] = served.delete
    return found


class _DocumentService:
    """The five methods of one kind."""

    def __init__(self, kind: ResourceKind) -> None:
        self._kind = kind

    async def list(self, request: Any, call: CallContext) -> Any:
        """A page of the objects that the caller may see."""
        kind, state = self._kind, call.backend.state
        parent = getattr(request, "parent", None)
        tenant: str | None = "" if parent == "" else None
        if parent or kind.owned:
            (tenant,) = names.parts_of(parent or "", "tenants/*", "parent")
        page = paging.page_of(request.page_size, request.page_token, call.method, parent or "", request.filter)
        passes = filters.parse(request.filter, kind.message().DESCRIPTOR.fields_by_name)
        found = {resource_name(kind, one.name): one for one in everything(state, kind, call.tenant, tenant)}
        answer = self._page()
        shown = getattr(answer, kind.plural)
        for name in paging.after(sorted(found), page.last):
            if len(shown) == page.size:
                answer.next_page_token = page.token(shown[-1].name)
                break
            message = self._message(found[name], call)
            if passes is None or passes(field_lookup(message)):
                shown.append(message)
        answer.sequence = str(state.sequence)
        return answer

    async def get(self, request: Any, call: CallContext) -> Any:
        return self._message(self._found(request.name, call), call)

    async def create(self, request: Any, call: CallContext) -> Any:
        kind = self._kind
        given = names.check_id(getattr(request, f"{kind.kind}_id"), f"{kind.kind}_id")
        tenant = names.tenant_in(getattr(request, "parent", ""))
        if kind.owned or tenant:
            names.parts_of(request.parent, "tenants/*", "parent")
        name = ObjectName(kind.kind, tenant, given)
        there = look_up(call.backend.state, name, call.tenant)
        if there is not None and there.revision:
            message = f"{kind.kind}_id: {resource_name(kind, name)} is there already; change it by PATCH"
            raise ApiError(
                StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS", message, Violation(f"{kind.kind}_id", "is there already")
            )
        written = written_of(getattr(request, kind.kind), ANSWERED)
        return await self._write(name, written, 0, request, call)

    async def update(self, request: Any, call: CallContext) -> Any:
        """Change the fields in the update mask, or all fields."""
        kind, resource = self._kind, getattr(request, self._kind.kind)
        name = name_in(kind, resource.name, f"{kind.kind}.name")
        there = self._in_force(name, call)
        if there is None and not request.allow_missing:
            raise not_found(kind.kind, resource.name)
        revision = there.revision if there is not None else 0
        based_on = sequence_of(resource.etag, "etag")
        if resource.etag and based_on != revision:
            message = f"etag: it is based on revision {based_on}, the object is at {revision}: get it again"
            raise ApiError(StatusCode.ABORTED, "STALE", message, Violation("etag", message))
        now = _without_name(there.document, kind) if there is not None else {}
        new = written_of(resource, ANSWERED)
        return await self._write(name, merged(now, new, request.update_mask.paths, kind.fields()), revision, request, call)

    async def delete(self, request: Any, call: CallContext) -> Any:
        """Delete an object, or close it by a mode (R11)."""
        found = self._found(request.name, call)
        if not 0 <= request.mode < len(MODES):
            raise invalid("mode", "write FREEZE, DRAIN or CANCEL, or leave it out")
        operation = deleting(
            DeleteRequest(
                kind=self._kind.kind,
                name=found.name.full,
                mode=MODES[request.mode],
                reason=request.reason,
                revision=sequence_of(request.etag, "etag"),
            ),
            call.caller.author,
        )
        answer = await call.decided(operation, validate_only=request.validate_only)
        return plan_message(answer, call.backend.state.sequence)

    def _message(self, found: FoundObject, call: CallContext) -> Any:
        backend, message = call.backend, message_of(call.backend.state, self._kind, found)
        if self._kind.kind == "pool":
            count_jobs(message, backend.state, backend.job_index.lines, call.tenant)
        return message

    def _page(self) -> Any:
        """The empty answer to a request for a list."""
        return GetMessageClass(self._kind.message().DESCRIPTOR.file.message_types_by_name[f"List{self._kind.titles}Response"])()

    def _found(self, text: str, call: CallContext) -> FoundObject:
        found = look_up(call.backend.state, name_in(self._kind, text), call.tenant)
        if found is None:
            raise not_found(self._kind.kind, text)
        return found

    def _in_force(self, name: ObjectName, call: CallContext) -> FoundObject | None:
        """The complete object: a change must not lose fields that its author does not see. Used only for callers who may write it."""
        return look_up(call.backend.state, name, "") if look_up(call.backend.state, name, call.tenant) is not None else None

    async def _write(self, name: ObjectName, written: Written, revision: int, request: Any, call: CallContext) -> Any:
        """Apply one document, and return it."""
        kind, backend = self._kind, call.backend
        own: Written = {kind.own: name.name, "tenant": name.tenant} if name.tenant else {kind.own: name.name}
        documents = _read(kind, own | written)
        answer = await call.applied(documents, request.reason, {name.key: revision}, dry_run=request.validate_only)
        (document,) = getattr(documents, kind.plural)
        found = FoundObject(name_of(document), document, revision)
        if not request.validate_only:
            found = look_up(backend.state, name, "") or found
        return message_of(backend.state, kind, found, answer.warnings)


def _read(kind: ResourceKind, written: Written) -> Documents:
    """The set of this one document; each error is reported at the field of the resource."""
    try:
        return read_documents(tree_of({kind.plural: [written]}))
    except DocumentErrors as wrong:
        violations = [Violation(_PLACE.sub(f"{kind.kind}.", one.path).rstrip("."), one.message) for one in wrong.errors]
        message = f"{violations[0].field}: {violations[0].message}" if violations else str(wrong)
        raise ApiError(StatusCode.INVALID_ARGUMENT, "INVALID", message, *violations) from None


def _without_name(document: Document, kind: ResourceKind) -> Written:
    return {key: value for key, value in write_document(document).items() if key not in ("tenant", kind.own)}
