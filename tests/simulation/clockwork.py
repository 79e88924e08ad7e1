"""An event loop without time, threads or a network of its own: it is always now, until nothing is left to do.

Strategy: what is ready waits in a line for each process, so that within a process everything happens in its order, as it does in a real
loop; which process goes on next is drawn. When all lines are empty, time jumps to the next timer. A process can be killed between any two
steps, which is at every await (nothing of it ever runs again), or stopped for a while (its line grows, as behind a SIGSTOP).
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import base_events, events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from itertools import count
from random import Random
from typing import Any

STEPS_AT_ONCE = 1_000_000
"""Steps that may be taken without any time going by; more are a loop that spins."""


class Spinning(Exception):
    """A task goes on for ever without letting time pass."""


class Process:
    """What is scheduled in one line. `ahead`: microseconds that its clock is before the true time; `crash_in`: steps until it is killed."""

    __slots__ = ("_home", "ahead", "alive", "context", "crash_in", "ended", "line", "name", "on_crash", "stopped", "tasks")

    def __init__(self, name: str, ended: Callable[[Process, BaseException | None], None] | None = None) -> None:
        self.name = name
        self.line: deque[events.Handle] = deque()
        self.alive = True
        self.stopped = False
        self.ahead = 0
        self.crash_in = 0
        self.on_crash: Callable[[Process], None] | None = None
        self.ended = ended
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = copy_context()
        self.context.run(CURRENT.set, self)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let this go on in it; when it ends, `ended` is told."""
        task = asyncio.get_running_loop().create_task(work, context=self.context)
        self.tasks.append(task)
        task.add_done_callback(self._over, context=OUTSIDE.context)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        if self.alive and self.ended is not None:
            self.ended(self, None if task.cancelled() else task.exception())


CURRENT: ContextVar[Process] = ContextVar("process")
OUTSIDE = Process("outside")
"""The world itself: wires, hardware, the hand that breaks things. It is never killed."""


def current() -> Process:
    """The process that goes on now."""
    return CURRENT.get(OUTSIDE)


class Clockwork(base_events.BaseEventLoop):
    """See above. `random` draws who goes on next."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._now = 0.0
        self._draw = random.random
        self._lines: list[Process] = []
        self._clock_resolution = 1e-9
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._numbers = count()
        self._steps = 0
        self.steps = 0
        self.errors: list[str] = []
        self.set_exception_handler(self._note)

    def time(self) -> float:
        """Seconds since the beginning."""
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> events.Handle:
        """At the end of the line of the process that it belongs to."""
        handle = events.Handle(callback, args, self, context)
        self._line_up(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> events.TimerHandle:
        """When time has come there."""
        timer = events.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """There are no threads: it is done when its turn comes."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - it is the asker's
                future.set_exception(error)

        self.call_soon(work)
        return future

    def kill(self, process: Process) -> None:
        """Nothing of it runs again. It is not told."""
        process.alive = False

    def go_on(self, process: Process) -> None:
        """It was stopped, and what waits in its line comes to its turn. What was killed goes on only to be tidied up."""
        process.stopped, process.alive = False, True
        if process.line and process not in self._lines:
            self._lines.append(process)

    def close(self) -> None:
        """Forget everything."""
        self._timers.clear()
        self._lines.clear()
        super().close()

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _line_up(self, handle: events.Handle) -> None:
        process = handle._context.get(CURRENT, OUTSIDE)  # type: ignore[attr-defined]
        if not process.line and process.alive and not process.stopped:
            self._lines.append(process)
        process.line.append(handle)

    def _run_once(self) -> None:
        lines = self._lines
        if not lines:
            self._pass_time()
            return
        place = int(self._draw() * len(lines)) if len(lines) > 1 else 0
        process = lines[place]
        if not process.line or process.stopped or not process.alive:
            lines[place] = lines[-1]
            lines.pop()
            return
        handle = process.line.popleft()
        if not process.line:
            lines[place] = lines[-1]
            lines.pop()
        if handle._cancelled:  # type: ignore[attr-defined]
            return
        self._steps += 1
        if self._steps > STEPS_AT_ONCE:
            raise Spinning(f"{process.name} goes on without letting time pass")
        handle._run()
        if process.crash_in:
            process.crash_in -= 1
            if not process.crash_in and process.alive and process.on_crash is not None:
                process.on_crash(process)

    def _pass_time(self) -> None:
        """Jump to the next timer, and line up all that are due then."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:  # type: ignore[attr-defined]
            heapq.heappop(timers)
        if not timers:
            raise RuntimeError("nobody has anything to do, and nothing is due")
        self.steps += self._steps
        self._steps = 0
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:  # type: ignore[attr-defined]
                self._line_up(timer)

    def _note(self, _loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{context.get('message')}: {error!r}")
