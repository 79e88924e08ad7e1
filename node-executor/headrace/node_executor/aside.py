"""Work in a thread that the end of the process does not wait for, as it does for those of `asyncio.to_thread`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """What `work` returns or raises; it has to bear to be broken off anywhere."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        settle: Callable[[], None]
        try:
            settle = partial(answer.set_result, work())
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            settle = partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if answer.done() else settle())

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await answer
