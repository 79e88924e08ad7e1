"""The process that answers what-if questions, as seen by the service that asks.

It is started with the first question, answers several side by side (`headrace.simulate.whatif_process`), and waits for the next, because
questions come in series. It is ended when for a while there was no question.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from itertools import count
from typing import TYPE_CHECKING

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
    from asyncio.subprocess import Process
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


class _Running:
    """A process that was started, and the questions that it has to answer, by number."""

    def __init__(self, process: Process, environment: Mapping[str, str]) -> None:
        self._process = process
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
        if self._process.stdin is not None:
            try:
                self._process.stdin.write(encode(asked) + b"\n")
            except RuntimeError:  # of uvloop, once it has seen that the process closed its end
                self.kill()

    async def _read(self) -> None:
        """Read answers until it has ended, which answers the other questions."""
        try:
            while self._process.stdout is not None and (line := await self._process.stdout.readline()):
                answered = decode(line, WhatIfAnswered)
                self._answer(answered.number, answered.answer)
        except (Malformed, ValueError):  # its last line was cut short, or is too long
            self.kill()
        code = await self._process.wait()
        ended_by = signal.Signals(-code).name if code < 0 else ""
        for number in self._asked:
            self._answer(number, ended_without_answer(ended_by, self._environment))

    def _answer(self, number: int, answer: WhatIfAnswer) -> None:
        asked = self._asked.get(number)
        if asked is not None and not asked.done():
            asked.set_result(answer)


async def _started(command: Sequence[str], environment: Mapping[str, str]) -> Process:
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        return await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=pipe, stdout=pipe, stderr=nowhere, start_new_session=True, limit=LINE_MAX
        )
    except OSError as error:
        raise Refused("UNAVAILABLE", f"no process can be started for it now: {error}; try again in a while") from None
