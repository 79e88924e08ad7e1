"""Writes the node's facts to the ledger: in order, exactly once, many in one record if many wait.

Strategy: one record is in flight at a time, conditional on the sequence of the node's last one; facts stated meanwhile go into the next.
A record keeps its bytes until it is known to be stored, so that after a lost acknowledgement the digest of the record there tells whether
it was this one. Facts wait in the journal, so that neither an unreachable bus nor a crash of the executor loses facts or their order; the
journal also has what is needed to make the bytes of a record again that may have been sent.

Answers of the feed carry the log's time. Where this node's clock differs from that, because it is wrong or was set, the times of facts are
corrected by the difference before they are noted (R37): the books charge by them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from itertools import islice
from typing import Protocol

import msgspec
import structlog

from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.levels import at_level
from headrace.contracts.facts.records import NODE_RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record, digest
from headrace.contracts.messages.orders import NodeAnswer
from headrace.contracts.transport.codec import encode
from headrace.nats_client.errors import LogError, WrongLast
from headrace.node_executor.reporting.journal import Journal, Sending

WAIT_FIRST, WAIT_MOST = 0.05, 0.5
"""Shortest and longest wait in seconds between tries to store a record: a job's end should be stored soon after the servers elected a
leader.
"""

MICROSECONDS = 1_000_000
OFF_ALLOWED = MICROSECONDS // 2
"""Microseconds by which this node's clock may differ from the log's time before that is used: records two seconds ahead are void (R34)."""
TIMES = ("at", "exited_at")
"""Fields of a node's facts that are times of its clock."""

_log = structlog.get_logger("headrace.node_executor")


class LedgerConnection(Protocol):
    """The requests that the writer sends over the bus."""

    async def append(self, payload: bytes, expected: int) -> int:
        """Store a record behind the one with sequence `expected` (0: none). Raises `LogError`, `WrongLast`."""

    async def ask(self) -> NodeAnswer:
        """Ask the feed for its state of this node. Raises `LogError`."""


class FactWriter:
    """Writes facts as `by`. `journal` has the facts that are stated and not stored; `now` is the clock."""

    def __init__(self, wire: LedgerConnection, by: str, engine: str, now: Callable[[], int], journal: Journal) -> None:
        self._wire = wire
        self._by = by
        self._engine = engine
        self._now = now
        self._journal = journal
        self._wanted = asyncio.Event()
        self._empty = asyncio.Event()
        (self._wanted if journal.unsent else self._empty).set()
        self._last: int | None = None
        self._log_time = 0
        self._answered_at = 0.0
        self._took = 0
        self._is_off = False
        self._level = 0
        self._left = self._earlier = len(journal.unsent)
        self._recalled = asyncio.Event()
        if not self._left:
            self._recalled.set()
        self.as_of = 0

    @property
    def last_record(self) -> int:
        """Sequence of the node's last record, as far as known."""
        return self._last or 0

    @property
    def level(self) -> int:
        """The installation's level, as far as known; 0 until the first answer."""
        return self._level

    def state(self, fact: AnyFact) -> None:
        """Append a fact to those that wait, with its times corrected by the offset of the node's clock."""
        offset = self._offset()
        is_sure = offset > OFF_ALLOWED or offset + self._took < -OFF_ALLOWED
        self._journal.note_fact(_moved(fact, offset) if is_sure else fact)
        self._wanted.set()
        self._empty.clear()

    def take_answer(self, answer: NodeAnswer, asked_at: float) -> None:
        """Take from an answer how far the feed is, the level of facts (`contracts.facts.levels`), and the log's time.

        `asked_at`: when it was asked, by the running loop's clock.
        """
        self.as_of, self._level = max(self.as_of, answer.through), max(self._level, answer.level)
        if answer.now:
            self._log_time, self._answered_at = answer.now, asyncio.get_running_loop().time()
            self._took = int((self._answered_at - asked_at) * MICROSECONDS)

    async def former_facts_stored(self) -> int:
        """Wait until all that a former executor stated is stored; returns the sequence of its last record (0: none).

        Before that the other services do not know what has ended here, so their orders may be out of date (R36).
        """
        await self._recalled.wait()
        return self.last_record if self._earlier else 0

    async def all_stored(self) -> None:
        """Wait until all facts are stored, including those stated meanwhile."""
        await self._empty.wait()

    async def run(self) -> None:
        """Write until cancelled. Failures of the bus do not end it."""
        while True:
            await self._wanted.wait()
            if self._journal.sending is not None and self._journal.sending.count <= len(self._journal.unsent):
                sending, in_doubt = self._journal.sending, True  # by a former executor
                self._last = sending.last
            else:
                sending, in_doubt = self._next(await self._known_last()), False
            await self._store(sending, in_doubt=in_doubt)
            self._journal.stored(sending.count, self.last_record)
            self._left -= sending.count
            if self._left <= 0:
                self._recalled.set()
            if not self._journal.unsent:
                self._wanted.clear()
                self._empty.set()

    async def _known_last(self) -> int:
        """Return the sequence of the node's last record, once the level of the next one is known too."""
        if self._last is None or not self._level:
            self._last = (await self._answer_from(self._last or 0)).last_record
        return self._last

    def _next(self, last: int) -> Sending:
        """Return a record of as many waiting facts as fit into one."""
        count = min(len(self._journal.unsent), RECORD_FACTS_MAX)
        sending = Sending(count, last, self._time(), self.as_of, self._engine, self._level)
        while len(self._encoded(sending)) > NODE_RECORD_BYTES_MAX and sending.count > 1:
            sending = msgspec.structs.replace(sending, count=sending.count // 2)
        return sending

    def _time(self) -> int:
        """Return this node's time, or the log's if this node's clock differs: a fact that is later than its record is cut to that (R37)."""
        return self._now() + self._offset()

    def _offset(self) -> int:
        """Return how far the log's time is ahead of this node's clock; 0 if unknown, or if that is within `OFF_ALLOWED`.

        The log's time may be later by the time that its answer took, at most.
        """
        due = self._log_time + int((asyncio.get_running_loop().time() - self._answered_at) * MICROSECONDS)
        offset = due - self._now() if self._log_time else 0
        was, self._is_off = self._is_off, abs(offset) > OFF_ALLOWED
        if self._is_off and not was:
            event = "clock_ahead" if offset < 0 else "clock_behind"
            _log.error(event, seconds=abs(offset) / MICROSECONDS, help="this node's clock is wrong: the log's time is used")
        return offset if self._is_off else 0

    def _encoded(self, sending: Sending) -> bytes:
        facts = at_level(tuple(islice(self._journal.unsent, sending.count)), sending.level)
        return encode(Record(by=self._by, now=sending.now, engine=sending.engine, as_of=sending.as_of, facts=facts))

    async def _store(self, sending: Sending, *, in_doubt: bool) -> None:
        """Store one record, with as many tries as needed."""
        payload = self._encoded(sending)
        wait = WAIT_FIRST
        while True:
            self._journal.sends(sending)
            try:
                self._last = await self._wire.append(payload, sending.last)
            except WrongLast as error:
                answer = await self._answer_from(error.last or 0)
                self._last = answer.last_record
                if in_doubt and answer.last_record > sending.last and answer.last_digest in {digest(payload), ""}:
                    return  # this very record, whose acknowledgement was lost
                _log.warning(
                    "record_behind", thought=sending.last, last=error.last, help="does another executor use this node's name?"
                )
                sending = msgspec.structs.replace(sending, last=answer.last_record)
            except LogError as error:
                if not in_doubt:
                    _log.warning("record_waits", reason=str(error), facts=len(self._journal.unsent))
                in_doubt = True
                await asyncio.sleep(wait)
                wait = min(2 * wait, WAIT_MOST)
            else:
                return

    async def _answer_from(self, last: int) -> NodeAnswer:
        """Return an answer that knows the record with sequence `last`; the feed may be away, or a moment behind the stream."""
        wait = WAIT_FIRST
        while True:
            with contextlib.suppress(LogError):
                asked_at = asyncio.get_running_loop().time()
                answer = await self._wire.ask()
                self.take_answer(answer, asked_at)
                if answer.last_record >= last:
                    return answer
            await asyncio.sleep(wait)
            wait = min(2 * wait, WAIT_MOST)


def _moved(fact: AnyFact, offset: int) -> AnyFact:
    """Return the fact with its times moved by `offset`."""
    if not offset:
        return fact
    return msgspec.structs.replace(
        fact, **{name: max(0, getattr(fact, name) + offset) for name in TIMES if hasattr(fact, name)}
    )
