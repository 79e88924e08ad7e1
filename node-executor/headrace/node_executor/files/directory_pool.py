"""Pool of empty directories of leases that are over, for the next lease of the same account.

Strategy: two renames instead of creating and removing three directories. That is cheaper everywhere, and on disks that discard freed
blocks, removing a directory takes milliseconds in which its parent is locked. A directory stays with its account: a process that still
has it open sees no other account's files. The pool is bounded; beyond that, directories are created and removed as usual.
"""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import islice
from typing import NamedTuple

from headrace.node_executor.files.directory_trees import remove

WORK = "work"
CONTROL, CHECKPOINTS = "control", "checkpoints"
CONTENTS = {CONTROL: [WORK], CHECKPOINTS: []}
"""Content of an empty directory of each kind; each entry is empty itself."""

MOST = 256
LARGE = 64 * 1024
"""Size in bytes from which on a directory is not reused: it once had many files, and stays slow to list."""


class DirectoryKind(NamedTuple):
    """Key of directories that can replace one another."""

    kind: str
    uid: int
    mode: int


class DirectoryPool:
    """The pool below `folder`, which is created closed to others, on the same file system as the directories that it serves."""

    def __init__(self, folder: str, most: int = MOST) -> None:
        self._folder = folder
        self._most = most
        self._count = self._number = 0
        self._there: dict[DirectoryKind, list[str]] = {}
        self._unusable: list[str] = []
        os.makedirs(folder, 0o700, exist_ok=True)
        for name in os.listdir(folder):  # left by a former executor
            path = f"{folder}/{name}"
            kind, _, number = name.partition(".")
            sort = _empty(kind, path)
            if sort is None or not number.isdecimal():
                self._unusable.append(path)
                continue
            self._number = max(self._number, int(number))
            self._put(sort, path)

    def clear(self) -> None:
        """Remove directories that a former executor left here and that cannot be used, for example because a job wrote into them.

        May take long.
        """
        while self._unusable:
            remove(self._unusable.pop())

    def take(self, kind: str, uid: int, mode: int, to: str) -> bool:
        """Move a directory of the pool to `to`, as if newly created; False if the pool has none that fits."""
        there = self._there.setdefault(DirectoryKind(kind, uid, mode), [])
        if not there:
            return False
        try:
            os.rename(there[-1], to)
        except OSError:  # something exists at `to` already
            return False
        there.pop()
        self._count -= 1
        if kind == CONTROL:  # these are pruned by age
            with contextlib.suppress(OSError):
                os.utime(to)
        return True

    def keep(self, kind: str, path: str) -> bool:
        """Move the directory at `path` into the pool if it is still as empty as when created; True if it was moved."""
        sort = _empty(kind, path) if self._count < self._most else None
        if sort is None or sort not in self._there:  # of sorts that were never asked for none is kept
            return False
        self._number += 1
        kept = f"{self._folder}/{kind}.{self._number}"
        try:
            os.rename(path, kept)
        except OSError:
            return False
        self._put(sort, kept)
        return True

    def _put(self, sort: DirectoryKind, path: str) -> None:
        self._there.setdefault(sort, []).append(path)
        self._count += 1


def _contents(path: str) -> list[str]:
    """Return the entries of a directory, or the first of them: a job may have left a million files."""
    with os.scandir(path) as entries:
        return [entry.name for entry in islice(entries, 2)]


def _empty(kind: str, path: str) -> DirectoryKind | None:
    """Return the sort of this directory; None if it is not as it was created."""
    try:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_size > LARGE or _contents(path) != CONTENTS.get(kind):
            return None
        for name in CONTENTS[kind]:
            below = os.lstat(f"{path}/{name}")
            if (below.st_mode, below.st_uid) != (found.st_mode, found.st_uid) or below.st_size > LARGE:
                return None
            if _contents(f"{path}/{name}"):
                return None
    except OSError:
        return None
    return DirectoryKind(kind, found.st_uid, stat.S_IMODE(found.st_mode))
