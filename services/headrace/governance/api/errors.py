"""What goes wrong, as callers see it: a gRPC status, a stable reason, the field at fault, and one line with the way out. Pure."""

from __future__ import annotations

from typing import NamedTuple

from grpc import StatusCode


class Violation(NamedTuple):
    """One field at fault."""

    field: str
    message: str


class ApiError(Exception):
    """The answer is no. `reason` is a stable token, `violations` the fields at fault.

    `retry_after`: seconds after which it may be another answer; None where waiting changes nothing.
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
    """A field of the request is not what it has to be."""
    return ApiError(StatusCode.INVALID_ARGUMENT, reason, f"{field}: {message}", Violation(field, message))


def not_found(what: str, name: str, field: str = "name") -> ApiError:
    """There is no such thing, or the caller may not know that there is."""
    message = f"{field}: there is no {what} {shown(name)!r}"
    return ApiError(StatusCode.NOT_FOUND, "NOT_FOUND", message, Violation(field, "not found"))


def shown(text: str) -> str:
    """Text from outside, fit for a message."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:120])
