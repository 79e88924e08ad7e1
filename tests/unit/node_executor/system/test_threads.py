from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from headrace.node_executor.system.threads import Threads
from tests.patience import PATIENCE


async def test_work_returns_what_it_found_or_raises_what_went_wrong() -> None:
    threads = Threads("work", 2)
    assert await threads.do(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.do(lambda: 1 // 0)


async def test_only_so_much_is_done_at_once_and_the_rest_comes_in_order() -> None:
    threads, goes_on, seen = Threads("work", 1), threading.Event(), []
    first = threads.do(goes_on.wait)
    rest = [threads.do(lambda number=number: seen.append(number)) for number in range(5)]
    rest[3].cancel()
    assert not first.done()
    goes_on.set()
    await asyncio.gather(first, *rest, return_exceptions=True)
    assert seen == [0, 1, 2, 4]


def test_a_program_ends_although_its_work_does_not() -> None:
    program = """
import asyncio, threading
from headrace.node_executor.system.threads import Threads

async def main():
    begun = threading.Event()
    Threads("work", 1).do(lambda: begun.set() or threading.Event().wait())
    while not begun.is_set():
        await asyncio.sleep(0.001)

asyncio.run(main())
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")
