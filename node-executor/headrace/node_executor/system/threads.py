"""Threads for work that may never return: on a container engine, a driver or a disk that does not answer.

Strategy: each piece of work has a daemon thread of its own, which an end of the executor does not wait for, unlike the threads of
`asyncio.to_thread`. `Threads` has a maximum number of them, so work of one kind waits for work of the same kind only.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Ended = Callable[[Any, Exception | None], None]


def begin(name: str, work: Callable[[], object], ended: Ended) -> None:
    """Do `work` in a daemon thread of this name; `ended` is called in the running loop with its result or its exception."""
    loop = asyncio.get_running_loop()

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 - it is raised where the answer is awaited
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()


def set_result(answer: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    """Set the result or exception, unless set already."""
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


class Threads:
    """Work in at most `at_once` threads; the rest waits in order. Used in a running loop."""

    def __init__(self, name: str, at_once: int) -> None:
        self._name = name
        self._free = at_once
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()

    def do(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Return what `work` returns or raises. Cancelling the future does not stop work that has begun."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, answer))
        self._begin()
        return answer

    def _begin(self) -> None:
        while self._free and self._waiting:
            work, answer = self._waiting.popleft()
            if not answer.done():
                self._free -= 1
                begin(self._name, work, self._ended(answer))

    def _ended(self, answer: asyncio.Future[Any]) -> Ended:
        def ended(result: object, error: Exception | None) -> None:
            self._free += 1
            set_result(answer, result, error)
            self._begin()

        return ended
