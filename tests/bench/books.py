"""The books: how fast accounting catches up behind a ledger that has run ahead of it, and how long a month's statement takes.

In one process with the log in memory, and with a real PostgreSQL beside it: reading, folding, taking into the books and writing, as the
service does. Records are those of `memory.Tape`: jobs that come, run and end, five facts each, 32 jobs to a record.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
from memory import Tape

from headrace.accounting.service import Accounting
from headrace.bus.memory import MemoryLog
from headrace.service.fold import LedgerFold
from headrace.supervisor.postgres import accepts, prepare


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
    """A ledger of about so many facts, and how many it has."""
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


if __name__ == "__main__":
    import sys

    print(catch_up(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000))
