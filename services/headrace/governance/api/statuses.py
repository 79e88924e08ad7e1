"""Conversion of exceptions to the status that a caller reads: `google.rpc.Status` with `ErrorInfo` and `BadRequest`."""

from __future__ import annotations

import re

from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from headrace.bus.log import LogError, LogFull, NoStorage
from headrace.client.errors import Refused as InvalidSubmission
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.contracts.transport.codec import Malformed
from headrace.governance.api.errors import ApiError, Violation
from headrace.identity.caller import Denied, Unauthenticated
from headrace.nats_client.acknowledgement import TOO_MANY_SUBMISSIONS, TRY_AGAIN_AFTER
from headrace.service.answering import Refused

DOMAIN = "headrace.dev"
DETAILS = "grpc-status-details-bin"
MESSAGE_MAX = 1_000
"""Maximum characters of a message, which travels in a header."""

VIOLATIONS_MAX = 20

AWAY_RETRY = 2
"""Seconds after which a restarted server is expected to answer."""

_CODES = {
    "NOT_FOUND": StatusCode.NOT_FOUND,
    "INVALID": StatusCode.INVALID_ARGUMENT,
    "REFUSED": StatusCode.FAILED_PRECONDITION,
    "STALE": StatusCode.ABORTED,
    "UNAVAILABLE": StatusCode.UNAVAILABLE,
    "NOT_ALLOWED": StatusCode.PERMISSION_DENIED,
    "ID_REUSED": StatusCode.ALREADY_EXISTS,
}
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_.\[\]/-]{0,99}): ")


def of_refusal(refusal: Refused) -> ApiError:
    """Error of a refusal by the decider or a view; if it has a plan, every line of it."""
    code = _CODES.get(refusal.code, StatusCode.INTERNAL)
    errors = refusal.body.errors if isinstance(refusal.body, ApplyAnswer) else ()
    lines = (errors or (str(refusal),))[:VIOLATIONS_MAX]
    violations = [
        Violation(found[1], line[found.end() :]) if (found := _FIELD.match(line)) is not None else Violation("", line)
        for line in lines
        if errors or _FIELD.match(line) is not None
    ]
    return ApiError(code, refusal.code, str(refusal), *violations)


def of_error(error: BaseException) -> ApiError | None:
    """Error that answers the caller; None if the exception is a defect."""
    match error:
        case ApiError():
            return error
        case Refused():
            return of_refusal(error)
        case Unauthenticated():
            return ApiError(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", str(error))
        case Denied():
            return ApiError(StatusCode.PERMISSION_DENIED, "NOT_ALLOWED", str(error))
        case InvalidSubmission():
            return of_refusal(Refused(error.code, str(error)))
        case Malformed():
            return ApiError(StatusCode.INVALID_ARGUMENT, "MALFORMED", str(error))
        case LogFull():
            return ApiError(StatusCode.RESOURCE_EXHAUSTED, "TOO_FAST", TOO_MANY_SUBMISSIONS, retry_after=TRY_AGAIN_AFTER)
        case NoStorage():
            message = f"{error}; try again in {TRY_AGAIN_AFTER} s"
            return ApiError(StatusCode.UNAVAILABLE, "DISK_FULL", message, retry_after=TRY_AGAIN_AFTER)
        case LogError():
            message = f"the bus is away, try again in {AWAY_RETRY} s: {error}"
            return ApiError(StatusCode.UNAVAILABLE, "UNAVAILABLE", message, retry_after=AWAY_RETRY)
    return None


def status_of(fault: ApiError) -> bytes:
    """The `google.rpc.Status` of an error, for the trailer that carries it."""
    info = error_details_pb2.ErrorInfo(reason=fault.reason, domain=DOMAIN)
    details = [_packed(info)]
    if fault.violations:
        request = error_details_pb2.BadRequest()
        for violation in fault.violations[:VIOLATIONS_MAX]:
            request.field_violations.add(field=violation.field[:200], description=violation.message[:500])
        details.append(_packed(request))
    if fault.retry_after is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = fault.retry_after
        details.append(_packed(retry))
    number: int = fault.code.value[0]
    status = status_pb2.Status(code=number, message=fault.message[:MESSAGE_MAX], details=details)
    text: bytes = status.SerializeToString()
    return text


def _packed(message: object) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)  # type: ignore[arg-type]  # Google's messages have no types
    return packed
