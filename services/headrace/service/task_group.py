"""Several loops of one service, which end together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def run_until_first_ends(*loops: Awaitable[None]) -> None:
    """Run all until the first ends; the others are cancelled. Its exception is raised as it is, for the process' exit code."""
    tasks = [asyncio.ensure_future(loop) for loop in loops]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:  # in their order: of several errors the first one's is raised
            if task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
