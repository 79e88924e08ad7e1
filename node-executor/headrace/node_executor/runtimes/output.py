"""What a job prints, in one file with a limit: a full disk or a full file costs output, never the job."""

from __future__ import annotations

import os

MARK = "[headrace] "


class Output:
    """A file that comes into being with the first byte and takes at most `limit` bytes.

    What does not fit, or what the disk refuses, is dropped; the file says so as soon as it can.
    """

    __slots__ = ("_closed", "_descriptor", "_dropped", "_full", "_written", "limit", "path")

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self.limit = limit
        self._descriptor = -1
        self._written = 0
        self._dropped = 0
        self._full = False
        self._closed = False

    def write(self, data: bytes) -> None:
        """Append `data`, or as much of it as there is room for. Never raises."""
        if self._full:
            return
        room = self.limit - self._written
        fits = data[:room] if len(data) > room else data
        if self._dropped:
            fits = f"\n{MARK}{self._dropped} bytes were dropped: the disk was full\n".encode() + fits
        if not self._append(fits):
            self._dropped += len(data)
            return
        self._dropped = 0
        if len(data) > room:
            self._full = True
            self._append(f"\n{MARK}the output is longer than {self.limit} bytes; the rest is dropped\n".encode())

    def note(self, text: str) -> None:
        """A line of our own about the job, also where the file is full."""
        self._append(f"{MARK}{text}\n".encode())

    def close(self) -> None:
        """What comes later is dropped; more than once does no harm."""
        self._closed = True
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, data: bytes) -> bool:
        if self._closed:
            return False
        try:
            if self._descriptor < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o640)
                self._written = os.fstat(self._descriptor).st_size
            while data:
                written = os.write(self._descriptor, data)
                self._written += written
                data = data[written:]
        except OSError:
            return False
        return True
