"""Files that are whole or not there, even after a power cut."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

PART = ".part"
"""Ends the name of a file that is being written."""


def write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put a file there whole, in place of what was there."""
    put(draft(path, data, mode), path)


def draft(path: Path, data: bytes, mode: int = 0o600) -> Path:
    """`data` on the disk, under another name, for `put`."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # of a full disk it takes nothing that others need
        part.unlink(missing_ok=True)
        raise
    return part


def put(part: Path, path: Path) -> None:
    """Give a draft its name."""
    try:
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def unwritten(path: Path, error: OSError) -> str:
    """What to say where a file or directory could not be written: its name, why, and the way out where the disk is full."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    return f"{path} cannot be written: {error.strerror or error}{'; make room there, then try again' if full else ''}"


def sync(directory: Path) -> None:
    """What was made or removed in a directory survives a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
