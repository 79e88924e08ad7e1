"""Pages of lists: a token names the last element of a page, so that concurrent changes shift no page. Pure."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

import msgspec

from headrace.governance.api.errors import invalid

SIZE_USUAL, SIZE_MAX = 100, 1_000
TOKEN_MAX = 1_000


class _Token(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    question: str
    last: str


class PageRequest(NamedTuple):
    """A requested page: its size, and the element after which it begins (empty: from the first). `question` identifies the list."""

    size: int
    last: str
    question: str

    def token(self, last: str) -> str:
        """The token of the page after `last`."""
        return urlsafe_b64encode(msgspec.json.encode(_Token(self.question, last))).decode().rstrip("=")


def page_of(size: int, token: str, *question: str) -> PageRequest:
    """The page that a request asks for. A token of another list (method, parent, filter) is refused. Raises ApiError."""
    if not 0 <= size <= SIZE_MAX:
        raise invalid("page_size", f"write 1 to {SIZE_MAX}, or leave it out")
    asked = sha256("\0".join(question).encode("utf-8", "replace")).hexdigest()[:16]
    return PageRequest(size or SIZE_USUAL, _last_of(token, asked) if token else "", asked)


def _last_of(token: str, asked: str) -> str:
    try:
        read = msgspec.json.decode(urlsafe_b64decode(token[:TOKEN_MAX] + "=" * (-len(token) % 4)), type=_Token)
    except (ValueError, binascii.Error, RecursionError):
        raise invalid("page_token", "this is not a page token; begin again without one", "INVALID_PAGE_TOKEN") from None
    if read.question != asked:
        raise invalid("page_token", "this token is of another list; begin again without one", "INVALID_PAGE_TOKEN")
    return read.last


def after(names: Iterable[str], last: str) -> list[str]:
    """The names after `last`, in order; `last` itself may have been deleted."""
    return [name for name in names if name > last] if last else list(names)
