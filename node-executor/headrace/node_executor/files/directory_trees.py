"""Walks and removes directories that jobs have filled: of any depth, without following links, including links made meanwhile.

Strategy: a directory is opened relative to its open parent. Nothing here is recursive, because a job chooses the depth: walking a tree
holds one open directory for each level, up to `DEPTH_MAX`; removal needs two, because deeper levels are moved up.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Generator, Iterator

DEPTH_MAX = 256
"""Maximum number of levels that are walked. Paths that programs use are less deep."""

REMOVE_WITHIN = 600.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_MOVED = ".headrace-removing."


def walk(top: str, failed: Callable[[OSError], None]) -> Generator[tuple[int, os.DirEntry[str]]]:
    """Yield every entry below `top` with the descriptor of its directory; a directory comes before its content.

    `failed` is called for what cannot be listed, with `ENAMETOOLONG` if it is too deep; entries that vanish meanwhile are skipped.
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
    """Remove `top` and everything below it, as far as possible in `within` seconds. Never raises."""
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
        """Remove the entries of the root, and move up those two levels below; True if anything changed."""
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
    """Return a descriptor of the directory, or -1."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno not in _GONE:
            failed(error)
        return -1
