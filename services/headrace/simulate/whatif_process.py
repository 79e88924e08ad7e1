"""The process that answers the what-if questions of a service: questions on standard input, answers on standard output, a line each.

Strategy: it follows the ledger, and forks for each question. The copy has the state and all code at once, so a question about now costs the
simulation only, and what the simulation changes is gone with the copy. For a question about an earlier time the copy reads the ledger, over
a connection of its own.

A copy takes memory and two cores for a while; it is killed when the question is withdrawn. The address space of the process and of
each copy is limited (RLIMIT_AS): exceeding the limit is answered as an error. It ends when standard input is closed, and with the service
that started it, whose login it has, from the same environment.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING, Any, NoReturn

import structlog

from headrace.bus.log import LogError
from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.variables import PASSWORD, URL, USER
from headrace.contracts.messages.whatif import (
    TOO_LARGE,
    MemoryLimit,
    WhatIfAnswer,
    WhatIfAnswered,
    WhatIfAsked,
    WhatIfQuestion,
    ended_without_answer,
    memory_limit,
    without_answer,
)
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.service.snapshots import Snapshots
from headrace.simulate.parent_death import die_with_parent
from headrace.simulate.run_pair import rarely_collected
from headrace.simulate.whatif import FREEZE_AFTER
from headrace.simulate.whatif_worker import BATCH, SILENCE, answer, answer_about_now, is_about_now
from headrace.views.state_at import PastStates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from headrace.bus.log import Log
    from headrace.domain.state.state import State

NICENESS = 10
"""Niceness of the process: the deciders go first."""
NEARLY = 0.9
"""Fraction of its limit: a failure of a process that had used more is taken for want of memory."""
LINE_MAX = 1 << 26
"""Maximum bytes of a question."""


def main() -> int:
    """Answer questions until standard input is closed; returns the exit code."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # standard output has the answers
    os.nice(NICENESS)
    limit = memory_limit(os.environ)
    die_with_parent(os.getppid())
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit.bytes if most == resource.RLIM_INFINITY else min(limit.bytes, most), most))
    with rarely_collected(FREEZE_AFTER):
        asyncio.run(_Questions(limit).answer_all())
    return 0


class StateFollower:
    """The state at the end of a ledger, read as it grows. `opened`: connects to the ledger and its snapshots."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[tuple[Log, Snapshots | None]]]) -> None:
        self._opened = opened
        self._ledger: Log | None = None
        self._fold: FoldedLedger | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow the ledger, unless that goes on already; it ends when the ledger cannot be read."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
            self._task.add_done_callback(lambda _: self._changed.set())

    async def close(self) -> None:
        """End the connection; what was read is forgotten."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def latest(self) -> State | None:
        """State at the present end of the ledger, which goes on changing; None if the ledger cannot be followed."""
        self.start()
        while (ledger := self._ledger) is None:
            if self._is_over():
                return None
            await self._change()
        try:
            async with asyncio.timeout(SILENCE):
                tip = await ledger.tip()
                while not self._has_read(tip):
                    await self._change()
        except (LogError, TimeoutError):
            return None
        return None if self._fold is None else self._fold.state

    def _is_over(self) -> bool:
        return self._task is None or self._task.done()

    def _has_read(self, sequence: int) -> bool:
        """Whether there is nothing to wait for: the record was read, or following has ended."""
        return self._fold is None or self._fold.sequence >= sequence

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _follow(self) -> None:
        try:
            async with self._opened() as (ledger, snapshots):
                fold = FoldedLedger(await PastStates(ledger, snapshots).nearest(await ledger.tip(), None))
                reader = await ledger.read(fold.sequence)
                self._ledger, self._fold = ledger, fold
                try:
                    while True:
                        self._changed.set()
                        for message in await reader.batch(BATCH):
                            fold.read(message)
                finally:
                    await reader.close()
        except (LogError, LedgerBroken, MemoryError):
            return  # a question is answered without it, or says what is wrong
        finally:
            self._ledger = self._fold = None


class _Questions:
    """The questions that are being answered, by number."""

    def __init__(self, limit: MemoryLimit) -> None:
        self._limit = limit
        self._follower = StateFollower(_connected)
        self._asked: dict[int, asyncio.Task[None]] = {}

    async def answer_all(self) -> None:
        """Answer until standard input is closed; then all copies are killed."""
        self._follower.start()
        async for asked in _lines():
            if asked.question is not None:
                task = self._asked[asked.number] = asyncio.create_task(self._answer(asked.number, asked.question))
                task.add_done_callback(lambda _, number=asked.number: self._asked.pop(number))  # type: ignore[misc]
            elif asked.number in self._asked:
                self._asked[asked.number].cancel()
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), self._follower.close(), return_exceptions=True)

    async def _answer(self, number: int, question: WhatIfQuestion) -> None:
        state = await self._follower.latest() if is_about_now(question) else None
        found = await _in_copy(question, state, self._limit)
        sys.stdout.buffer.write(encode(WhatIfAnswered(number=number, answer=found)) + b"\n")
        sys.stdout.buffer.flush()


async def _lines() -> AsyncIterator[WhatIfAsked]:
    """Lines of standard input, a pipe. Without a thread: one more cannot be started where memory is limited."""
    async with _reading(sys.stdin) as reader:
        while line := await reader.readline():
            yield decode(line, WhatIfAsked)


@asynccontextmanager
async def _reading(pipe: IO[Any]) -> AsyncIterator[asyncio.StreamReader]:
    reader = asyncio.StreamReader(LINE_MAX)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        yield reader
    finally:
        transport.close()


@asynccontextmanager
async def _connected() -> AsyncIterator[tuple[Log, Snapshots]]:
    """The ledger and its snapshots, over a connection of its own. Raises LogError."""
    user = os.environ.get(USER, "")
    connection = await connect(os.environ[URL], user, os.environ.get(PASSWORD, ""), name=f"{user}: what if")
    try:
        ledger = JetStreamLog(connection, LEDGER_STREAM)
        yield ledger, Snapshots.over(connection, ledger)
    finally:
        await connection.close()


async def _in_copy(question: WhatIfQuestion, state: State | None, limit: MemoryLimit) -> WhatIfAnswer:
    """Answer of a copy of this process, which is killed when this call is cancelled."""
    ours, theirs = os.pipe()
    parent = os.getpid()
    try:
        copy = os.fork()
    except OSError as error:
        os.close(ours)
        os.close(theirs)
        return without_answer("UNAVAILABLE", f"no process can be started for it now: {error}; try again in a while")
    if not copy:
        _answer_there(question, state, limit, theirs, parent)
    os.close(theirs)
    try:
        async with _reading(os.fdopen(ours, "rb", buffering=0)) as reader:
            output = await reader.read()
    except BaseException:
        os.kill(copy, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(copy, 0)  # noqa: ASYNC222 - it has written its answer, or was killed
    ended_by = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""
    if not output or ended_by:  # what was written before a signal may be a part
        return ended_without_answer(ended_by, os.environ)
    return decode(output, WhatIfAnswer)


def _answer_there(question: WhatIfQuestion, state: State | None, limit: MemoryLimit, pipe: int, parent: int) -> NoReturn:
    """Runs in the copy, which ends here: the event loop and the connection below it belong to the process that was copied."""
    try:
        die_with_parent(parent)
        with os.fdopen(pipe, "wb") as output:
            output.write(encode(_limited(question, state, limit)))
    finally:
        os._exit(0)


def _limited(question: WhatIfQuestion, state: State | None, limit: MemoryLimit) -> WhatIfAnswer:
    """The answer, or that it takes too much memory."""
    try:
        answered = asyncio.run(_answered(question, state))
        wants_more = answered.found is None and _peak() > NEARLY * limit.bytes
    except MemoryError:
        wants_more = True
    except RuntimeError:  # a thread that could not be started
        if _peak() <= NEARLY * limit.bytes:
            raise
        wants_more = True
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))  # the answer takes memory, too
    return without_answer(TOO_LARGE, limit.way_out) if wants_more else answered


async def _answered(question: WhatIfQuestion, state: State | None) -> WhatIfAnswer:
    clock = time.time_ns() // 1_000
    if state is not None:
        return await answer_about_now(question, state, clock)
    try:
        async with _connected() as (ledger, snapshots):
            return await answer(question, ledger, clock, snapshots)
    except LogError as error:
        return without_answer("UNAVAILABLE", f"the ledger cannot be read now: {error}; try again in a while")


def _peak() -> int:
    """Return the peak of address space in bytes; 0 if the system does not report it."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmPeak:"))
    except (OSError, StopIteration):
        return 0
