"""How far admission has read the ledger, so that what somebody has just been allowed is known where their job is judged.

Strategy: each record of admission says on which record it was decided, so that as a rule nobody has to ask. Only behind a change of what
governance wrote is admission asked, until it has read that; where it does not answer it is away, and reads everything before it judges.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from headrace.bus.log import LogError
from headrace.contracts.messages.queries import Answer
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.transport.subjects import query

if TYPE_CHECKING:
    from headrace.bus.nats.raw_message import Delivered

WITHIN = 1.0
ASKED_EVERY = 0.002
"""Seconds."""

_STATUS = query("admission", "status", "default", "governance")


class BusConnection(Protocol):
    """What is needed of a connection."""

    async def ask(self, subject: str, payload: bytes = b"", headers: None = None, within: float = WITHIN) -> Delivered:
        """The answer; raises `LogError`."""


class Judges:
    """The last record that admission is known to have read."""

    def __init__(self, wire: BusConnection) -> None:
        self._wire = wire
        self._read = 0

    def has_read(self, sequence: int) -> None:
        """It has, at least up to this record."""
        self._read = max(self._read, sequence)

    async def reach(self, sequence: int) -> None:
        """Return once it has read that record, or does not say so in time."""
        try:
            async with asyncio.timeout(WITHIN):
                while self._read < sequence:
                    self.has_read(decode((await self._wire.ask(_STATUS)).data, Answer).sequence)
                    if self._read < sequence:
                        await asyncio.sleep(ASKED_EVERY)
        except (TimeoutError, LogError, Malformed):
            return
