"""A file into a tree (`document_yaml`), whatever lies there: no more is read than could be understood, and every failure is one line."""

from __future__ import annotations

import sys

from headrace.contracts.documents.tree import DocumentError, DocumentErrors, Tree
from headrace.contracts.documents.yaml_text import TEXT_MAX, read_tree

BYTES_MAX = 4 * TEXT_MAX
"""What so many characters take at most."""


def read_file(name: str) -> Tree:
    """The tree in a file, `-` being standard input. `DocumentErrors` where it cannot be read or is none."""
    try:
        if name == "-":
            written = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with open(name, "rb") as file:  # a path needs nothing else here
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
