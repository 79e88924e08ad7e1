"""The newest records of the ledger in memory, and a way to wait for the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.contracts.facts.records import Record

RECORDS_KEPT = 2_000


class RecentRecords:
    """A listener of the fold. `after`: the sequence of the last record before it began to listen."""

    def __init__(self, after: int = 0, kept: int = RECORDS_KEPT) -> None:
        self._records: deque[tuple[int, Record]] = deque(maxlen=kept)
        self._before = after
        self._arrived = asyncio.Event()

    @property
    def oldest(self) -> int:
        """The sequence after which all records are in memory."""
        return self._before

    def note(self, record: Record, sequence: int) -> None:
        """Add one record, and wake everyone who waits."""
        if len(self._records) == self._records.maxlen:
            self._before = self._records[0][0]
        self._records.append((sequence, record))
        self._arrived.set()

    def after(self, sequence: int) -> list[tuple[int, Record]] | None:
        """The records after a sequence, the earliest first; None if some of them are no longer in memory."""
        if sequence < self._before:
            return None
        found = []
        for held in reversed(self._records):
            if held[0] <= sequence:
                break
            found.append(held)
        return found[::-1]

    async def arrival(self) -> None:
        """Wait for the next record."""
        self._arrived.clear()
        await self._arrived.wait()
