"""Power cuts: what a disk had been given when the power went is all that there is.

Strategy: the data lie on an ext4 file system of its own, on a loop device over a file. What a process writes stays in the page cache above
that device until it is synced or the kernel writes it back by itself; only then is it in the file. So a copy of the file, taken while the
processes are stopped in the middle of what they do, is the disk of a machine whose power has just gone: everything that was not synced is
lost. The copy is mounted (the journal is replayed, as after a power cut), and a server is started on it.

What this does not show: a disk that lies about having written (a volatile cache without power protection), and torn sectors.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

BYTES = 4 * 1024**3
"""A sparse file; NATS wants room for all that a stream may hold."""


def why_not() -> str:
    """Why there can be no loop device here; empty where there can."""
    if os.geteuid() != 0:
        return "it takes root"
    missing = [tool for tool in ("mkfs.ext4", "losetup", "mount") if shutil.which(tool) is None]
    return f"{missing[0]} is not installed" if missing else ""


class Machine:
    """A disk at `directory`, in `folder`. The kernel writes nothing back by itself within `commit` seconds, other than it sees fit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.directory = folder / "disk"
        self._image = folder / "image"
        self._number = 0

    def __enter__(self) -> Self:
        self.directory.mkdir()
        with self._image.open("wb") as file:
            file.truncate(BYTES)
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self._image))
        _run("mount", "-o", "loop,commit=300", str(self._image), str(self.directory))
        self.directory.chmod(0o711)
        return self

    def cut(self) -> None:
        """The disk as it is at this moment; its process is dead, and it is mounted again as it was."""
        self._number += 1
        copy = self.folder / f"image-{self._number}"
        _run("cp", "--sparse=always", str(self._image), str(copy))
        self._image, old = copy, self._image
        self._old = old

    def reboot(self) -> None:
        """After `cut`, when all processes are gone: what was in memory goes with them."""
        _run("umount", str(self.directory))
        self._old.unlink()
        _run("mount", "-o", "loop,commit=300", str(self._image), str(self.directory))

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.directory)], capture_output=True, check=False)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
