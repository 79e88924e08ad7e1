"""Empty directories of leases that are over, kept for the next lease of the same account.

Strategy: two renames instead of three directories made and three removed. That is cheaper everywhere, and on disks that discard what is
freed removing a directory takes milliseconds, in which the one above it is locked. A directory stays with the account whose it was: who
still has it open sees nothing of others. Only so many are kept; the rest is made and removed as ever.
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
"""What is in an empty one of each kind, each of them empty itself."""

MOST = 256
LARGE = 64 * 1024
"""Bytes of a directory itself that once had many files in it, and takes long to be looked through for ever after."""


class Sort(NamedTuple):
    """Those that may stand for one another."""

    kind: str
    uid: int
    mode: int


class Spares:
    """The directories below `folder`, which is made, closed to others, and on one file system with what they are kept for."""

    def __init__(self, folder: str, most: int = MOST) -> None:
        self._folder = folder
        self._most = most
        self._count = self._number = 0
        self._there: dict[Sort, list[str]] = {}
        self._unusable: list[str] = []
        os.makedirs(folder, 0o700, exist_ok=True)
        for name in os.listdir(folder):  # those of a former executor
            path = f"{folder}/{name}"
            kind, _, number = name.partition(".")
            sort = _empty(kind, path)
            if sort is None or not number.isdecimal():
                self._unusable.append(path)
                continue
            self._number = max(self._number, int(number))
            self._put(sort, path)

    def clear(self) -> None:
        """Remove what a former executor left here that cannot be used, for example because a job wrote into it. May take long."""
        while self._unusable:
            remove(self._unusable.pop())

    def take(self, kind: str, uid: int, mode: int, to: str) -> bool:
        """Put one of them at `to`, as if it had just been made; whether there was one."""
        there = self._there.setdefault(Sort(kind, uid, mode), [])
        if not there:
            return False
        try:
            os.rename(there[-1], to)
        except OSError:  # something is there already
            return False
        there.pop()
        self._count -= 1
        if kind == CONTROL:  # these are pruned by their age
            with contextlib.suppress(OSError):
                os.utime(to)
        return True

    def keep(self, kind: str, path: str) -> bool:
        """Keep the directory at `path`, if it is as empty as it was made; whether it is gone from there."""
        sort = _empty(kind, path) if self._count < self._most else None
        if sort is None or sort not in self._there:  # of what nobody ever asks for none is kept
            return False
        self._number += 1
        kept = f"{self._folder}/{kind}.{self._number}"
        try:
            os.rename(path, kept)
        except OSError:
            return False
        self._put(sort, kept)
        return True

    def _put(self, sort: Sort, path: str) -> None:
        self._there.setdefault(sort, []).append(path)
        self._count += 1


def _contents(path: str) -> list[str]:
    """What is in a directory, or the first of it: a job may have left a million files."""
    with os.scandir(path) as entries:
        return [entry.name for entry in islice(entries, 2)]


def _empty(kind: str, path: str) -> Sort | None:
    """Of which sort this directory is; None where it is not, or no longer, as it was made."""
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
    return Sort(kind, found.st_uid, stat.S_IMODE(found.st_mode))
