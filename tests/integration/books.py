"""The service of the books on a real PostgreSQL that can die, for histories that are made up."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

from headrace.accounting.service import Accounting
from headrace.bus.loop import Fenced
from headrace.bus.memory import MemoryLog
from headrace.service.fold import LedgerFold
from headrace.supervisor.processes.postgres import PostgresSettings, accepts
from tests.integration.ledgers import History
from tests.patience import PATIENCE

TABLES = {
    "records": "sequence",
    "facts": "sequence, place",
    "jobs": "job",
    "attempts": "job, attempt",
    "leases": "lease",
    "usage": "lease, key, since",
    "preemptions": "preemption",
    "victims": "preemption, job",
    "reservations": "number, key",
    "capacity": "number, pool, key",
    "nodes": "node",
    "position": "sequence",
    "unserved": "job, since",
    "suspensions": "lease, since",
    "kept": "job, node, key, since",
    "hours": "tenant, hour, group_name, policy, profile, user_name, service_account, pool, key, tariff",
    "node_hours": "tenant, hour, pool, node, key, tariff",
    "days": "tenant, day, group_name, policy, profile, user_name, service_account, pool, key, tariff",
    "tariffs": "tariff, pool, tenant",
    "prices": "tariff, pool, tenant, key",
}


class Postgres:
    """A server that can die and come back."""

    def __init__(self, settings: PostgresSettings, log: Path) -> None:
        self.settings = settings
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return self.settings.dsn

    def start(self) -> None:
        settings = self.settings
        who: dict[str, Any] = {"user": settings.user, "group": settings.group, "extra_groups": []} if settings.user else {}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(settings.argv, env=settings.env, stdout=log, stderr=log, **who)

    async def up(self) -> None:
        self.start()
        async with asyncio.timeout(PATIENCE):
            while not await accepts(self.dsn):
                await asyncio.sleep(0.01)

    def end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    async def fetch(self, sql: str, *arguments: object) -> list[Any]:
        connection = await asyncpg.connect(self.dsn)
        try:
            return list(await connection.fetch(sql, *arguments))
        finally:
            await connection.close()

    async def execute(self, sql: str) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    async def tables(self) -> dict[str, list[tuple[object, ...]]]:
        """All the books."""
        return {
            table: [tuple(row) for row in await self.fetch(f"SELECT * FROM headrace.{table} ORDER BY {order}")]
            for table, order in TABLES.items()
        }


def append(log: MemoryLog, history: History, since: int, until: int) -> None:
    for subject, payload in history.records[since:until]:
        log.append_now(subject, payload, None)


def memory_log(history: History) -> MemoryLog:
    log = MemoryLog(lambda: history.now)
    append(log, history, 0, len(history.records))
    return log


class Running(Accounting):
    """The service, and the task that it is."""

    def __init__(self, log: Any, dsn: str) -> None:
        super().__init__(log, LedgerFold(), dsn)
        self.task = asyncio.create_task(self.run())

    async def reaches(self, sequence: int) -> None:
        """Until the books do; what ends the service ends this."""
        async with asyncio.timeout(PATIENCE):
            while (await self.status("", "", b"")).folded < sequence:
                if self.task.done():
                    await self.task
                await asyncio.sleep(0.005)


@asynccontextmanager
async def keeping(log: Any, dsn: str) -> AsyncIterator[Running]:
    """The service, running."""
    running = Running(log, dsn)
    try:
        yield running
    finally:
        running.task.cancel()
        with suppress(asyncio.CancelledError):
            await running.task


async def keep_books(log: MemoryLog, dsn: str) -> None:
    """The service, started again where it has to be, until everything is in the books."""
    while True:
        with suppress(Fenced):
            async with keeping(log, dsn) as accounting:
                return await accounting.reaches(log.last_sequence)


async def stored_usage(postgres: Postgres) -> dict[tuple[int, str, int], tuple[int | None, int, int]]:
    micros = "(extract(epoch FROM {}) * 1000000)::bigint"
    rows = await postgres.fetch(
        f"SELECT lease, key, {micros.format('since')}, {micros.format('until')}, reserved, borrowed FROM headrace.usage"
    )
    return {(lease, key, since): (until, reserved, borrowed) for lease, key, since, until, reserved, borrowed in rows}
