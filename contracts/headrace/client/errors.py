"""The errors that the client raises."""

from __future__ import annotations


class HeadraceError(Exception):
    """The base of all errors; the text is one line with the problem and the way out.

    HeadraceError
    ├── Unreachable   no installation was found, NATS is away, or a service does not answer: try again
    └── Refused       the request was refused: `code` is the reason, a stable token
        └── Busy      too many messages at this moment
    """


class Unreachable(HeadraceError):
    """No answer. The request may or may not have been received; a submit may be repeated with the same id."""


class Refused(HeadraceError):
    """The request was refused. `code` is a token such as `NOT_FOUND`, `NOT_ALLOWED`, `INVALID`; `body` has details, as JSON.

    `retry_after`: seconds after which to try again; None if waiting does not help.
    """

    def __init__(self, code: str, text: str, body: bytes = b"null", *, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.body = body
        self.retry_after = retry_after


class Busy(Refused):
    """Too many messages are being stored at this moment; the same may be sent again at once."""
