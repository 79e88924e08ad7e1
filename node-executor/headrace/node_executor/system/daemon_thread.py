"""Runs work in a thread that the end of the process does not wait for, unlike those of `asyncio.to_thread`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headrace.node_executor.system.threads import begin, set_result

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns or raises; the work may be aborted anywhere when the process ends."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    begin("aside", work, partial(set_result, answer))
    return await answer
