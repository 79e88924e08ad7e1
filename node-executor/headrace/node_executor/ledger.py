"""States the node's facts on the ledger: in order, exactly once, packed when there are many.

Strategy: one record is in flight at a time, conditional on the sequence of the node's last one; what is stated meanwhile goes
into the next. A record keeps its bytes until it is known to be stored, so that after a lost acknowledgement the digest of what
stands there tells whether it was ours. While the bus is away facts wait in memory; they are lost with the process only, and the
ends of leases not even then (`journal`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Protocol

import structlog

from headrace.contracts.codec import encode
from headrace.contracts.facts import AnyFact
from headrace.contracts.orders import NodeAnswer
from headrace.contracts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record, digest

WAIT_FIRST, WAIT_MOST = 0.05, 2.0

_log = structlog.get_logger("headrace.node_executor")


class Unavailable(Exception):
    """The bus is away, or nothing came back: the message may or may not have been heard."""


class WrongLast(Exception):
    """The node's last record is another one than was thought: the one with sequence `last` (0: there is none)."""

    def __init__(self, last: int) -> None:
        super().__init__(f"the last record is {last}")
        self.last = last


class Wire(Protocol):
    """What the ledger needs from the bus."""

    async def append(self, payload: bytes, expected: int) -> int:
        """Store a record behind the one with sequence `expected` (0: none). Raises `Unavailable`, `WrongLast`."""

    async def ask(self) -> NodeAnswer:
        """What the feed knows of this node. Raises `Unavailable`."""


class Ledger:
    """The writer `by`. `recorded` is told of facts once they are stored; `now` is the clock."""

    def __init__(
        self, wire: Wire, by: str, engine: str, now: Callable[[], int], recorded: Callable[[tuple[AnyFact, ...]], None]
    ) -> None:
        self._wire = wire
        self._by = by
        self._engine = engine
        self._now = now
        self._recorded = recorded
        self._waiting: deque[AnyFact] = deque()
        self._wanted = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._last: int | None = None
        self.as_of = 0

    @property
    def last_record(self) -> int:
        """The sequence of the node's last record, as far as is known."""
        return self._last or 0

    def state(self, fact: AnyFact) -> None:
        """Put a fact behind those before it."""
        self._waiting.append(fact)
        self._wanted.set()
        self._empty.clear()

    async def settled(self) -> None:
        """Wait until everything stated so far and since is stored."""
        await self._empty.wait()

    async def run(self) -> None:
        """Write until cancelled. No failure of the bus ends it."""
        while True:
            await self._wanted.wait()
            facts, payload = self._pack()
            await self._store(payload)
            for _ in facts:
                self._waiting.popleft()
            if not self._waiting:
                self._wanted.clear()
                self._empty.set()
            self._recorded(facts)

    def _pack(self) -> tuple[tuple[AnyFact, ...], bytes]:
        """As many waiting facts as fit into a record, and its bytes."""
        count = min(len(self._waiting), RECORD_FACTS_MAX)
        while True:
            facts = tuple(islice(self._waiting, count))
            record = Record(by=self._by, now=self._now(), engine=self._engine, as_of=self.as_of, facts=facts)
            payload = encode(record)
            if len(payload) <= RECORD_BYTES_MAX or count == 1:
                return facts, payload
            count = count // 2

    async def _store(self, payload: bytes) -> None:
        """Store one record, whatever it takes."""
        in_doubt = False
        wait = WAIT_FIRST
        while True:
            if self._last is None:
                self._last = (await self._answer_from(0)).last_record
            try:
                self._last = await self._wire.append(payload, self._last)
            except Unavailable as error:
                if not in_doubt:
                    _log.warning("record_waits", reason=str(error), facts=len(self._waiting))
                in_doubt = True
                await asyncio.sleep(wait)
                wait = min(2 * wait, WAIT_MOST)
            except WrongLast as error:
                if await self._stored_already(payload, error.last, in_doubt=in_doubt):
                    return
            else:
                return

    async def _stored_already(self, payload: bytes, last: int, *, in_doubt: bool) -> bool:
        """Another record stands last: learn which, and whether it is the very one whose acknowledgement was lost."""
        answer = await self._answer_from(last)
        thought, self._last = self._last, answer.last_record
        if in_doubt and thought is not None and answer.last_record > thought and answer.last_digest in {digest(payload), ""}:
            return True
        _log.warning("record_behind", thought=thought, last=last, help="does another executor use this node's name?")
        return False

    async def _answer_from(self, last: int) -> NodeAnswer:
        """An answer that knows the record with sequence `last`; the feed may be away, or a moment behind the stream."""
        wait = WAIT_FIRST
        while True:
            with contextlib.suppress(Unavailable):
                answer = await self._wire.ask()
                if answer.last_record >= last:
                    return answer
            await asyncio.sleep(wait)
            wait = min(2 * wait, WAIT_MOST)
