"""Errors as callers see them: a gRPC status, a stable reason, the invalid field, and one line with the way out. Pure."""

from __future__ import annotations

from typing import NamedTuple

from grpc import StatusCode


class Violation(NamedTuple):
    """One invalid field of a request."""

    field: str
    message: str


class ApiError(Exception):
    """A call failed. `reason` is a stable token, `violations` the invalid fields.

    `retry_after`: seconds after which a new attempt may succeed; None if waiting does not help.
    """

    def __init__(
        self, code: StatusCode, reason: str, message: str, *violations: Violation, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.violations = violations
        self.retry_after = retry_after


def invalid(field: str, message: str, reason: str = "INVALID") -> ApiError:
    """Error of an invalid field of the request."""
    return ApiError(StatusCode.INVALID_ARGUMENT, reason, f"{field}: {message}", Violation(field, message))


def not_found(what: str, name: str, field: str = "name") -> ApiError:
    """Error of an object that does not exist or that the caller may not see."""
    message = f"{field}: there is no {what} {shown(name)!r}"
    return ApiError(StatusCode.NOT_FOUND, "NOT_FOUND", message, Violation(field, "not found"))


def shown(text: str) -> str:
    """Text from outside, shortened and printable, for use in a message."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:120])
