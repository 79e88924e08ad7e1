"""Directories for unix sockets, whose paths have to be short."""

from __future__ import annotations

import os
import stat
import tempfile
from hashlib import blake2b
from pathlib import Path

PATH_MAX = 100
"""Maximum bytes of a path; the system's own limit is 107."""


class NoSocketDirectory(Exception):
    """A socket cannot be placed; one line with the way out."""


def short_enough(wanted: Path) -> Path:
    """Return the path, or, if too long, one in a short private directory named after it. Raises `NoSocketDirectory`."""
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
            f"{short} belongs to another user, or is open to others: remove it, or name another directory with --data"
        )
    return short / wanted.name
