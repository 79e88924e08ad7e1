"""The file that tells a job to yield (R28).

It lies where the job itself may write, so an existing file or link at its path is neither followed nor written to: a new file replaces
it.
"""

from __future__ import annotations

import contextlib
import os

import msgspec


class PreemptNotice(msgspec.Struct, frozen=True):
    """Content of the preempt file. `deadline`: when the job should be gone, in Unix seconds, rounded down."""

    reason: str
    preemptor: str
    deadline: int


def write_notice(path: str, notice: PreemptNotice) -> str:
    """Write the notice to `path` atomically; return why that failed, or "". Never raises."""
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
