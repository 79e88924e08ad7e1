from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from headrace.accounting import service
from headrace.accounting.books.rows import NOWHERE, FactRow, Position, RowChanges
from headrace.accounting.service import Accounting
from headrace.accounting.storage import store
from headrace.accounting.storage.database import Database, DatabaseRefused, DatabaseUnavailable
from headrace.bus.memory import MemoryLog
from headrace.bus.niceness import AdaptiveNiceness
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.messages.usage import UsageRequest
from headrace.contracts.transport.codec import encode
from headrace.service.answering import Refused
from headrace.service.engine_version import ENGINE
from headrace.service.fold import LedgerFold


def log_of(*sizes: int) -> MemoryLog:
    log = MemoryLog(lambda: 0)
    for size in sizes:
        log.append_now("hr.ledger.allocator", bytes(size), None)
    return log


async def test_before_the_database_is_there_the_status_says_how_far_behind_the_books_are() -> None:
    accounting = Accounting(log_of(1, 1), LedgerFold(), "postgresql://nowhere")
    detail = {"tip": 2, "behind": 2, "waiting_to_be_written": 0, "facts_per_s": 0}
    view = ServiceView(service="accounting", folded=0, now=0, engine=ENGINE, detail=detail, reads=LEVEL)
    assert await accounting.status("acme", "alice", b"") == view
    queries = {"usage", "utilization", "audit", "timeline", "preemptions"}
    assert set(accounting.handlers()) == {*queries, "statement", "status"}
    assert set(accounting.provider_handlers()) == {*queries, "statement", "status"}


async def test_the_pace_says_how_far_behind_the_books_are_and_how_fast_they_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "POLL_EVERY", 0.001)
    monkeypatch.setattr(service, "FAR", 1)
    accounting = Accounting(log_of(1, 1), LedgerFold(), "postgresql://nowhere")
    accounting.pace.facts = 7
    with capture_logs() as logs:
        watching = asyncio.create_task(accounting.watch_pace())
        while not logs:
            await asyncio.sleep(0)
        watching.cancel()
    assert (logs[0]["event"], logs[0]["behind"], logs[0]["facts_per_s"] > 0) == ("catching_up", 2, True)
    pace = service.CatchUpRate(facts=50)
    pace.update(3, 5.0)
    assert (pace.behind, pace.facts_per_s, pace.facts) == (3, 10, 0)


async def test_books_that_are_far_behind_keep_their_priority_until_they_have_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []

    class Noting(AdaptiveNiceness):
        def __init__(self) -> None:
            pass

        def update(self, *, is_far_behind: bool) -> None:
            looks.append(is_far_behind)

    clock = 1_000_000_000_000
    monkeypatch.setattr(service, "POLL_EVERY", 0.0)
    monkeypatch.setattr(service, "FAR", 1)
    monkeypatch.setattr(service, "wall_clock", lambda: clock)
    accounting = Accounting(log_of(1, 1, 1), LedgerFold(), "postgresql://nowhere", niceness=Noting())
    late, soon = clock - service.HURRIED_AFTER - 1, clock - service.HURRIED_AFTER
    watching = asyncio.create_task(accounting.watch_pace())
    for position in (Position(1, "aa", late), Position(1, "aa", soon), Position(2, "aa", late)):
        accounting.written = position
        seen = len(looks)
        while len(looks) < seen + 2:  # the first may have been under way
            await asyncio.sleep(0)
        looks[seen:] = [looks[-1]]
    watching.cancel()
    assert looks == [True, False, False]


async def test_how_much_there_is_is_told_whenever_there_is_twice_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    surveys: list[int] = []

    async def run(_: Database, work: Any) -> None:
        if work is store.survey:
            surveys.append(accounting.pace.so_far)

    monkeypatch.setattr(Database, "run", run)
    accounting = Accounting(log_of(), LedgerFold(), "postgresql://nowhere")
    for number in range(1, 13):
        await accounting.write_changes(
            RowChanges(NOWHERE, Position(number, "aa", 10), facts=[FactRow(number, 0, "job.ended.v1", "")] * 700)
        )
        accounting.pace.update(0, 1.0)
    assert surveys == [2_100, 4_200, 8_400]


async def test_usage_that_cannot_be_read_now_is_refused_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> None:
        raise DatabaseUnavailable("no route")

    monkeypatch.setattr(Database, "once", away)
    accounting = Accounting(log_of(), LedgerFold(), "postgresql://nowhere")
    with pytest.raises(Refused, match="the books cannot be read now, try again later: no route") as refusal:
        await accounting.usage("acme", "alice", encode(UsageRequest()))
    assert refusal.value.code == "UNAVAILABLE"


async def test_without_the_name_of_a_database_the_service_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(service.DSN, raising=False)
    with pytest.raises(DatabaseRefused, match="HEADRACE_POSTGRES_DSN is not set; it looks like postgresql://"):
        await service.main(None)  # type: ignore[arg-type]
