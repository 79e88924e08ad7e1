"""Work that the end of the process does not wait for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace.node_executor.system.daemon_thread import in_daemon_thread


async def test_what_it_returns_or_raises_is_told():
    assert await in_daemon_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0)


def test_a_loop_ends_while_it_goes_on():
    goes_on, ended = threading.Event(), threading.Event()

    def work():
        goes_on.wait()
        ended.set()

    async def begins():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await in_daemon_thread(work)

    asyncio.run(begins())
    assert not ended.is_set()
    goes_on.set()
    assert ended.wait(60)
