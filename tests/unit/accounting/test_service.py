from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from headrace.accounting import service, store
from headrace.accounting.database import Database, DatabaseAway, DatabaseRefused
from headrace.accounting.rows import NOWHERE, Changes, FactRow, Position
from headrace.accounting.service import Accounting
from headrace.bus.memory import MemoryLog
from headrace.contracts.codec import encode
from headrace.contracts.queries import ServiceView
from headrace.contracts.usage import UsageRequest
from headrace.service.answering import Refused
from headrace.service.engine import ENGINE
from headrace.service.fold import LedgerFold

if TYPE_CHECKING:
    from headrace.bus.log import Message


def log_of(*sizes: int) -> MemoryLog:
    log = MemoryLog(lambda: 0)
    for size in sizes:
        log.append_now("hr.ledger.allocator", bytes(size), None)
    return log


async def gather(log: MemoryLog) -> list[Message]:
    return await service._gather(await log.read(0))


async def test_a_stretch_is_what_there_is_when_nothing_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BATCH_SECONDS", 0.001)
    assert len(await gather(log_of(1, 1, 1))) == 3


async def test_a_stretch_lasts_longer_where_much_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(service, "BUSY_BYTES", 10)
    monkeypatch.setattr(service, "BUSY_SECONDS", 60.0)
    monkeypatch.setattr(service, "BATCH_MESSAGES", 3)
    log = log_of(5, 5)
    gathering = asyncio.create_task(gather(log))
    await asyncio.sleep(0)
    log.append_now("hr.ledger.allocator", b"", None)
    assert len(await gathering) == 3
    assert len(await gather(log_of(5, 4))) == 2


async def test_a_stretch_takes_in_what_comes_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BATCH_SECONDS", 60.0)
    monkeypatch.setattr(service, "BATCH_MESSAGES", 3)
    log = log_of(1)
    gathering = asyncio.create_task(gather(log))
    await asyncio.sleep(0)
    log.append_now("hr.ledger.allocator", b"", None)
    log.append_now("hr.ledger.allocator", b"", None)
    assert len(await gathering) == 3


async def test_a_stretch_ends_when_it_has_many_messages_or_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BATCH_SECONDS", 60.0)
    monkeypatch.setattr(service, "READ_AT_ONCE", 2)
    monkeypatch.setattr(service, "BATCH_MESSAGES", 3)
    assert len(await gather(log_of(1, 1, 1, 1))) == 3
    monkeypatch.setattr(service, "BATCH_BYTES", 10)
    assert len(await gather(log_of(5, 5, 5, 5))) == 2


async def test_before_the_database_is_there_the_status_says_how_far_behind_the_books_are() -> None:
    accounting = Accounting(log_of(1, 1), LedgerFold(), "postgresql://nowhere")
    detail = {"tip": 2, "behind": 2, "waiting_to_be_written": 0, "facts_per_s": 0}
    view = ServiceView(service="accounting", folded=0, now=0, engine=ENGINE, detail=detail)
    assert await accounting.status("acme", "alice", b"") == view
    assert set(accounting.handlers()) == {"usage", "statement", "audit", "status"}


async def test_the_pace_says_how_far_behind_the_books_are_and_how_fast_they_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(service, "FAR", 1)
    accounting = Accounting(log_of(1, 1), LedgerFold(), "postgresql://nowhere")
    accounting.pace.facts = 7
    with capture_logs() as told:
        watching = asyncio.create_task(accounting._watch())
        while not told:
            await asyncio.sleep(0)
        watching.cancel()
    assert (told[0]["event"], told[0]["behind"], told[0]["facts_per_s"] > 0) == ("catching_up", 2, True)
    pace = service.Pace(facts=50)
    pace.look(3, 5.0)
    assert (pace.behind, pace.facts_per_s, pace.facts) == (3, 10, 0)


async def test_how_much_there_is_is_told_whenever_there_is_twice_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    surveys: list[int] = []

    async def run(_: Database, work: Any) -> None:
        if work is store.survey:
            surveys.append(accounting.pace.so_far)

    monkeypatch.setattr(Database, "run", run)
    accounting = Accounting(log_of(), LedgerFold(), "postgresql://nowhere")
    for number in range(1, 13):
        await accounting._write(
            Changes(NOWHERE, Position(number, "aa", 10), facts=[FactRow(number, 0, "job.ended.v1", "")] * 700)
        )
        accounting.pace.look(0, 1.0)
    assert surveys == [2_100, 4_200, 8_400]


async def test_usage_that_cannot_be_read_now_is_refused_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> None:
        raise DatabaseAway("no route")

    monkeypatch.setattr(Database, "once", away)
    accounting = Accounting(log_of(), LedgerFold(), "postgresql://nowhere")
    with pytest.raises(Refused, match="the books cannot be read now, try again later: no route") as refusal:
        await accounting.usage("acme", "alice", encode(UsageRequest()))
    assert refusal.value.code == "UNAVAILABLE"


async def test_without_the_name_of_a_database_the_service_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(service.DSN, raising=False)
    with pytest.raises(DatabaseRefused, match="HEADRACE_POSTGRES_DSN is not set; it looks like postgresql://"):
        await service.main(None)  # type: ignore[arg-type]
