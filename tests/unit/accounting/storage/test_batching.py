"""How much of the ledger goes into the books at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.accounting.storage import batching
from headrace.bus.memory import MemoryLog

if TYPE_CHECKING:
    import pytest

    from headrace.bus.log import Message


def log_of(*sizes: int) -> MemoryLog:
    log = MemoryLog(lambda: 0)
    for size in sizes:
        log.append_now("hr.ledger.allocator", bytes(size), None)
    return log


async def gather(log: MemoryLog) -> list[Message]:
    return await batching.gather(await log.read(0))


async def test_a_stretch_is_what_there_is_when_nothing_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "BATCH_SECONDS", 0.001)
    assert len(await gather(log_of(1, 1, 1))) == 3


async def test_a_stretch_lasts_longer_where_much_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(batching, "BUSY_BYTES", 10)
    monkeypatch.setattr(batching, "BUSY_SECONDS", 60.0)
    monkeypatch.setattr(batching, "BATCH_MESSAGES", 3)
    log = log_of(5, 5)
    gathering = asyncio.create_task(gather(log))
    await asyncio.sleep(0)
    log.append_now("hr.ledger.allocator", b"", None)
    assert len(await gathering) == 3
    assert len(await gather(log_of(5, 4))) == 2


async def test_a_stretch_takes_in_what_comes_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "BATCH_SECONDS", 60.0)
    monkeypatch.setattr(batching, "BATCH_MESSAGES", 3)
    log = log_of(1)
    gathering = asyncio.create_task(gather(log))
    await asyncio.sleep(0)
    log.append_now("hr.ledger.allocator", b"", None)
    log.append_now("hr.ledger.allocator", b"", None)
    assert len(await gathering) == 3


async def test_a_stretch_ends_when_it_has_many_messages_or_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "BATCH_SECONDS", 60.0)
    monkeypatch.setattr(batching, "READ_AT_ONCE", 2)
    monkeypatch.setattr(batching, "BATCH_MESSAGES", 3)
    assert len(await gather(log_of(1, 1, 1, 1))) == 3
    monkeypatch.setattr(batching, "BATCH_BYTES", 10)
    assert len(await gather(log_of(5, 5, 5, 5))) == 2
