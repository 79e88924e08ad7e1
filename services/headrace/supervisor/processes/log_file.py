"""A rotated log file of a child's output; a full disk loses lines, and is otherwise harmless."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

SIZE_MAX = 8 * 1024 * 1024
KEPT = 3


class LogFile:
    """Appends bytes to `path`; at `size_max` the file becomes `path.1`, that one `path.2`, and so on up to `kept`.

    Nothing raises: what cannot be written is counted, and the next line that can be says how much is missing.
    """

    def __init__(self, path: Path, size_max: int = SIZE_MAX, kept: int = KEPT) -> None:
        self.path = path
        self._size_max = size_max
        self._kept = kept
        self._handle = -1
        self._size = 0
        self._missing = 0
        self._why = ""

    def write(self, data: bytes) -> None:
        """Append, or count what is missing."""
        try:
            if self._handle < 0:
                self._open()
            if self._size and self._size + len(data) > self._size_max:
                self._rotate()
            if self._missing:
                self._put(f"-- {self._missing} bytes are missing here: {self._why}\n".encode())
                self._missing = 0
            self._put(data)
        except OSError as error:
            self._missing += len(data)
            self._why = error.strerror or str(error)

    def last_line(self) -> str:
        """Return the last line that is not empty, or "": a child's last message before it died."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.path.stat().st_size - 16 * 1024))
                lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._handle).st_size

    def _rotate(self) -> None:
        self.close()
        for number in range(self._kept - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._older(number).rename(self._older(number + 1))
        self.path.rename(self._older(1))
        self._open()

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._handle, view)
            self._size += written
            view = view[written:]
