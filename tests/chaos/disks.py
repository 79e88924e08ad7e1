"""File systems of their own for the things of some parts, which become full to the last page, and have room again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.chaos.place import EXECUTORS, SERVERS, Place

STORE_MB, BOOKS_MB, NODE_MB = 3_000, 1_500, 200
"""NATS wants room for all that a stream may hold before it makes one."""


class Disks:
    """Where each part that has one keeps its things."""

    def __init__(self, place: Place) -> None:
        store = {part: (place.data / "nats" / f"store-{part[-1]}", STORE_MB) for part in SERVERS}
        nodes = {part: (place.data / "nodes" / part.removeprefix("node-"), NODE_MB) for part in EXECUTORS}
        self._places = store | nodes | {"postgres": (place.data / "postgres", BOOKS_MB)}
        self.parts: tuple[str, ...] = ()

    def mount(self) -> str:
        """Before the first start; why it cannot be, or nothing."""
        for directory, size in self._places.values():
            directory.mkdir(parents=True, exist_ok=True)
            for parent in (directory.parent, directory):
                parent.chmod(0o711)
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=0700", "chaos", str(directory)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return done.stderr.strip()
        self.parts = tuple(self._places)
        return ""

    def fill(self, part: str) -> None:
        """The file system shrinks to what lies in it."""
        directory = self._places[part][0]
        found = os.statvfs(directory)
        self._resize(directory, (found.f_blocks - found.f_bfree) * found.f_frsize)

    def empty(self, part: str) -> None:
        """There is room again."""
        directory, size = self._places[part]
        self._resize(directory, size * 1024 * 1024)

    def _resize(self, directory: Path, size: int) -> None:
        command = ["mount", "-o", f"remount,size={size}", "-t", "tmpfs", "chaos", str(directory)]
        subprocess.run(command, capture_output=True, check=False)
