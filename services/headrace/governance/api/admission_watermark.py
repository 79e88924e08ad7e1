"""Records that admission has read, so that a caller's new rights are known where their job is judged.

Strategy: each record of admission names the record on which it was decided, so usually no request is needed. Only after a change by
governance is admission asked, which answers once it has read that; if it does not answer it is down, and reads everything before it judges.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from headrace.bus.log import LogError
from headrace.contracts.messages.queries import Answer, StatusRequest
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.contracts.transport.subjects import query

if TYPE_CHECKING:
    from headrace.nats_client.raw_message import RawMessage

WITHIN = 1.0
ASKED_EVERY = 0.02
"""Seconds between two questions to an admission of an earlier release, which answers at once."""

_STATUS = query("admission", "status", "default", "governance")


class BusConnection(Protocol):
    """The part of a connection used here."""

    async def ask(self, subject: str, payload: bytes = b"", headers: None = None, within: float = WITHIN) -> RawMessage:
        """The answer to a request. Raises LogError."""


class AdmissionWatermark:
    """The last record that admission is known to have read."""

    def __init__(self, wire: BusConnection) -> None:
        self._wire = wire
        self._read = 0

    def has_read(self, sequence: int) -> None:
        """Record that admission has read up to `sequence`."""
        self._read = max(self._read, sequence)

    async def reach(self, sequence: int) -> None:
        """Wait until admission has read that record, or a timeout."""
        try:
            async with asyncio.timeout(WITHIN):
                while self._read < sequence:
                    answer = await self._wire.ask(_STATUS, encode(StatusRequest(folded=sequence)))
                    self.has_read(decode(answer.data, Answer).sequence)
                    if self._read < sequence:
                        await asyncio.sleep(ASKED_EVERY)
        except (TimeoutError, LogError, Malformed):
            return
