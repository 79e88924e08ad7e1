"""What a terminal is shown: text of others can hold control sequences, which a terminal would obey. They are made visible there.

A job's output, its name or an error's text may move the cursor, set the window's title or change what was printed before. Only a terminal
obeys them, so pipes and files get every byte as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_CONTROL = re.compile("\r\n?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0 and C1 controls but tab and line feed, and what changes the direction of writing."""


def visible(text: str) -> str:
    r"""The text with `^[` for escape, `\x9b` or `\u202e` for other controls, and a new line for each carriage return."""
    return _CONTROL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0][0])
    if found[0][0] == "\r":
        return "\n"
    if code == 0x7F:
        return "^?"
    if code < 0x20:
        return f"^{chr(code + 0x40)}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class _Visible:
    """Terminal stream whose text is made `visible` when written; everything else is passed on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(visible(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def clear() -> None:
    """Clear the terminal that standard output is, and go to its first line."""
    stream = sys.stdout._stream if isinstance(sys.stdout, _Visible) else sys.stdout
    stream.write("\033[H\033[2J")


def progress(text: str) -> None:
    """Show progress on one line of standard error, in the place of the last one; the line is not cleared."""
    stream = sys.stderr._stream if isinstance(sys.stderr, _Visible) else sys.stderr
    stream.write(f"\r{text}\033[K\r")
    stream.flush()


@contextmanager
def made_visible(*, raw: bool = False) -> Iterator[None]:
    """Standard output and error, where they are terminals, show control characters and do not obey them; `raw` leaves them as they are."""
    before = sys.stdout, sys.stderr
    if not raw:
        sys.stdout, sys.stderr = (_Visible(stream) if stream.isatty() else stream for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
