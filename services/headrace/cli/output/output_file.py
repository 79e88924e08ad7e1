"""Output files that options of commands name."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from headrace.archive import atomic_files
from headrace.cli.arguments import Failed

if TYPE_CHECKING:
    from pathlib import Path

_FOR_ALL = 0o644


def write_out(option: str, file: Path, data: bytes) -> None:
    """Write the file completely or not at all: the old contents stay until the new ones are on the disk, with the same permissions.

    A pipe, a terminal or a device is written to directly; a link is followed.
    """
    try:
        there = file.stat() if file.exists() else None
        if there is None or stat.S_ISREG(there.st_mode) or stat.S_ISDIR(there.st_mode):
            mode = _FOR_ALL if there is None else stat.S_IMODE(there.st_mode)
            atomic_files.write(file.resolve(), data, mode)
        else:
            file.write_bytes(data)
    except OSError as error:
        raise Failed(f"{option}: {atomic_files.unwritten(file, error)}") from None
