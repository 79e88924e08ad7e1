"""Reads a file into a tree (`yaml_text`): the amount read is limited, and every error is one line."""

from __future__ import annotations

import sys

from headrace.contracts.documents.tree import DocumentError, DocumentErrors, Tree
from headrace.contracts.documents.yaml_text import TEXT_MAX, read_tree

BYTES_MAX = 4 * TEXT_MAX
"""Maximum size of a file of `TEXT_MAX` characters, in bytes."""


def read_file(name: str) -> Tree:
    """The tree in a file; `-` is standard input. Raises DocumentErrors if it cannot be read or parsed."""
    try:
        if name == "-":
            written = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with open(name, "rb") as file:  # a path object is not needed here
                written = file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DocumentErrors([DocumentError("", None, f"it cannot be read: {why}")]) from None
    if len(written) > BYTES_MAX:
        raise DocumentErrors([DocumentError("", None, f"a file is at most {TEXT_MAX} characters, this has more")])
    try:
        return read_tree(written.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = written.count(b"\n", 0, error.start) + 1
        raise DocumentErrors([DocumentError("", line, "this is not UTF-8; save the file as UTF-8 text")]) from None
