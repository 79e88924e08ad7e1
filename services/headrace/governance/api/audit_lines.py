"""The lines of the audit log, which *accounting* reads from the books."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import ParseDict
from msgspec.structs import replace

from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.messages.audit import AuditAnswer, AuditLine, AuditRequest
from headrace.contracts.transport.codec import encode
from headrace.governance.api import paging
from headrace.governance.api.messages import exact, microseconds, moment, sequence_of
from headrace.governance.api.usage import ask_books, tenant_asked

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext


async def list_audit_lines(request: Any, call: CallContext) -> pb.ListAuditLinesResponse:
    """A page of the facts that the caller may read, in the order of the ledger."""
    tenant = tenant_asked(request, call)
    asked = AuditRequest(
        since=microseconds(request.since, "since"),
        until=microseconds(request.until, "until"),
        job=request.job,
        user=request.user,
        node=request.node,
        kinds=tuple(request.kinds),
        causes=request.causes,
    )
    page = paging.page_of(request.page_size, request.page_token, call.method, tenant, encode(asked).decode())
    question = replace(asked, limit=page.size, after=sequence_of(page.last, "page_token"))
    found = await ask_books("audit", tenant, question, AuditAnswer, call)
    answer = pb.ListAuditLinesResponse(lines=map(_line, found.lines), sequence=str(found.through))
    if found.next:
        answer.next_page_token = page.token(str(found.next))
    return answer


def _line(line: AuditLine) -> pb.AuditLine:
    message = pb.AuditLine(
        sequence=str(line.sequence),
        place=line.place,
        time=moment(line.at),
        by=line.by,
        type=line.type,
        about=line.about,
        text=line.text,
        rule=line.rule,
        as_of=str(line.as_of) if line.as_of else "",
        engine=line.engine,
        cause=line.cause,
        because=line.because,
    )
    ParseDict(exact(line.fact), message.fact)
    return message
