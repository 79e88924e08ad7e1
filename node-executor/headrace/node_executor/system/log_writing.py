"""Writes a job's output into its log; for keepers, so only the standard library is imported."""

from __future__ import annotations

import contextlib
import fcntl
import os

SEGMENTS = 4
"""A log has a head and at most three newer pieces, each a fourth of its limit."""


class Log:
    """Log of a job's output. Two keepers may write one log, a job's and its callback's: the first piece is the lock."""

    def __init__(self, path: str, limit: int) -> None:
        self._path, self._folder = path, f"{path}.d"
        self._piece = max(1, limit // SEGMENTS)
        self._head = self._now = -1
        self._start = self._dropped = 0

    def write(self, data: bytes) -> None:
        """Append data. Data that the disk refuses is dropped, and a line says so as soon as possible."""
        try:
            if self._head < 0:
                self._head = self._now = _open(self._path)
            fcntl.flock(self._head, fcntl.LOCK_EX)
            try:
                self._append(data)
            finally:
                fcntl.flock(self._head, fcntl.LOCK_UN)
        except OSError:
            self._dropped += len(data)

    def _append(self, data: bytes) -> None:
        if self._dropped:
            os.write(self._now, f"\n[headrace] {self._dropped} bytes were dropped: the disk was full\n".encode())
            self._dropped = 0
        while data:
            self._turn()
            free = self._piece - os.fstat(self._now).st_size
            written = os.write(self._now, data[:free] if free > 0 else data)
            data = data[written:]

    def _turn(self) -> None:
        """Switch to the newest piece, a new one if that is full; with too many pieces the oldest except the head is removed."""
        while (size := os.fstat(self._now).st_size) >= self._piece:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._folder, 0o750)
            starts = sorted(int(name) for name in os.listdir(self._folder) if name.isdecimal())
            newest = max([self._start, *starts])
            if newest == self._start:
                newest += size
                if len(starts) + 1 >= SEGMENTS:
                    os.unlink(f"{self._folder}/{starts[0]}")
            following = _open(f"{self._folder}/{newest}")
            if self._now != self._head:
                os.close(self._now)
            self._now, self._start = following, newest


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
