"""The whole ledger: a log like the stream, whose readers begin in the archive where the stream has been purged.

`purged` of the manifest is the last record that has been purged from the stream. A reader takes records up to there from the archive,
checks that the stream's record there, if it still has it, is the same, and continues after it in the stream. Any mismatch raises
`LogBroken`; nothing is skipped, and nothing is read twice.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.archive import manifest as manifests
from headrace.archive.manifest import ArchiveBroken
from headrace.bus.log import LogReader, LogUnavailable, Message

if TYPE_CHECKING:
    from headrace.archive.archive_reader import ArchiveReader
    from headrace.bus.log import Log

ARCHIVE = "archive"
"""The directory of the archive, in an installation's data."""


class WholeLedger:
    """A `Log` over `stream`, the records left in the bus, and `archive`, the directory of the purged ones."""

    def __init__(self, stream: Log, archive: Path) -> None:
        self.stream = stream
        self.archive = archive

    async def append(self, subject: str, payload: bytes, expected_last: int | None) -> int:
        return await self.stream.append(subject, payload, expected_last)

    async def read(self, after: int) -> LogReader:
        """See `Log.read`; its beginning is never gone. Raises `ArchiveBroken`."""
        purged = (await asyncio.to_thread(manifests.read, self.archive)).purged
        if after >= purged:
            return await self.stream.read(after)
        return SeamlessReader(archived(self.archive, after, purged), self.stream)

    async def last(self, subject: str) -> Message | None:
        """See `Log.last`; a purge leaves the last record of every subject in the stream."""
        return await self.stream.last(subject)

    async def get(self, sequence: int) -> Message | None:
        found = await self.stream.get(sequence)
        if found is None and 0 < sequence <= (await asyncio.to_thread(manifests.read, self.archive)).purged:
            (found,) = await archived(self.archive, sequence - 1, sequence).batch(1)
        return found

    async def next(self, subject: str, after: int) -> Message | None:
        purged = (await asyncio.to_thread(manifests.read, self.archive)).purged
        if after < purged:
            reader = archived(self.archive, after, purged)
            while messages := await reader.batch():
                found = next((message for message in messages if message.subject == subject), None)
                if found is not None:
                    return found
        return await self.stream.next(subject, max(after, purged))

    async def following(self, after: int) -> Message | None:
        """See `Log.following`; damaged files of the archive are left out."""
        with suppress(ArchiveBroken):
            purged = (await asyncio.to_thread(manifests.read, self.archive)).purged
            if after < purged and (messages := await archived(self.archive, after, purged).batch(1)):
                return messages[0]
        return await self.stream.following(after)

    @property
    def doubt(self) -> float:
        return self.stream.doubt

    async def tip(self) -> int:
        return await self.stream.tip()

    async def now(self) -> int:
        return await self.stream.now()

    async def purge_through(self, sequence: int) -> None:
        """Raise PermissionError: the ledger is purged only by `retention`."""
        raise PermissionError(f"the ledger keeps record {sequence}: it is purged by retention alone")


class SeamlessReader:
    """A `LogReader` that reads the archive, and after its end the stream."""

    def __init__(self, archived: ArchiveReader, stream: Log) -> None:
        self._archived = archived
        self._stream = stream
        self._last: Message | None = None
        self._reader: LogReader | None = None
        self._woken = False
        self._closed = False

    @property
    def buffered(self) -> int:
        """See `LogReader.buffered`; while it reads the archive more than one."""
        return self._archived.buffered + 1 if self._reader is None else self._reader.buffered

    def wake(self) -> None:
        if self._reader is None:
            self._woken = True
        else:
            self._reader.wake()

    async def batch(self, limit: int = 1_000, wait: float | None = None) -> list[Message]:
        if self._closed:
            raise LogUnavailable("this reader has been closed")
        if self._reader is None:
            messages = await self._archived.batch(limit)
            if messages:
                self._last = messages[-1]
                return messages
            self._reader = await self._cross()
        return await self._reader.batch(limit, wait)

    async def close(self) -> None:
        self._closed = True
        await self._archived.close()
        if self._reader is not None:
            await self._reader.close()

    async def _cross(self) -> LogReader:
        """A reader of the stream, after the last record from the archive. Raises `ArchiveBroken` on a mismatch."""
        seam = self._archived.through
        there = await self._stream.get(seam)
        if (
            there is not None
            and self._last is not None
            and (there.subject, there.payload) != (self._last.subject, self._last.payload)
        ):
            raise ArchiveBroken(
                f"record {seam} is another one in the stream than in the archive: one was changed, or they do not belong together"
            )
        reader = await self._stream.read(seam)
        if self._woken:
            reader.wake()
        return reader


def archived(directory: Path, after: int, through: int) -> ArchiveReader:
    """A reader of a part of the archive."""
    from headrace.archive.archive_reader import ArchiveReader  # noqa: PLC0415 - half a second and 40 MiB, needed with an archive only

    return ArchiveReader(directory, after, through)
