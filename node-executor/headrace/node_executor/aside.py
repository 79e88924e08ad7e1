"""Work in a thread that the end of the process does not wait for, as it does for those of `asyncio.to_thread`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headrace.node_executor.threads import begin, settle

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """What `work` returns or raises; it has to bear to be broken off anywhere."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    begin("aside", work, partial(settle, answer))
    return await answer
