"""Whether two NATS servers that keep copies of the same streams have stored the same: their files, record by record, from the end on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from headrace.archive.blocks import read
from headrace.bus.log import Stored
from headrace.contracts.subjects import LEDGER_STREAM

LOOKED_AT = 32 * 1024 * 1024
"""Bytes at the end of each stream. A server that cannot write is ended within moments of saying so; in these it writes far less."""

_STREAMS = Path("jetstream") / "CORE" / "streams"


class Compared(NamedTuple):
    """`where`: the first record that is not the same in both, as `STREAM SEQUENCE`; empty where there is none among those that both have.

    `behind`: the ledger of the other one ends first, so that it says nothing of the rest.
    """

    where: str
    behind: bool


def compared(ours: Path, others: Path) -> Compared:
    """Hold a store, of a server that does not run, against another server's, which may. Raises `OSError`."""
    behind = False
    for directory in sorted((ours / _STREAMS).glob("*/msgs")):
        stream = directory.parent.name
        mine = _end(directory, until=0)
        if not mine:
            continue
        theirs = _end(others / _STREAMS / stream / "msgs", until=min(mine), size=None)
        for sequence in sorted(mine.keys() & theirs.keys()):
            if mine[sequence] != theirs[sequence]:
                return Compared(f"{stream} {sequence}", behind=False)
        if stream == LEDGER_STREAM:  # the others let go of what has been read, so that their end says nothing
            behind = max(theirs, default=0) < max(mine)
    return Compared("", behind)


def _end(directory: Path, until: int, size: int | None = LOOKED_AT) -> dict[int, Stored]:
    """The records at the end of a stream by sequence: as many files as have `size` bytes (None: all), or reach back to `until`."""
    found: dict[int, Stored] = {}
    taken = 0
    for path in sorted(directory.glob("*.blk"), key=lambda path: int(path.stem), reverse=True):
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # a server that runs has let go of it
            continue
        for placed in read(data)[0]:
            found.setdefault(placed.record.sequence, placed.record)
        taken += len(data)
        if (size is not None and taken >= size) or (found and min(found) <= until):
            break
    return found
