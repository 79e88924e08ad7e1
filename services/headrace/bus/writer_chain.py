"""The records of one writer: each names the digest of the one before it and is appended only directly after it.

Strategy: an append without an answer is tried again with the same bytes and the same expectation, until its outcome is known. At most one
of the attempts can be stored; if the log then reports another last message, and it is ours byte for byte, it was an earlier attempt. Any
other message means that another instance writes in this name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from headrace.bus.log import Log, LogUnavailable, Message, WrongLast
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record, digest
from headrace.contracts.transport import codec
from headrace.contracts.transport.subjects import ledger

RETRY_FIRST, RETRY_MOST = 0.02, 0.25
"""Seconds between attempts: doubling from the first to the second."""

_log = structlog.get_logger("headrace.bus")


class RecordTooLarge(ValueError):
    """The decision does not fit into one record; it has to be made smaller before it is stated, because records are never split."""


class Chain:
    """The end of one writer's chain. `engine` is the software version in its records; `sleep` waits between attempts."""

    def __init__(
        self, log: Log, writer: str, engine: str, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self.writer = writer
        self.last = 0
        """Sequence of this writer's last record; 0: nothing written yet."""
        self.digest = ""
        """Digest of that record's bytes."""
        self._log = log
        self._engine = engine
        self._subject = ledger(writer)
        self._sleep = sleep

    def is_foreign(self, message: Message) -> bool:
        """True if a message that was read is by this writer, but from another instance."""
        return message.sequence > self.last and message.subject == self._subject

    def restore(self, last: int, last_digest: str) -> None:
        """Continue after the record `last` (0: first record) whose bytes have the digest `last_digest`, as the fold has them."""
        self.last, self.digest = last, last_digest

    def encode(self, now: int, as_of: int, facts: Sequence[AnyFact], cause: str = "", trace: str = "") -> bytes:
        """The bytes of this writer's next record. Raises `RecordTooLarge`."""
        if len(facts) > RECORD_FACTS_MAX:
            raise RecordTooLarge(f"a record has at most {RECORD_FACTS_MAX} facts, this has {len(facts)}")
        payload = codec.encode(
            Record(
                by=self.writer,
                now=now,
                engine=self._engine,
                as_of=as_of,
                prev=self.digest,
                cause=cause,
                trace=trace,
                facts=tuple(facts),
            )
        )
        if len(payload) > RECORD_BYTES_MAX:
            raise RecordTooLarge(f"a record has at most {RECORD_BYTES_MAX} bytes, this has {len(payload)}")
        return payload

    def stored(self, sequence: int, payload: bytes) -> None:
        """Set `payload`, stored at `sequence`, as this writer's last record."""
        self.last, self.digest = sequence, digest(payload)

    async def append(self, now: int, as_of: int, facts: Sequence[AnyFact], cause: str = "", trace: str = "") -> int:
        """State `facts` in one record and return its sequence; waits as long as the log is unavailable.

        Raises `RecordTooLarge` and `LogRefused` if nothing is stored; `WrongLast` if another instance has written in this name.
        """
        payload = self.encode(now, as_of, facts, cause, trace)
        sequence = await self._store(payload)
        self.stored(sequence, payload)
        return sequence

    async def _store(self, payload: bytes) -> int:
        retry, unsure = RETRY_FIRST, False
        while True:
            try:
                if unsure:
                    return await self._store_unless_there(payload)
                return await self._log.append(self._subject, payload, self.last)
            except LogUnavailable as error:
                if not unsure:
                    _log.warning("append_unanswered", writer=self.writer, after=self.last, reason=str(error))
                unsure = True
            await self._sleep(retry)
            retry = min(2 * retry, RETRY_MOST)

    async def _store_unless_there(self, payload: bytes) -> int:
        try:
            return await self._log.append(self._subject, payload, self.last)
        except WrongLast:
            there = await self._log.last(self._subject)
            if there is None or there.payload != payload:
                raise
            return there.sequence
