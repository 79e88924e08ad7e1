"""Files that are complete or do not exist, even after a power failure."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

PART = ".part"
"""Suffix of the name of a file that is being written."""


def write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file, replacing an existing one only when it is complete."""
    put(draft(path, data, mode), path)


def draft(path: Path, data: bytes, mode: int = 0o600) -> Path:
    """Write `data` to the disk under another name, for `put`."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # do not occupy a full disk
        part.unlink(missing_ok=True)
        raise
    return part


def put(part: Path, path: Path) -> None:
    """Rename a draft to its final name."""
    try:
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def unwritten(path: Path, error: OSError) -> str:
    """Message for a file or directory that could not be written: its name, why, and the way out if the disk is full."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    return f"{path} cannot be written: {error.strerror or error}{'; make room there, then try again' if full else ''}"


def sync(directory: Path) -> None:
    """Make changes in a directory survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
