"""What JetStream answers to who publishes: stored, or why not."""

from __future__ import annotations

import msgspec

FULL = 10_077
"""The error's number where a subject holds as much as it may."""
NO_STORAGE = 10_047
"""The one where there is no room on the disk."""
TOO_LARGE = 10_054
"""The one of a message beyond the stream's bound."""

TRY_AGAIN_AFTER = 5
"""Seconds after which either may have passed: some of the subject has been read, somebody made room."""
TOO_MANY_WISHES = f"too many wishes of this queue are not judged yet; try again in {TRY_AGAIN_AFTER} s"


class Fault(msgspec.Struct):
    """Why not: `err_code` is JetStream's own number, `code` that of the kind of fault, as in HTTP."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class Acknowledgement(msgspec.Struct):
    """The answer: the place in the stream, or the fault."""

    seq: int = 0
    error: Fault | None = None
