"""`documents:apply`: whole files, all or nothing (R9); and plans as messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grpc import StatusCode

from headrace.contracts.api import plan_pb2
from headrace.contracts.documents.model import Tenant
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import DocumentErrors, tree_of
from headrace.governance.api.errors import ApiError, Violation
from headrace.governance.api.messages import plain, sequence_of
from headrace.governance.decide import first_of
from headrace.governance.objects import placed
from headrace.identity.roles import authorize

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Documents
    from headrace.contracts.messages.queries import ApplyAnswer
    from headrace.governance.api.context import CallContext

_SIGNS = {"create": "+", "update": "~", "delete": "-", "keep": "="}
SHOWN_MAX = 2_000
"""Maximum changes shown of a plan."""


async def apply_documents(request: Any, call: CallContext) -> plan_pb2.Plan:
    """Apply documents, or return the plan of applying them."""
    written = plain(request.documents)
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


def plan_message(answer: ApplyAnswer, sequence: int) -> plan_pb2.Plan:
    """A plan as a message, with at most `SHOWN_MAX` changes."""
    return plan_pb2.Plan(
        changes=[
            plan_pb2.Change(
                kind=change.kind,
                name=change.name,
                action=change.action,
                fields=change.fields,
                etag=str(change.revision) if change.revision else "",
            )
            for change in answer.changes[:SHOWN_MAX]
        ],
        warnings=answer.warnings,
        applied=answer.applied,
        running=answer.running,
        pending=answer.pending,
        revision=str(answer.revision) if answer.revision else "",
        sequence=str(sequence),
        lines=lines_of(answer),
    )


def lines_of(answer: ApplyAnswer) -> list[str]:
    """The plan as lines of text."""
    lines: list[str] = []
    for change in answer.changes[:SHOWN_MAX]:
        lines.append(f"{_SIGNS.get(change.action, '?')} {change.kind} {change.name}")
        lines += [f"    {field}" for field in change.fields] if change.action == "update" else []
    lines += [f"warning: {warning}" for warning in answer.warnings[:SHOWN_MAX]]
    if answer.running or answer.pending:
        lines.append(f"It touches {answer.running} running and {answer.pending} pending jobs.")
    return lines
