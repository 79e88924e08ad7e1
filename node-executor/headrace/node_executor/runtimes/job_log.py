"""The executor's own lines in a job's log: why it did not start, or what could not be found.

The job's own output is written by its keeper, into pieces: the file itself is the first, `<path>.d/<start>` are later ones, each named
after the number of bytes before it. Pieces between the first and the last few are dropped.
"""

from __future__ import annotations

import os
from typing import NamedTuple

MARK = "[headrace] "


class Output(NamedTuple):
    """A log at `path`, limited to about `limit` bytes."""

    path: str
    limit: int

    def note(self, text: str) -> None:
        """Append a line of the executor about the job. Never raises: a full disk costs output, never the job."""
        _, newest = pieces(self.path)[-1]
        try:
            descriptor = os.open(newest, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            try:
                os.write(descriptor, f"{MARK}{text}\n".encode())
            finally:
                os.close(descriptor)
        except OSError:
            return


def pieces(path: str) -> list[tuple[int, str]]:
    """Return the files of a log in order, each with the number of bytes before it; the first may not exist yet."""
    folder = f"{path}.d"
    try:
        starts = sorted(int(name) for name in os.listdir(folder) if name.isdecimal())
    except OSError:
        starts = []
    return [(0, path), *((start, f"{folder}/{start}") for start in starts)]
