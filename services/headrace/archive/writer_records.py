"""Records of one writer, from its first one on: from the archive where the stream has been purged, then from the stream."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from headrace.archive import manifest as manifests
from headrace.archive.history import archived
from headrace.bus.log import Message

PAGE = 65_536


class Stream(Protocol):
    """The part of a stream that is needed (`bus.nats.jetstream.JetStreamLog`)."""

    async def next(self, subject: str, after: int) -> Message | None:
        """The first message on a subject after a sequence."""


class BySubject:
    """The records of one subject, in order; ask for the first, then for the one after it, and so on."""

    def __init__(self, stream: Stream, archive: Path) -> None:
        self._stream = stream
        self._archive = archive
        self._found: list[Message] = []
        self._searched = 0
        self._after = 0

    async def next(self, subject: str, after: int) -> Message | None:
        """The first message on a subject after a sequence; None if it does not exist yet. Raises `ArchiveBroken`, `LogUnavailable`."""
        purged = (await asyncio.to_thread(manifests.read, self._archive)).purged
        if after < self._after:
            self._found, self._searched = [], 0
        self._after = after
        if after < purged:
            self._found = [message for message in self._found if message.subject == subject and message.sequence > after]
            if not self._found:
                await self._search(subject, after, purged)
            if self._found:
                return self._found[0]
        return await self._stream.next(subject, max(after, purged))

    async def _search(self, subject: str, after: int, purged: int) -> None:
        """Search after `after` until a record is found, or the archive's part ends. Searched records are not searched again."""
        reader = archived(self._archive, max(after, self._searched), purged)
        while not self._found and (messages := await reader.batch(PAGE)):
            self._found = [message for message in messages if message.subject == subject]
            self._searched = messages[-1].sequence
