"""Goes through directories that jobs have filled, and removes them: however deep, and without following links, also ones made meanwhile.

Strategy: a directory is opened relative to the open one that it is in. Nothing here is recursive, because a job chooses the depth: going
through a tree holds one open directory for each level, up to `DEPTH_MAX`; removing one takes two, because what is deeper is moved up.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Generator, Iterator

DEPTH_MAX = 256
"""Levels of directories that are gone through. The paths that programs use do not reach this deep."""

REMOVE_WITHIN = 600.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_MOVED = ".headrace-removing."


def walk(top: str, failed: Callable[[OSError], None]) -> Generator[tuple[int, os.DirEntry[str]]]:
    """Everything below `top`, each entry with the descriptor of the directory that it is in; a directory comes before what is in it.

    `failed` is told of what cannot be listed, with `ENAMETOOLONG` where that is too deep; what has gone meanwhile is left out.
    """
    opened: list[tuple[int, list[str]]] = []
    name, where = top, None
    try:
        while True:
            here = _open(name, where, failed)
            if here >= 0:
                below: list[str] = []
                opened.append((here, below))
                try:
                    with os.scandir(here) as entries:
                        for entry in entries:
                            yield here, entry
                            if entry.is_dir(follow_symlinks=False):
                                below.append(entry.name)
                except OSError as error:
                    failed(error)
                if below and len(opened) == DEPTH_MAX:
                    failed(OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)))
                    below.clear()
            while opened and not opened[-1][1]:
                os.close(opened.pop()[0])
            if not opened:
                return
            where, name = opened[-1][0], opened[-1][1].pop()
    finally:
        for descriptor, _ in opened:
            os.close(descriptor)


def remove(top: str, within: float = REMOVE_WITHIN) -> None:
    """Remove `top` and everything below it, as far as that can be done in `within` seconds. Never raises."""
    root = _open(top, None, lambda _: None)
    if root < 0:
        return
    try:
        removal = _Removal(root, time.monotonic() + within)
        while removal.a_pass():
            pass
    finally:
        os.close(root)
    _succeeds(os.rmdir, top)


class _Removal:
    def __init__(self, root: int, until: float) -> None:
        self._root = root
        self._until = until
        self._moved = 0

    def a_pass(self) -> bool:
        """Remove what the root has in it, and move up what lies two levels below; whether anything changed."""
        changed = False
        for entry in _entries(self._root):
            if time.monotonic() > self._until:
                return False
            if entry.is_dir(follow_symlinks=False):
                changed |= self._empty(entry.name)
                changed |= _succeeds(os.rmdir, entry.name, dir_fd=self._root)
            else:
                changed |= _succeeds(os.unlink, entry.name, dir_fd=self._root)
        return changed

    def _empty(self, name: str) -> bool:
        child, changed = _open(name, self._root, lambda _: None), False
        if child < 0:
            return False
        try:
            for entry in _entries(child):
                if not entry.is_dir(follow_symlinks=False):
                    changed |= _succeeds(os.unlink, entry.name, dir_fd=child)
                elif not _succeeds(os.rmdir, entry.name, dir_fd=child):
                    changed |= self._move_up(entry.name, child)
                else:
                    changed = True
        finally:
            os.close(child)
        return changed

    def _move_up(self, name: str, parent: int) -> bool:
        self._moved += 1
        to = f"{_MOVED}{self._moved}"
        return _succeeds(os.rename, name, to, src_dir_fd=parent, dst_dir_fd=self._root)


def _entries(directory: int) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError:
        return


def _succeeds(change: Callable[..., None], *names: str, **where: int) -> bool:
    try:
        change(*names, **where)
    except OSError:
        return False
    return True


def _open(name: str, parent: int | None, failed: Callable[[OSError], None]) -> int:
    """A descriptor of the directory, or -1."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno not in _GONE:
            failed(error)
        return -1
