"""The books: how fast accounting catches up behind a ledger that has run ahead of it, and how long a month's statement takes.

Catching up runs in one process with the log in memory, and with a real PostgreSQL beside it: reading, folding, taking into the books and
writing, as the service does. Records are those of `memory.Tape`: jobs that come, run and end, five facts each, 32 jobs to a record. The
month is written into the tables as accounting would have written it (`month.sql`), and asked about as the service asks.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from bench.memory import BATCH, DEVICES, Stored, Tape
from bench.options import options
from headrace.accounting.reports import invoice_query, usage
from headrace.accounting.service import Accounting
from headrace.accounting.storage.database import Connection, Database
from headrace.accounting.storage.schema import migrate
from headrace.bus.memory import MemoryLog
from headrace.contracts.messages.usage import StatementRequest, UsageRequest
from headrace.contracts.values.durations import DAY, parse_time
from headrace.service.fold import LedgerFold
from headrace.supervisor.processes.postgres import accepts, prepare

APART = 10
"""Ticks between two of the five stages of a job's life: it comes, is granted, starts, ends, is settled."""


@contextmanager
def postgres() -> Iterator[tuple[str, psutil.Process]]:
    """A new server with empty books: how to reach it, and its process."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        settings = prepare(Path(folder) / "postgres", "secret")
        who: dict[str, Any] = {"user": settings.user, "group": settings.group, "extra_groups": []} if settings.user else {}
        log = subprocess.DEVNULL
        server = subprocess.Popen(settings.argv, env=settings.env, stdout=log, stderr=log, **who)
        try:
            while not asyncio.run(accepts(settings.dsn)):
                time.sleep(0.02)
            yield settings.dsn, psutil.Process(server.pid)
        finally:
            server.terminate()
            server.wait()


def _spent(process: psutil.Process) -> float:
    """CPU-seconds of a process and its children, those that are gone too."""
    times = [process.cpu_times()]
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            times.append(child.cpu_times())
    own = times[0]
    return sum(each.user + each.system for each in times) + own.children_user + own.children_system


async def _catch_up(dsn: str, log: MemoryLog) -> float:
    accounting = Accounting(log, LedgerFold(), dsn)
    began = time.perf_counter()
    task = asyncio.create_task(accounting.run())
    try:
        while (await accounting.status("", "", b"")).folded < log.last_sequence:
            if task.done():
                await task
            await asyncio.sleep(0.01)
        return time.perf_counter() - began
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def ledger(facts: int) -> tuple[MemoryLog, int]:
    """A ledger of about this number of facts, and how many it has."""
    tape = Tape()
    log = MemoryLog(lambda: tape.now)
    for message in chain(tape.law(), tape.lives(facts)):
        log.append_now(message.subject, message.payload, None)
    return log, 5 * tape.jobs


def catch_up(facts: int) -> dict[str, float]:
    """Facts/s from nothing to the tip, and the CPU-seconds of both processes."""
    log, count = ledger(facts)
    with postgres() as (dsn, server):
        own, theirs = time.process_time(), _spent(server)
        took = asyncio.run(_catch_up(dsn, log))
        return {
            "facts_per_s": count / took,
            "jobs_per_s": count / 5 / took,
            "service_cpu": time.process_time() - own,
            "postgres_cpu": _spent(server) - theirs,
        }


def _staggered(tape: Tape, batches: int) -> Iterator[list[Stored]]:
    """Records tick by tick: in each the next jobs come, and some that came before are a stage of their lives further."""
    lives: list[Iterator[Stored]] = []
    for _ in range(batches):
        lives.append(tape.lives(5 * BATCH))
        yield [next(life) for life in lives[: -4 * APART - 1 : -APART]]


async def _paced(dsn: str, jobs_per_s: int, seconds: int, server: psutil.Process) -> dict[str, float]:
    tape = Tape(devices=4 * APART * DEVICES)
    log = MemoryLog(lambda: tape.now)
    accounting = Accounting(log, LedgerFold(), dsn)
    task = asyncio.create_task(accounting.run())
    for message in tape.law():
        log.append_now(message.subject, message.payload, None)
    ticks = list(_staggered(tape, jobs_per_s * seconds // BATCH))
    loop = asyncio.get_running_loop()
    began, own, theirs, late = loop.time(), time.process_time(), _spent(server), 0.0
    for number, tick in enumerate(ticks):
        await asyncio.sleep(max(0.0, began + number * BATCH / jobs_per_s - loop.time()))
        for message in tick:
            log.append_now(message.subject, message.payload, None)
    came = loop.time() - began
    while not task.done() and (await accounting.status("", "", b"")).folded < log.last_sequence:
        await asyncio.sleep(0.01)
        late = loop.time() - began - came
    used, server_used = time.process_time() - own, _spent(server) - theirs
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task  # if it has failed, it says why
    jobs = len(ticks) * BATCH
    return {
        "jobs_per_s": jobs / came,
        "service_of_a_core": used / came,
        "postgres_of_a_core": server_used / came,
        "service_us_a_job": used / jobs * 1e6,
        "postgres_us_a_job": server_used / jobs * 1e6,
        "behind_at_the_end_s": late,
    }


def pace(jobs_per_s: int, seconds: int = 10) -> dict[str, float]:
    """What the books take of a core while this number of jobs a second come, run and end, 32 at once."""
    with postgres() as (dsn, server):
        return asyncio.run(_paced(dsn, jobs_per_s, seconds, server))


async def _fill(connection: Connection, jobs: int) -> None:
    """A month of jobs that are over, as accounting would have written it."""
    await migrate(connection)
    began = "CREATE TEMP TABLE month AS SELECT n::bigint AS n, $1::timestamptz + n * ($2::interval / $3::float8) AS began, "
    length = "(60 + n::bigint * 7919 % 7200) * interval '1 second' AS length FROM generate_series(1, $4::bigint) AS n"
    await connection.execute(began + length, MONTH, timedelta(days=29), float(jobs), jobs, timeout=PATIENCE)
    filling = re.split(r"^-- name: [a-z_]+$", (Path(__file__).parent / "month.sql").read_text("utf-8"), flags=re.MULTILINE)
    for each in filling[1:]:
        await connection.execute(each, timeout=PATIENCE)
    await connection.execute(
        "INSERT INTO headrace.tariffs SELECT 1, 'pool' || n, '', $1, false FROM generate_series(0, 2) AS n", MONTH
    )
    await connection.execute(
        "INSERT INTO headrace.prices SELECT 1, 'pool' || n, '', key, 2.5, 1.75 "
        "FROM generate_series(0, 2) AS n CROSS JOIN (VALUES ('gpu'), ('cpu')) AS each (key)"
    )
    await connection.execute("UPDATE headrace.position SET sequence = 1, now = $1", MONTH + 31 * DAY)
    await connection.execute("INSERT INTO headrace.records VALUES (1, 'hr.ledger.governance', $1, $1, '', '', '')", MONTH)
    await connection.execute("VACUUM (ANALYZE)", timeout=PATIENCE)  # as the server does by itself


async def _ask(dsn: str, jobs: int, runs: int) -> dict[str, list[float]]:
    books = Database(dsn)
    await books.once(partial(_fill, jobs=jobs))
    taken: dict[str, list[float]] = {}

    async def timed(name: str, work: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        await work()
        taken.setdefault(name, []).append(time.perf_counter() - began)

    async def stated(form: str) -> None:
        question = StatementRequest(month="2026-10")
        (await books.once(partial(invoice_query.read, tenant="acme", question=question, currency="EUR"))).text(form)

    for _ in range(runs):
        for form in invoice_query.FORMS:
            await timed(f"statement of a month, {form}", partial(stated, form))
        for by, per, timezone in QUESTIONS:
            question = UsageRequest(since=MONTH, until=MONTH + 31 * DAY, by=by, per=per, timezone=timezone)
            words = f"usage of a month by {','.join(by)} {per and 'per ' + per} {timezone}"
            await timed(" ".join(words.split()), partial(books.once, partial(usage.answer, tenant="acme", question=question)))
    await books.close()
    return taken


QUESTIONS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("group",), "", "UTC"),
    (("group", "user"), "day", "UTC"),
    (("group",), "hour", "UTC"),
    (("group",), "day", "Europe/Berlin"),
    (("group",), "day", "Asia/Kolkata"),
    (("node",), "", "UTC"),
    (("node",), "day", "Europe/Berlin"),
    (("node", "group"), "", "UTC"),
    (("label:project",), "", "UTC"),
    (("label:project",), "day", "UTC"),
    (("job",), "", "UTC"),
)
PATIENCE = 1_800.0
MONTH = parse_time("2026-10-01")


def month(jobs: int, runs: int = 3) -> dict[str, list[float]]:
    """Seconds of each question about a month of this number of jobs of one tenant: 100 users, 10 policies, 5 profiles, 3 pools, 4 keys."""
    with postgres() as (dsn, _):
        return asyncio.run(_ask(dsn, jobs, runs))


if __name__ == "__main__":
    parser = options("bench.books", __doc__, "1 minute for 100,000 facts, 3 minutes for a month of a million jobs")
    parser.add_argument("what", nargs="?", choices=["catch_up", "pace", "month"], default="catch_up", help="which is measured")
    parser.add_argument("count", type=int, nargs="?", default=100_000, help="of facts; of jobs for a month")
    asked = parser.parse_args()
    if asked.what == "month":
        for question, seconds in month(asked.count).items():
            print(f"{question:<60} {min(seconds):6.2f} .. {max(seconds):6.2f} s")
    else:
        print({"pace": pace, "catch_up": catch_up}[asked.what](asked.count))
