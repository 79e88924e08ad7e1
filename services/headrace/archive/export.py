"""Exports new records of the ledger to an archive, in files by month, each read back and compared before it counts.

Strategy: a file is written under a temporary name, read from the disk again, compared record by record, renamed, and only then listed: an
interrupted export begins again after the last file listed. While the last file is small, a longer one replaces it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from headrace.archive import atomic_files
from headrace.archive import manifest as manifests
from headrace.archive.archive_reader import read_piece, see_piece
from headrace.archive.manifest import ArchiveBroken, ArchiveBusy, ArchiveFile, Manifest
from headrace.archive.table import decode, encode
from headrace.bus.log import LogUnavailable, Message, StoredMessage
from headrace.contracts.facts.records import digest

PIECE_RECORDS = 65_536
PIECE_BYTES = 64 * 1024 * 1024
"""Maximum size of the records in one file, in bytes; with PIECE_RECORDS, whichever comes first."""
SMALL = 4 * 1024 * 1024
"""Size in bytes below which a file is replaced by a longer one."""

READ_AT_ONCE = 1_000
SILENCE = 5.0
"""Timeout in seconds of a read from the ledger."""

_NANOSECONDS = 1_000_000_000
_NAME = re.compile(r"(\d{12})-(\d{12})\.parquet")

Progress = Callable[[int, int], None]
"""`progress(record, last)`: progress of the export."""


class StoredReader(Protocol):
    """A reader of whole messages."""

    async def batch(self, limit: int = 1_000, wait: float | None = None) -> list[StoredMessage]:
        """See `bus.log.LogReader.batch` for arguments."""

    async def close(self) -> None:
        """See `bus.log.LogReader.close` for details."""


class Source(Protocol):
    """The part of a stream that an export needs (`bus.nats.jetstream.JetStreamLog`)."""

    async def read_stored(self, after: int) -> StoredReader:
        """A reader of whole messages after a sequence."""

    async def get(self, sequence: int) -> Message | None:
        """See `bus.log.Log.get` for errors."""

    async def tip(self) -> int:
        """See `bus.log.Log.tip` for errors."""


def month_of(record: StoredMessage) -> str:
    """The month, in UTC, in which a record was stored."""
    return datetime.fromtimestamp(record.time // _NANOSECONDS, UTC).strftime("%Y-%m")


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Lock the archive for writing. Raises `ArchiveBusy` if another process writes it, `ArchiveBroken` if it cannot be written."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ArchiveBroken(atomic_files.unwritten(directory, error)) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ArchiveBusy(f"the archive {directory} is being written by another process: wait for it") from None
        yield
    finally:
        os.close(handle)


async def export(source: Source, directory: Path, progress: Progress = lambda _record, _last: None) -> Manifest:
    """Archive what the archive lacks, up to the ledger's present end.

    Raises `ArchiveBroken` (damaged, of another ledger, cannot be written), `LogBroken` (the stream has a gap), `LogUnavailable`.
    """
    with alone(directory):
        manifest = manifests.read(directory)
        tip = await source.tip()
        await see_same(source, manifest, tip)
        if manifest.through < tip:
            await asyncio.to_thread(_begin, directory, manifest)
            reader = await source.read_stored(manifest.through)
            try:
                manifest = await _export(reader, directory, manifest, tip, progress)
            finally:
                await reader.close()
        else:
            await asyncio.to_thread(_see_there, directory, manifest)
        _tidy(directory, manifest)
        return manifest


async def see_same(source: Source, manifest: Manifest, tip: int) -> None:
    """Raise `ArchiveBroken` if the archive is of another ledger, or has more records than the ledger."""
    if not manifest.pieces:
        return
    if manifest.through > tip:
        raise ArchiveBroken(
            f"the archive holds {manifest.through} records, but the ledger ends at {tip}: it lost its end, or is another"
        )
    there = await source.get(manifest.through)
    if there is not None and digest(there.payload) != manifest.pieces[-1].last_digest:
        raise ArchiveBroken(
            f"record {manifest.through} is another one in the ledger than in the archive: one was changed, or they do not belong together"
        )


def _see_there(directory: Path, manifest: Manifest) -> None:
    """Verify an archive to which nothing is added: the last file as a whole, and that the others exist."""
    try:
        for piece in manifest.pieces[:-1]:
            see_piece(directory, piece)
        for piece in manifest.pieces[-1:]:
            read_piece(directory, piece)
    except ArchiveBroken as error:
        again = "" if manifest.purged else f"; or move {directory} away and export again: the stream still has every record"
        raise ArchiveBroken(f"{error}{again}") from None


async def _export(reader: StoredReader, directory: Path, manifest: Manifest, tip: int, progress: Progress) -> Manifest:
    records: list[StoredMessage] = []
    month, size, known = "", 0, manifest.through
    while known < tip:
        batch = await reader.batch(min(READ_AT_ONCE, tip - known), SILENCE)
        if not batch:
            raise LogUnavailable(f"the ledger gives nothing behind record {known}, but has {tip}; try again")
        for record in batch:
            stored_in = month_of(record)
            full = len(records) == PIECE_RECORDS or size + len(record.payload) > PIECE_BYTES
            if records and (full or stored_in != month):
                manifest = await asyncio.to_thread(_add, directory, manifest, records)
                progress(manifest.through, tip)
                records, size = [], 0
            month, size, known = stored_in, size + len(record.payload), record.sequence
            records.append(record)
    if records:
        manifest = await asyncio.to_thread(_add, directory, manifest, records)
        progress(manifest.through, tip)
    return manifest


def _begin(directory: Path, manifest: Manifest) -> None:
    """Write the manifest before the first file: without one, files would count as damage to readers or after an interruption."""
    if not manifest.pieces:
        with _writable(directory):
            manifests.write(directory, manifest)


@contextmanager
def _writable(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArchiveBroken(f"the archive {atomic_files.unwritten(directory, error)}") from None


def _add(directory: Path, manifest: Manifest, records: list[StoredMessage]) -> Manifest:
    """Write a file and list it."""
    month, pieces = month_of(records[0]), manifest.pieces
    last = pieces[-1] if pieces else None
    if (
        last is not None
        and last.month == month
        and last.size < SMALL
        and last.last - last.first + 1 + len(records) <= PIECE_RECORDS
    ):
        records, pieces = read_piece(directory, last) + records, pieces[:-1]
    with _writable(directory):
        piece = _write(directory, month, records)
        manifest = replace(manifest, pieces=(*pieces, piece))
        manifests.write(directory, manifest)
    return manifest


def _write(directory: Path, month: str, records: list[StoredMessage]) -> ArchiveFile:
    data = encode(records)
    piece = ArchiveFile(
        month=month,
        first=records[0].sequence,
        last=records[-1].sequence,
        size=len(data),
        digest=sha256(data).hexdigest(),
        last_digest=digest(records[-1].payload),
    )
    path = directory / piece.path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = atomic_files.draft(path, data)
    if decode(part.read_bytes()) != records:
        raise ArchiveBroken(f"{part} does not hold what was written into it: look at that disk")
    atomic_files.put(part, path)
    atomic_files.sync(path.parent.parent)
    return piece


def _tidy(directory: Path, manifest: Manifest) -> None:
    """Remove files of an interrupted export, and files that were replaced by longer ones; never the only file with a record."""
    listed = {directory / piece.path for piece in manifest.pieces}
    drafts = (directory.glob(f".{manifests.FILE}.*{atomic_files.PART}"), (directory / "ledger").glob(f"*/*{atomic_files.PART}"))
    for path in chain(*drafts):
        path.unlink()
    for path in set((directory / "ledger").glob("*/*.parquet")) - listed:
        name = _NAME.fullmatch(path.name)
        if name is not None and int(name[2]) <= manifest.through:
            path.unlink()
