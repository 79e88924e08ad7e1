"""All that can go wrong between a program and Headrace."""

from __future__ import annotations


class HeadraceError(Exception):
    """Something did not work; the text is one line that says what, and the way out.

    HeadraceError
    ├── Unreachable   there is no installation, NATS is away, or a service does not answer: try again
    └── Refused       the answer is no: `code` says why in one stable token
    """


class Unreachable(HeadraceError):
    """Nobody answers. What was asked may or may not have been heard; a submit may be repeated with the same id."""


class Refused(HeadraceError):
    """The answer is no. `code` is a token such as `NOT_FOUND`, `NOT_ALLOWED`, `INVALID`; `body` is what else there is to say, as JSON.

    `retry_after`: seconds after which it may be another answer; None where waiting changes nothing.
    """

    def __init__(self, code: str, text: str, body: bytes = b"null", *, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.body = body
        self.retry_after = retry_after
