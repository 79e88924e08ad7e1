"""The books in a real PostgreSQL, exactly once: the service and the server are stopped and killed again and again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from headrace.accounting.service import Accounting
from headrace.accounting.storage import batching
from headrace.bus.loop import Fenced
from headrace.bus.memory import MemoryLog
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.service.answering import Refused
from headrace.service.fold import LedgerFold
from tests.integration.books import Postgres, append, keep_books, keeping, memory_log, stored_usage
from tests.integration.ledgers import added_up, busy
from tests.patience import PATIENCE


@pytest.mark.parametrize("seed", [2, 3])
async def test_stopped_anywhere_and_started_again_the_books_are_the_same(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    history = busy(seed, 200)
    log = memory_log(history)
    await keep_books(log, postgres.dsn)
    whole = await postgres.tables()
    await postgres.execute("DROP SCHEMA headrace CASCADE")
    monkeypatch.setattr(batching, "BATCH_MESSAGES", 23)
    monkeypatch.setattr(batching, "READ_AT_ONCE", 23)
    chance = random.Random(seed)
    for _ in range(12):
        accounting = Accounting(log, LedgerFold(), postgres.dsn)
        task = asyncio.create_task(accounting.run())
        for _ in range(chance.randint(1, 120)):
            await asyncio.sleep(0)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() / 200)
        task.cancel()
        with suppress(asyncio.CancelledError, Fenced):  # the last commit may still have been under way
            await task
    await keep_books(log, postgres.dsn)
    assert await postgres.tables() == whole


async def test_postgres_may_die_at_any_time_and_the_books_say_how_far_behind_they_are(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = busy(4, 200)
    await keep_books(memory_log(history), postgres.dsn)
    whole = await postgres.tables()
    await postgres.execute("DROP SCHEMA headrace CASCADE")
    monkeypatch.setattr(batching, "BATCH_MESSAGES", 20)
    monkeypatch.setattr(batching, "READ_AT_ONCE", 20)
    log = MemoryLog(lambda: history.now)
    quarter = len(history.records) // 4
    with capture_logs() as logged:
        async with keeping(log, postgres.dsn) as accounting:
            for part, number in enumerate((signal.SIGKILL, signal.SIGINT, signal.SIGQUIT)):
                append(log, history, log.last_sequence, quarter * (part + 1))
                await accounting.reaches(quarter * part + 50)
                postgres.end(number)
                append(log, history, quarter * (part + 1), quarter * (part + 1) + 10)
                with pytest.raises(Refused, match="cannot be read now"):
                    await accounting.usage("acme", "alice", b"")
                await postgres.up()
                await accounting.reaches(quarter * (part + 1) + 10)
            append(log, history, log.last_sequence, len(history.records))
            await accounting.reaches(log.last_sequence)
    assert await postgres.tables() == whole
    behind = [line["behind"] for line in logged if line["event"] == "catching_up"]
    assert len(behind) == 3
    assert all(0 <= messages <= quarter for messages in behind)


@pytest.fixture
def process(postgres: Postgres, nats_server: Any) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts the service as a process of its own."""
    started: list[subprocess.Popen[bytes]] = []
    environment = os.environ | {
        "HEADRACE_NATS_URL": nats_server.url,
        "HEADRACE_NATS_USER": "accounting",
        "HEADRACE_NATS_PASSWORD": nats_server.credentials["accounting"].password,
        "HEADRACE_POSTGRES_DSN": postgres.dsn,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-m", "headrace.accounting"], env=environment))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


async def test_killed_again_and_again_the_service_loses_and_repeats_nothing(
    postgres: Postgres, login: Callable[[str], Any], process: Callable[[], subprocess.Popen[bytes]]
) -> None:
    history = busy(10, 400)
    operator = await login("operator")
    await ensure_streams(operator)
    log = JetStreamLog(operator, LEDGER_STREAM)
    chance = random.Random(10)

    async def position() -> int:
        with suppress(asyncpg.PostgresError):
            return int((await postgres.fetch("SELECT sequence FROM headrace.position"))[0][0])
        return 0

    done = 0
    for part in (0.2, 0.5, 0.8, 1.0):
        running = process()
        until = int(len(history.records) * part)
        for subject, payload in history.records[done:until]:
            await log.append(subject, payload, None)
        done = until
        async with asyncio.timeout(PATIENCE):
            while await position() < until * (1.0 if part == 1.0 else 0.6):
                await asyncio.sleep(0.01 * chance.random())
        running.kill()
        running.wait()
    assert await position() == len(history.records)
    assert await stored_usage(postgres) == added_up(history)
