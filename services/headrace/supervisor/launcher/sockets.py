"""Where a unix socket can lie: its path has to be short."""

from __future__ import annotations

import os
import stat
import tempfile
from hashlib import blake2b
from pathlib import Path

PATH_MAX = 100
"""Bytes of a path; the system's own bound is 107."""


class NoSocketDirectory(Exception):
    """There is no place for a socket; one line with the way out."""


def short_enough(wanted: Path) -> Path:
    """The path itself, or, where it is too long, one in a short place of our own that is made from its name. Raises `NoSocketDirectory`."""
    if len(os.fsencode(wanted)) <= PATH_MAX:
        return wanted
    name = blake2b(os.fsencode(wanted.parent), digest_size=6).hexdigest()
    short = Path(tempfile.gettempdir()) / f"headrace-{name}"
    if len(os.fsencode(short / wanted.name)) > PATH_MAX:
        raise NoSocketDirectory(
            f"{wanted.parent} is too long for a socket, and so is {short}: name another directory with --data"
        )
    short.mkdir(mode=0o700, exist_ok=True)
    there = short.lstat()
    if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid() or stat.S_IMODE(there.st_mode) & 0o077:
        raise NoSocketDirectory(
            f"{short} belongs to somebody else, or lets others in: remove it, or name another directory with --data"
        )
    return short / wanted.name
