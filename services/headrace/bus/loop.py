"""The one service loop: read, fold, decide at the tip, append. The only asynchronous code of a deciding service.

Naive meaning:

    read all new messages and fold them;
    at the tip (everything read is folded, and the last own record has come back) decide;
    append what was decided as one record;
    it comes back through the read like any other record; decide again, until the decision is empty;
    then wait for a message, for the time that `next_wakeup` names, or until `wake` is called.

So a decision is a function of a prefix of the log and of `now`, and a service's only effect is what it appends. Facts of others that
arrive between the decision and the append are not conflicts: the next round takes them in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

import structlog

from headrace.bus.log import Log, LogError, LogReader, LogUnavailable, Message, WrongLast
from headrace.bus.log_clock import MICROSECONDS, LogTime
from headrace.bus.telemetry import span
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import AnyFact
from headrace.health.metrics import Histogram

BATCH = 200
"""Messages folded before queries and signals get their turn."""

SHORTEST_WAIT = 0.001
RETRY = 0.5

T = TypeVar("T")

_log = structlog.get_logger("headrace.bus")


def steady_clock() -> int:
    """Microseconds of a monotonic clock: the running loop's."""
    return int(asyncio.get_running_loop().time() * MICROSECONDS)


class Fenced(LogError):
    """Another instance has appended in this writer's name: stop, start again, and rebuild from the log."""


class Draft(NamedTuple):
    """The facts of one record, their cause, and the W3C traceparent that it continues."""

    facts: tuple[AnyFact, ...]
    cause: str = ""
    trace: str = ""


class Timing(NamedTuple):
    """Durations in seconds of a round that states something: its decision, and its append."""

    decision: Histogram
    append: Histogram


class Fold(Protocol):
    """The state as the fold of a prefix of the log."""

    def read(self, message: Message) -> object:
        """Fold the next message; the loop ignores the result.

        Total: a bad record is void and counted; only what has to stop a reader raises (`LogBroken`).
        """

    @property
    def sequence(self) -> int:
        """The sequence of the last message folded."""

    @property
    def now(self) -> int:
        """The time of the log: the running maximum of the records' times, microseconds since 1970 (R34)."""

    def last_of(self, writer: str) -> tuple[int, str]:
        """(sequence, digest) of the writer's last record; (0, "") if it has written nothing."""


class Decider(Protocol):
    """Pure decisions on the state."""

    def decide(self, now: int) -> Draft | None:
        """What to state at the tip at the time `now`; None: nothing. Called again after each own record."""

    def next_wakeup(self) -> int | None:
        """When `decide` could return something else with no new message: log time in microseconds; None: never."""


class Leadership(Protocol):
    """Whether this instance is the leader (`headrace.bus.leader_election`)."""

    @property
    def mine(self) -> bool:
        """True while this instance leads."""


class ServiceLoop:
    """Keeps one fold at the tip of one log, and appends what its decider decides, as long as it leads (`turn`; None: always).

    `clock`: this machine's, microseconds since 1970; `steady`: a monotonic one. Without `chain` and `decider` it only follows. Optional
    hooks: `at_tip` once, when the log as it was at the start has been folded; `after_fold` after each message from the first on;
    `on_appended` when a draft has become durable at a sequence, before it is folded.
    """

    def __init__(
        self,
        log: Log,
        fold: Fold,
        clock: Callable[[], int],
        *,
        chain: Chain | None = None,
        decider: Decider | None = None,
        steady: Callable[[], int] = steady_clock,
        at_tip: Callable[[], None] | None = None,
        after_fold: Callable[[Message], None] | None = None,
        on_appended: Callable[[Draft, int], None] | None = None,
        turn: Leadership | None = None,
        timing: Timing | None = None,
    ) -> None:
        if (chain is None) != (decider is None):
            raise ValueError("chain and decider: pass both or neither")
        self._log = log
        self._fold = fold
        self._chain = chain
        self._decider = decider
        self._time = LogTime(clock, steady)
        self._at_tip = at_tip
        self._after_fold = after_fold
        self._on_appended = on_appended
        self._turn = turn
        self._timing = timing
        self._begun = False
        self._reader: LogReader | None = None

    def wake(self) -> None:
        """Decide again: something outside the log (a submission, a request, a heartbeat) could change the decision."""
        if self._reader is not None:
            self._reader.wake()

    async def run(self) -> None:
        """Work until cancelled. Raises `Fenced`, `LogBroken`, `LogRefused`: the process has to stop."""
        reader = self._reader = await self._log.read(self._fold.sequence)
        try:
            await self._catch_up(reader)
            while True:
                if self._chain is not None and self._time.unsure and self._is_at_tip(reader):
                    self._time.answered(await retrying(self._log.now))
                wait = await self._decide() if self._is_at_tip(reader) and await self._may_decide() else None
                self._read(await reader.batch(BATCH, wait))
                await asyncio.sleep(0)
        finally:
            self._reader = None
            await reader.close()

    async def _catch_up(self, reader: LogReader) -> None:
        """Fold what is in the log now, and ask for its time."""
        tip = await retrying(self._log.tip)
        while self._fold.sequence < tip:
            self._read(await reader.batch(BATCH))
            await asyncio.sleep(0)
        self._time.answered(await retrying(self._log.now))
        _log.info("caught_up", sequence=self._fold.sequence)
        if self._at_tip is not None:
            self._at_tip()

    async def _may_decide(self) -> bool:
        """True if this instance decides. A new leader first reads what is under way and continues after the writer's last record."""
        if self._chain is None or self._begun:
            return True
        if self._turn is not None and not (self._turn.mine and self._fold.sequence >= await retrying(self._log.tip)):
            return False
        self._chain.restore(*self._fold.last_of(self._chain.writer))
        self._begun = True
        return True

    def _is_at_tip(self, reader: LogReader) -> bool:
        return not reader.buffered and (self._chain is None or self._fold.sequence >= self._chain.last)

    async def _decide(self) -> float | None:
        """Decide once, and append the draft. Returns how many seconds to wait for a message (None: no timeout)."""
        if self._chain is None or self._decider is None:
            return None
        now = max(self._fold.now, self._time.now())
        began = time.perf_counter()
        draft = self._decider.decide(now)
        decided = time.perf_counter()
        if draft is None:
            wakeup = self._decider.next_wakeup()
            return None if wakeup is None else max(SHORTEST_WAIT, (wakeup - self._time.now()) / MICROSECONDS)
        try:
            with span(f"{self._chain.writer} append", draft.trace, facts=len(draft.facts)) as traced:
                sequence = await self._chain.append(now, self._fold.sequence, draft.facts, draft.cause, traced.traceparent)
        except WrongLast as error:
            raise Fenced(f"another instance writes as {self._chain.writer}: {error}") from error
        if self._timing is not None:
            self._timing.decision.observe(decided - began)
            self._timing.append.observe(time.perf_counter() - decided)
        if self._on_appended is not None:
            self._on_appended(draft, sequence)
        return None

    def _read(self, messages: list[Message]) -> None:
        for message in messages:
            if self._begun and self._chain is not None and self._chain.is_foreign(message):
                raise Fenced(f"another instance has written as {self._chain.writer}: record {message.sequence}")
            self._fold.read(message)
            if self._after_fold is not None:
                self._after_fold(message)


async def retrying(question: Callable[[], Awaitable[T]]) -> T:
    """The answer; asks again as long as the log is unavailable."""
    while True:
        try:
            return await question()
        except LogUnavailable as error:
            _log.warning("log_awaited", reason=str(error))
            await asyncio.sleep(RETRY)


async def follow(log: Log, after: int, limit: int = 1_000, wait: float | None = None) -> AsyncIterator[list[Message]]:
    """The messages after `after`, in batches, without end: for services that only read.

    With `wait`, an empty batch after that many seconds without a message. Raises `LogBroken`.
    """
    reader = await log.read(after)
    try:
        while True:
            batch = await reader.batch(limit, wait)
            if batch or wait is not None:
                yield batch
    finally:
        await reader.close()
