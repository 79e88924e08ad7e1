from __future__ import annotations

import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from headrace.bus.log import LogFull, LogUnavailable, NoStorage
from headrace.client.errors import Refused as InvalidSubmission
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.contracts.transport.codec import Malformed
from headrace.governance.api.errors import ApiError, Violation
from headrace.governance.api.statuses import of_error, status_of
from headrace.identity.caller import Denied, Unauthenticated
from headrace.service.answering import Refused


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (Refused("NOT_FOUND", "no"), StatusCode.NOT_FOUND, "NOT_FOUND"),
        (Refused("STALE", "no"), StatusCode.ABORTED, "STALE"),
        (Refused("REFUSED", "no"), StatusCode.FAILED_PRECONDITION, "REFUSED"),
        (Refused("UNHEARD_OF", "no"), StatusCode.INTERNAL, "UNHEARD_OF"),
        (InvalidSubmission("INVALID", "command: no"), StatusCode.INVALID_ARGUMENT, "INVALID"),
        (Unauthenticated("no"), StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
        (Denied("no"), StatusCode.PERMISSION_DENIED, "NOT_ALLOWED"),
        (Malformed("no"), StatusCode.INVALID_ARGUMENT, "MALFORMED"),
        (LogUnavailable("no"), StatusCode.UNAVAILABLE, "UNAVAILABLE"),
        (NoStorage("no"), StatusCode.UNAVAILABLE, "DISK_FULL"),
        (LogFull("no"), StatusCode.RESOURCE_EXHAUSTED, "TOO_FAST"),
    ],
)
def test_every_refusal_has_its_status(error, code, reason):
    fault = of_error(error)
    assert (fault.code, fault.reason) == (code, reason)


def test_a_defect_is_not_an_answer():
    assert of_error(KeyError("x")) is None


def test_a_refused_plan_tells_every_field_at_fault():
    plan = ApplyAnswer(changes=(), errors=("policies[0].limit.gpu: too much", "policy acme/x: R8", "no field here"))
    fault = of_error(Refused("INVALID", "policies[0].limit.gpu: too much (and 2 more)", plan))
    assert fault.violations == (
        Violation("policies[0].limit.gpu", "too much"),
        Violation("", "policy acme/x: R8"),
        Violation("", "no field here"),
    )


def test_a_status_travels_with_its_reason_and_its_fields():
    status = status_pb2.Status.FromString(
        status_of(ApiError(StatusCode.ABORTED, "STALE", "etag: old", Violation("etag", "old")))
    )
    info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(request)
    assert (status.code, status.message, info.reason, info.domain) == (10, "etag: old", "STALE", "headrace.dev")
    assert [(one.field, one.description) for one in request.field_violations] == [("etag", "old")]


def test_a_full_disk_is_said_in_the_words_of_who_has_seen_it():
    fault = of_error(NoStorage("the disk is full: it goes on by itself"))
    assert (fault.message, fault.retry_after) == ("the disk is full: it goes on by itself; try again in 5 s", 5)


def test_what_time_may_change_says_how_long_to_wait():
    fault = of_error(LogFull("maximum messages per subject exceeded"))
    assert (fault.message, fault.retry_after) == ("too many submissions of this queue are not judged yet; try again in 5 s", 5)
    retry = error_details_pb2.RetryInfo()
    assert status_pb2.Status.FromString(status_of(fault)).details[1].Unpack(retry)
    assert retry.retry_delay.seconds == 5
    assert of_error(Refused("STALE", "no")).retry_after is None
