"""The state of verification, which *audit* tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.facts.writers import AUDIT
from headrace.contracts.messages.audit import VerifyReport
from headrace.contracts.messages.queries import Answer
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import decode
from headrace.governance.api.messages import moment
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext

ANSWER_WITHIN = 5.0


async def get_verification(_request: Any, call: CallContext) -> pb.Verification:
    """What is verified and sealed; what was found only for the provider, because it may name jobs of any tenant."""
    subject = subjects.query(AUDIT, "verified", call.caller.tenant, call.caller.handle)
    reply = await call.backend.connection.ask(subject, within=min(ANSWER_WITHIN, call.within))
    answer = decode(reply.data, Answer)
    if answer.error:
        raise Refused(answer.code or "REFUSED", answer.error)
    return message_of(decode(bytes(answer.body), VerifyReport), call)


def message_of(report: VerifyReport, call: CallContext) -> pb.Verification:
    """The report as the caller may read it."""
    message = pb.Verification(
        time=moment(call.backend.now()),
        sequence=str(report.through),
        behind=max(0, call.backend.state.sequence - report.through),
        sealed_sequence=str(report.sealed_through),
        seals=report.seals,
        seal_age=report.seal_age,
        key=report.key,
        recomputed=report.recomputed,
        found=report.found,
    )
    if call.caller.is_provider:
        message.stopped = report.stopped
        for finding in report.findings:
            message.findings.add(kind=finding.kind, first=str(finding.sequence), last=str(finding.through), text=finding.text)
    return message
