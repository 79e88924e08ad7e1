"""Between the loop and the mechanisms: at once where nothing is waited for, else in one thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.node_executor.enforcement import CannotEnclose, EnforcementRequest, Entered
from headrace.node_executor.enforcement.enforcement_worker import EnforcementWorker
from headrace.node_executor.runtimes import CannotStart

CASE = EnforcementRequest("a.b.c/1/0", (), "/control")


class SlowFences:
    """Mechanisms that take what time they take; `threads` are those in which they were asked."""

    quick = False

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.outcome: Any = Entered("hardware", {"A": "b"})
        self.closed = False

    def _answer(self, _of: object = None) -> Any:
        self.threads.append(threading.current_thread().name)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    enter = leave = forget = prove = _answer

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def enforcement() -> SlowFences:
    return SlowFences()


@pytest.fixture
async def enclosing(enforcement: SlowFences) -> Iterator[EnforcementWorker]:  # type: ignore[misc]
    one = EnforcementWorker(enforcement)  # type: ignore[arg-type]
    yield one
    one.close()
    assert enforcement.closed


async def entered(enclosing: EnforcementWorker) -> Entered | CannotStart:
    done: asyncio.Future[Entered | CannotStart] = asyncio.get_running_loop().create_future()
    enclosing.enter(CASE, done.set_result, done.set_result)
    return await done


async def test_what_waits_for_a_driver_is_done_in_one_thread_and_told_in_the_loop(enclosing, enforcement) -> None:
    assert await asyncio.gather(*(entered(enclosing) for _ in range(4))) == [Entered("hardware", {"A": "b"})] * 4
    await enclosing.prove()
    assert await enclosing.in_turn(lambda: threading.current_thread().name) == enforcement.threads[0]
    assert len(set(enforcement.threads)) == 1
    assert enforcement.threads[0] != threading.current_thread().name


@pytest.mark.parametrize("error", [CannotEnclose("no room"), RuntimeError("no room")])
async def test_who_cannot_be_enclosed_is_refused_for_the_nodes_fault(enclosing, enforcement, error: Exception) -> None:
    enforcement.outcome = error
    refused = await entered(enclosing)
    assert isinstance(refused, CannotStart)
    assert (refused.exit_code, "no room" in refused.message) == (None, True)


@pytest.mark.parametrize(("outcome", "why"), [("", ""), ("in use", "in use"), (RuntimeError("gone"), "gone")])
async def test_leaving_tells_what_is_in_the_way(enclosing, enforcement, outcome: Any, why: str) -> None:
    enforcement.outcome = outcome
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    enclosing.leave(CASE.lease, done.set_result)
    assert await done == why


async def test_where_nothing_is_waited_for_it_is_told_before_the_call_returns(enforcement) -> None:
    enforcement.quick = True
    enclosing, results = EnforcementWorker(enforcement), []
    enclosing.enter(CASE, results.append, results.append)
    enforcement.outcome = ""
    enclosing.leave(CASE.lease, results.append)
    enclosing.forget(CASE.lease)
    assert results == [Entered("hardware", {"A": "b"}), ""]
    assert len(enforcement.threads) == 3
    assert set(enforcement.threads) == {threading.current_thread().name}
    enclosing.close()
