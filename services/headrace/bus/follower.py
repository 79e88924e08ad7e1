"""The follower of a process: it reads one log and folds it, for all services that share the process.

A process has one follower and any number of services. The follower changes the state, and nothing else does; services look at it. After
each batch of messages it calls its listeners. A service that writes (`headrace.bus.loop`) decides at the tip: everything that has arrived
is folded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import structlog

from headrace.bus.log import Log, LogReader, LogUnavailable, Message
from headrace.bus.log_clock import MICROSECONDS, LogTime

BATCH = 100
"""Messages folded before the services of the process get their turn."""
RETRY = 0.5

T = TypeVar("T")

_log = structlog.get_logger("headrace.bus")


def steady_clock() -> int:
    """Microseconds of a monotonic clock: the running loop's."""
    return int(asyncio.get_running_loop().time() * MICROSECONDS)


class Fold(Protocol):
    """The state as the fold of a prefix of the log."""

    def read(self, message: Message) -> object:
        """Fold the next message; the follower ignores the result.

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


F = TypeVar("F", bound=Fold)

Guard = Callable[[Message], Awaitable[None]]
"""Called before a message on a writer's subject is folded; it may wait, or raise."""


class Follower(Generic[F]):
    """Keeps one fold at the tip of one log. `clock`: this machine's, microseconds since 1970; `steady`: a monotonic one.

    Everything that listens is added before `run`. `before_first`: called once, when the log as it was at the start has been folded;
    `caught_up` is set after that. `listeners`: called after each batch. `time`: the log's, for all services of the process.
    """

    def __init__(self, log: Log, fold: F, clock: Callable[[], int], steady: Callable[[], int] = steady_clock) -> None:
        self.fold = fold
        self.time = LogTime(clock, steady)
        self.caught_up = asyncio.Event()
        self.before_first: list[Callable[[], None]] = []
        self.listeners: list[Callable[[], None]] = []
        self._log = log
        self._guards: dict[str, Guard] = {}
        self._shared: dict[object, object] = {}
        self._reader: LogReader | None = None
        self._is_folding = False
        self._next_batch: asyncio.Future[None] | None = None

    @property
    def at_tip(self) -> bool:
        """True if everything that has arrived is folded."""
        return self._reader is not None and self.caught_up.is_set() and not self._is_folding and not self._reader.buffered

    def guard(self, subject: str, guard: Guard) -> None:
        """Call `guard` before each message on a subject is folded. Raises ValueError if the subject has one."""
        if subject in self._guards:
            raise ValueError(f"two services of one process write {subject}")
        self._guards[subject] = guard

    def shared(self, make: Callable[[Follower[F]], T]) -> T:
        """What the services of this process share: made by `make` at the first call, and the same at later ones."""
        if make not in self._shared:
            self._shared[make] = make(self)
        return self._shared[make]  # type: ignore[return-value]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the state holds; it is looked at after each batch."""
        while not condition():
            if self._next_batch is None:
                self._next_batch = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._next_batch)

    async def run(self) -> None:
        """Follow until cancelled. Raises `LogBroken`, `LogRefused`, and what guards raise: the process has to stop."""
        reader = self._reader = await self._log.read(self.fold.sequence)
        try:
            await self._catch_up(reader)
            while True:
                await self._read(await reader.batch(BATCH))
                await asyncio.sleep(0)
        finally:
            self._reader = None
            await reader.close()

    async def _catch_up(self, reader: LogReader) -> None:
        """Fold what is in the log now, and ask for its time."""
        tip = await retrying(self._log.tip)
        while self.fold.sequence < tip:
            await self._read(await reader.batch(BATCH))
            await asyncio.sleep(0)
        self.time.answered(await retrying(self._log.now))
        _log.info("caught_up", sequence=self.fold.sequence)
        for prepare in self.before_first:
            prepare()
        self.caught_up.set()

    async def _read(self, messages: list[Message]) -> None:
        self._is_folding = True
        for message in messages:
            guard = self._guards.get(message.subject)
            if guard is not None:
                await guard(message)
            self.fold.read(message)
        self._is_folding = False
        self._notify()

    def _notify(self) -> None:
        for listen in self.listeners:
            listen()
        if self._next_batch is not None:
            self._next_batch.set_result(None)
            self._next_batch = None


async def retrying(question: Callable[[], Awaitable[T]]) -> T:
    """The answer; asks again as long as the log is unavailable."""
    while True:
        try:
            return await question()
        except LogUnavailable as error:
            _log.warning("log_awaited", reason=str(error))
            await asyncio.sleep(RETRY)
