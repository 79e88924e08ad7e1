"""Documents as people write them: apply whole files, all or nothing (R9), read, delete; and plans as messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import ParseDict
from grpc import StatusCode

from headrace.contracts.api import documents_pb2 as pb
from headrace.contracts.api import plan_pb2
from headrace.contracts.documents.model import Tenant
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import DocumentErrors, tree_of
from headrace.contracts.documents.writer import write_document
from headrace.contracts.messages.queries import DeleteRequest
from headrace.governance.api.errors import ApiError, Violation, invalid
from headrace.governance.api.messages import exact, plain, sequence_of
from headrace.governance.api.resource_kinds import KINDS, ResourceKind, everything
from headrace.governance.decide import deleting, first_of
from headrace.governance.objects import full_name, placed, with_tenant
from headrace.governance.validation.diagnostics import unknown
from headrace.identity.caller import Role
from headrace.identity.roles import authorize
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Documents
    from headrace.contracts.messages.queries import ApplyAnswer, Change
    from headrace.governance.api.context import CallContext

_SIGNS = {"create": "+", "update": "~", "delete": "-", "keep": "="}
SHOWN_MAX = 2_000
"""Maximum changes shown of a plan."""
MODES = ("", "freeze", "drain", "cancel")
"""Modes by the numbers of `DeleteMode`."""


async def apply_documents(request: Any, call: CallContext) -> plan_pb2.Plan:
    """Apply documents, or return the plan of applying them."""
    written = plain(request.documents)
    if call.caller.role is Role.TENANT_ADMIN and isinstance(written, dict):
        written = with_tenant(written, call.caller.tenant)
    documents = await asyncio.to_thread(_read, written)  # a large set takes seconds, during which others are served
    for one in placed(documents):
        whose = one.name.name if isinstance(one.document, Tenant) else one.name.tenant
        authorize(call.caller, f"Update{one.name.kind.title()}", whose)
    revisions = {key: sequence_of(text, f"revisions.{key}") for key, text in request.revisions.items()}
    answer = await call.applied(documents, request.reason, revisions, dry_run=request.dry_run)
    return plan_message(answer, call.backend.state.sequence)


def _read(written: object) -> Documents:
    try:
        return read_documents(tree_of(written))
    except DocumentErrors as wrong:
        violations = [Violation(f"documents.{one.path}" if one.path else "documents", one.message) for one in wrong.errors]
        message = first_of(tuple(f"{violation.field}: {violation.message}" for violation in violations))
        raise ApiError(StatusCode.INVALID_ARGUMENT, "INVALID", message, *violations) from None


async def get_documents(request: Any, call: CallContext) -> pb.GetDocumentsResponse:
    """Documents of a kind, or one by name, as the caller sees them."""
    kind, state = _kind_of(request.kind), call.backend.state
    found = {one.name.full: one for one in everything(state, kind, call.tenant, None) if one.revision}
    named = sorted(full for full, one in found.items() if request.name in ("", full, one.name.name))
    if request.name and not named:
        raise Refused("NOT_FOUND", f"name: {unknown(kind.kind, request.name, found)}")
    answer = pb.GetDocumentsResponse(sequence=str(state.sequence))
    for full in named:
        one = found[full]
        closing = state.terms.closings.get((kind.kind, one.name.tenant, one.name.name))
        message = answer.documents.add(
            kind=kind.kind, name=full, etag=str(one.revision), closed=closing.mode if closing is not None else ""
        )
        ParseDict(exact(write_document(one.document)), message.document)
    return answer


async def delete_document(request: Any, call: CallContext) -> plan_pb2.Plan:
    """Delete an object by kind and name, or close it by a mode (R11)."""
    kind = _kind_of(request.kind)
    own = "" if call.caller.is_provider else call.caller.tenant
    name = full_name(kind.kind, request.name, request.tenant or own)
    authorize(call.caller, f"Delete{kind.title}", name.name if name.kind == "tenant" else name.tenant)
    if not 0 <= request.mode < len(MODES):
        raise invalid("mode", "write FREEZE, DRAIN or CANCEL, or leave it out")
    operation = deleting(
        DeleteRequest(
            kind=kind.kind,
            name=name.full,
            mode=MODES[request.mode],
            reason=request.reason,
            revision=sequence_of(request.etag, "etag"),
        ),
        call.caller.author,
    )
    answer = await call.decided(operation, validate_only=request.validate_only)
    return plan_message(answer, call.backend.state.sequence)


def _kind_of(text: str) -> ResourceKind:
    found = next((kind for kind in KINDS if kind.kind == text), None)
    if found is None:
        raise invalid("kind", unknown("kind", text, [kind.kind for kind in KINDS]))
    return found


def plan_message(answer: ApplyAnswer, sequence: int) -> plan_pb2.Plan:
    """A plan as a message, with at most `SHOWN_MAX` changes; of more than that those that change something."""
    changes = answer.changes
    if len(changes) > SHOWN_MAX:
        changes = tuple(change for change in changes if change.action != "keep")[:SHOWN_MAX]
    return plan_pb2.Plan(
        changes=[
            plan_pb2.Change(
                kind=change.kind,
                name=change.name,
                action=change.action,
                fields=change.fields,
                etag=str(change.revision) if change.revision else "",
            )
            for change in changes
        ],
        warnings=answer.warnings,
        applied=answer.applied,
        running=answer.running,
        pending=answer.pending,
        revision=str(answer.revision) if answer.revision else "",
        sequence=str(sequence),
        lines=lines_of(answer, changes),
    )


def lines_of(answer: ApplyAnswer, changes: tuple[Change, ...]) -> list[str]:
    """The plan as lines of text."""
    lines: list[str] = []
    for change in changes:
        lines.append(f"{_SIGNS.get(change.action, '?')} {change.kind} {change.name}")
        lines += [f"    {field}" for field in change.fields] if change.action == "update" else []
    lines += [f"warning: {warning}" for warning in answer.warnings[:SHOWN_MAX]]
    if answer.running or answer.pending:
        lines.append(f"It touches {answer.running} running and {answer.pending} pending jobs.")
    return lines
