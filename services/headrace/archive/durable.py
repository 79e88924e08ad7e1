"""Files that are whole or not there, even after a power cut."""

from __future__ import annotations

import os
from pathlib import Path

PART = ".part"
"""Ends the name of a file that is being written."""


def write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put a file there whole, in place of what was there."""
    put(draft(path, data, mode), path)


def draft(path: Path, data: bytes, mode: int = 0o600) -> Path:
    """`data` on the disk, under another name, for `put`."""
    part = path.with_name(path.name + PART)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # of a full disk it takes nothing that others need
        part.unlink(missing_ok=True)
        raise
    return part


def put(part: Path, path: Path) -> None:
    """Give a draft its name."""
    part.replace(path)
    sync(path.parent)


def sync(directory: Path) -> None:
    """What was made or removed in a directory survives a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
