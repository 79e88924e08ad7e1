"""Reads an archive file by file, each verified byte for byte."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from hashlib import sha256
from pathlib import Path

from headrace.archive import manifest as manifests
from headrace.archive.manifest import ArchiveBroken, ArchiveFile, Manifest
from headrace.archive.table import TableError, decode
from headrace.bus.log import Message, StoredMessage

_WAY_OUT = "bring it back from a backup"


def piece_of(manifest: Manifest, sequence: int) -> int:
    """Index of the file that has a record; the number of files if the archive does not have it."""
    return bisect_left(manifest.pieces, sequence, key=lambda piece: piece.last)


def see_piece(directory: Path, piece: ArchiveFile) -> None:
    """Check that a file exists with its full length, without reading it. Raises `ArchiveBroken` as `read_piece` does."""
    try:
        size = (directory / piece.path).stat().st_size
    except OSError as error:
        raise _unread(_what(directory, piece), error) from None
    _see_long(_what(directory, piece), size, piece)


def read_piece(directory: Path, piece: ArchiveFile, first: int = 0, last: int | None = None) -> list[StoredMessage]:
    """The records of a file, all or from `first` to `last`; the file is always verified as a whole.

    Raises `ArchiveBroken` with the file, the month and the records that it should have.
    """
    what = _what(directory, piece)
    try:
        data = (directory / piece.path).read_bytes()
    except OSError as error:
        raise _unread(what, error) from None
    _see_long(what, len(data), piece)
    if sha256(data).hexdigest() != piece.digest:
        raise ArchiveBroken(f"{what} has been changed: its digest is not the one in {manifests.FILE}; {_WAY_OUT}")
    first, last = max(first, piece.first), piece.last if last is None else min(last, piece.last)
    try:
        records = decode(data, first - piece.first, last - first + 1)
    except TableError as error:
        raise ArchiveBroken(f"{what} cannot be read by this release: {error}") from None
    if [record.sequence for record in records] != list(range(first, last + 1)):
        raise ArchiveBroken(f"{what} has other records than its name and {manifests.FILE} say")
    return records


def _what(directory: Path, piece: ArchiveFile) -> str:
    return f"{directory / piece.path} (month {piece.month}, records {piece.first} to {piece.last})"


def _unread(what: str, error: OSError) -> ArchiveBroken:
    if isinstance(error, FileNotFoundError):
        return ArchiveBroken(f"{what} is missing from the archive: {_WAY_OUT}")
    return ArchiveBroken(f"{what} cannot be read: {error.strerror or error}")


def _see_long(what: str, size: int, piece: ArchiveFile) -> None:
    if size < piece.size:
        raise ArchiveBroken(f"{what} is cut short: it has {size} of {piece.size} bytes; {_WAY_OUT}")


class ArchiveReader:
    """A position in an archive; a `LogReader` with an end: after record `through` every batch is empty."""

    def __init__(self, directory: Path, after: int, through: int) -> None:
        self.through = through
        self._directory = directory
        self._position = after
        self._ahead: list[Message] = []
        self._place = 0

    @property
    def position(self) -> int:
        """The last record returned."""
        return self._position

    @property
    def buffered(self) -> int:
        """Number of records left; all of them are available at once."""
        return max(0, self.through - self._position)

    async def batch(self, limit: int = 1_000, wait: float | None = None) -> list[Message]:  # noqa: ARG002 - it never waits
        """The next records; empty at the end. Raises `ArchiveBroken`."""
        if self._place == len(self._ahead):
            if self._position >= self.through:
                return []
            self._ahead = await asyncio.to_thread(self._next_piece)
            self._place = 0
        messages = self._ahead[self._place : self._place + limit]
        self._place += len(messages)
        self._position = messages[-1].sequence
        return messages

    def wake(self) -> None:
        """Do nothing, because `batch` never waits."""

    async def close(self) -> None:
        """Stop reading; later batches are empty."""
        self._ahead, self._place, self._position = [], 0, self.through

    def _next_piece(self) -> list[Message]:
        """The records that come next. If an export has replaced the last file by a longer one, the manifest is read again."""
        wanted = self._position + 1
        manifest = manifests.read(self._directory)
        while True:
            place = piece_of(manifest, wanted)
            if place == len(manifest.pieces):
                raise ArchiveBroken(
                    f"the archive {self._directory} ends at record {manifest.through}, but {wanted} is wanted of it"
                )
            piece = manifest.pieces[place]
            try:
                records = read_piece(self._directory, piece, wanted, self.through)
            except ArchiveBroken:
                now = manifests.read(self._directory)
                if piece in now.pieces:
                    raise
                manifest = now
            else:
                return [record.message for record in records]
