"""The process that answers what-if questions, as seen by the service that asks.

It is started with the first question, answers several side by side (`headrace.simulate.whatif_process`), and waits for the next, because
questions come in series. It is ended when for a while there was no question.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.messages.whatif import (
    NO_ANSWER,
    WhatIfAnswer,
    WhatIfAnswered,
    WhatIfAsked,
    WhatIfQuestion,
    ended_without_answer,
)
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READY_FOR = 120.0
"""Seconds for which the process waits for the next question."""
LINE_MAX = 1 << 28
"""Maximum bytes of an answer."""


class Answering:
    """The process, whenever there is one. `command`: starts it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._running: _Running | None = None
        self._starting = asyncio.Lock()
        self._ending: asyncio.TimerHandle | None = None

    async def ask(self, question: WhatIfQuestion, environment: Mapping[str, str]) -> WhatIfAnswer:
        """Answer of the process, which gives it up when this call ends. Raises Refused if no process can be started."""
        if self._ending is not None:
            self._ending.cancel()
        running = await self._ready(environment)
        try:
            answer = await running.ask(question)
            if answer.code == NO_ANSWER and running.is_over:  # not a copy, but the process: while it waited, or at its start
                running = await self._ready(environment)
                answer = await running.ask(question)
            return answer
        finally:
            if not running.is_busy:
                self._ending = asyncio.get_running_loop().call_later(READY_FOR, running.kill)

    async def close(self) -> None:
        """End the process, and with it what it is answering."""
        if self._ending is not None:
            self._ending.cancel()
        running, self._running = self._running, None
        if running is not None:
            running.kill()
            await running.end()

    async def _ready(self, environment: Mapping[str, str]) -> _Running:
        async with self._starting:
            running = self._running
            if running is None or running.is_over:
                running = self._running = _Running(await _started(self._command, environment), environment)
            return running


class _Started(NamedTuple):
    """A process, and its pipes."""

    process: subprocess.Popen[bytes]
    questions: asyncio.WriteTransport
    answers: asyncio.StreamReader


class _Running:
    """A process that was started, and the questions that it has to answer, by number."""

    def __init__(self, started: _Started, environment: Mapping[str, str]) -> None:
        self._process, self._questions, self._answers = started
        self._environment = environment
        self._asked: dict[int, asyncio.Future[WhatIfAnswer]] = {}
        self._numbers = count(1)
        self._reading = asyncio.create_task(self._read())

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._reading.done()

    @property
    def is_busy(self) -> bool:
        """Whether it has questions to answer."""
        return bool(self._asked)

    async def ask(self, question: WhatIfQuestion) -> WhatIfAnswer:
        """Its answer, or that it ended without one."""
        number = next(self._numbers)
        answer: asyncio.Future[WhatIfAnswer] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._write(WhatIfAsked(number=number, question=question))
            return await answer
        finally:
            del self._asked[number]
            if not answer.done() or answer.cancelled():
                self._write(WhatIfAsked(number=number))

    def kill(self) -> None:
        """End it and its copies at once."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Wait until it has ended."""
        await self._reading

    def _write(self, asked: WhatIfAsked) -> None:
        """Write a line; to a process that has ended it is lost, and its end is the answer."""
        try:
            self._questions.write(encode(asked) + b"\n")
        except RuntimeError:  # of uvloop, once it has seen that the process closed its end
            self.kill()

    async def _read(self) -> None:
        """Read answers until it has ended, which answers the other questions."""
        try:
            while line := await self._answers.readline():
                answered = decode(line, WhatIfAnswered)
                self._answer(answered.number, answered.answer)
        except (Malformed, ValueError):  # its last line was cut short, or is too long
            self.kill()
        code = await asyncio.to_thread(self._process.wait)
        self._questions.close()
        ended_by = signal.Signals(-code).name if code < 0 else ""
        for number in self._asked:
            self._answer(number, ended_without_answer(ended_by, self._environment))

    def _answer(self, number: int, answer: WhatIfAnswer) -> None:
        asked = self._asked.get(number)
        if asked is not None and not asked.done():
            asked.set_result(answer)


async def _started(command: Sequence[str], environment: Mapping[str, str]) -> _Started:
    """Start the process.

    By `subprocess`, which does not run what libraries do at a fork: started by the event loop, a child sometimes ended in gRPC's part of
    that, before it was the command.
    """
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    try:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - it takes as long as starting a thread for it; the command is ours
            command, env=environment, stdin=pipe, stdout=pipe, stderr=nowhere, start_new_session=True
        )
    except OSError as error:
        raise Refused("UNAVAILABLE", f"no process can be started for it now: {error}; try again in a while") from None
    loop, answers = asyncio.get_running_loop(), asyncio.StreamReader(LINE_MAX)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(answers), process.stdout)
        questions, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
    except BaseException:  # its question is withdrawn
        with process:  # its pipes are closed, and its end is awaited
            process.kill()
        raise
    return _Started(process, questions, answers)
