"""The file by which a job is told that it has to yield (R28).

It lies where the job itself may write, so nothing that stands there in its place is followed or written to: it is made anew.
"""

from __future__ import annotations

import contextlib
import os

import msgspec


class Notice(msgspec.Struct, frozen=True):
    """What the preempt file says. `deadline`: by when the job should be gone, in Unix seconds, rounded down."""

    reason: str
    preemptor: str
    deadline: int


def write_notice(path: str, notice: Notice) -> str:
    """Put the notice at `path`, whole or not at all; why it could not be, or empty. Never raises."""
    fresh = f"{path}.new"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, msgspec.json.encode(notice))
        finally:
            os.close(descriptor)
        os.replace(fresh, path)
    except OSError as error:
        return f"the preempt file could not be written: {error.strerror}"
    return ""
