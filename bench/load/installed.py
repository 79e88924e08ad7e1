"""A whole installation under load: started by the `headrace` command, looked at from outside, and counted from its ledger alone."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.installation import headrace
from headrace.bus.nats.connection import connect as connect_bus
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.client.endpoint import read_login
from headrace.contracts import facts as f
from headrace.contracts.transport.codec import Malformed, decode_record
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.nats_client.connection import Connection
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import read_running

MIB = 1024 * 1024
PATIENCE = 600.0


def show_progress(text: str) -> None:
    """Progress: one line that is written over."""
    print(f"\r\x1b[K  {text}", end="", file=sys.stderr, flush=True)


@contextmanager
def site(documents: str, *arguments: str, disk_mib: int = 0) -> Iterator[Path]:
    """The data directory of a running installation with those documents.

    `disk_mib`: NATS keeps its streams on a file system of their own, where that may be mounted.
    """
    folder = Path(tempfile.mkdtemp(prefix="headrace-load-"))
    data = ["--data", str(folder)]
    try:
        store = Installation(folder).nats_store
        if disk_mib:
            store.mkdir(parents=True)
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={disk_mib}m", "load", str(store)], capture_output=True, check=False
            )
        show_progress("starting the installation")
        headrace("up", *data, "--detach", *arguments)
        try:
            (folder / "load.yaml").write_text(documents, encoding="utf-8")
            headrace("apply", *data, "-f", str(folder / "load.yaml"))
            yield folder
        finally:
            show_progress("stopping the installation")
            headrace("down", *data, "--now")
            show_progress("")
    finally:
        if store.is_mount():
            subprocess.run(["umount", str(store)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


async def bus(folder: Path, login: str = "operator") -> Connection:
    """A connection to the server of an installation."""
    home = Installation(folder)
    found = read_login(home.credentials / f"{login}.json")
    return await connect_bus(json.loads(home.endpoint.read_text("utf-8"))["url"], found.name, found.password)


def pid(folder: Path, part: str) -> int:
    """The process of a part; 0 if it does not run now."""
    running = read_running(Installation(folder))
    child = None if running is None else running.child(part)
    return 0 if child is None else child.pid


def restarts(folder: Path) -> dict[str, int]:
    """How often each part has been started again."""
    running = read_running(Installation(folder))
    return {child.name: child.restarts for child in (running.children if running is not None else ())}


def is_verified(folder: Path) -> bool:
    """Whether `headrace audit verify` finds the ledger whole and every decision right."""
    try:
        headrace("audit", "verify", "--data", str(folder))
    except RuntimeError as error:
        print(f"\n{error}", file=sys.stderr)
        return False
    return True


class Memory:
    """Resident bytes of every process of an installation: before, at the most, and after."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.before = self.memory_by_process()
        self.peak = dict(self.before)
        self.after = dict(self.before)

    def memory_by_process(self) -> dict[str, int]:
        """Now, by process."""
        running = read_running(Installation(self._folder))
        found: dict[str, int] = {}
        for child in running.children if running is not None else ():
            try:
                process = psutil.Process(child.pid)
                found[child.process_name] = process.memory_info().rss
                if child.name == "postgres":  # its pages are shared: those of its own count once
                    found[child.name] = sum(
                        one.memory_info().rss - one.memory_info().shared for one in [process, *process.children()]
                    )
            except (psutil.Error, ValueError):
                continue
        return found

    async def keep_looking(self) -> None:
        """Until cancelled."""
        while True:
            self.note()
            await asyncio.sleep(0.5)

    def note(self) -> None:
        """One look."""
        self.after = self.memory_by_process()
        for name, used in self.after.items():
            self.peak[name] = max(used, self.peak.get(name, 0))

    def table(self) -> list[dict[str, Any]]:
        """A line for each part, MiB."""
        return [
            {
                "part": name,
                "before": self.before.get(name, 0) // MIB,
                "peak": peak // MIB,
                "after": self.after.get(name, 0) // MIB,
            }
            for name, peak in self.peak.items()
        ]


class Count:
    """What the ledger says became of everything, counted as it comes."""

    def __init__(self, log: JetStreamLog) -> None:
        self._log = log
        self.admitted: set[str] = set()
        self.refused: set[str] = set()
        """Jobs that were rejected by name."""
        self.counted_of: Counter[str] = Counter()
        """Refusals that were only counted, by `tenant.user`."""
        self.rejected: Counter[str] = Counter()
        self.hints: Counter[str] = Counter()
        """Refusals that say when to try again, by reason."""
        self.counted: Counter[str] = Counter()
        self.submissions: Counter[str] = Counter()
        self.messages: dict[str, str] = {}
        self.ended: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.granted: Counter[str] = Counter()
        self.lost: list[str] = []
        self.judged = 0
        self.records: list[Any] = []

    async def follow(self) -> None:
        """Until cancelled."""
        reader = await self._log.read(0)
        while True:
            for message in await reader.batch():
                self.records.append(message)
                try:
                    facts = decode_record(message.payload).facts
                except Malformed:  # void
                    continue
                for fact in facts:
                    self._note(fact)

    def _note(self, fact: f.AnyFact) -> None:
        match fact:
            case f.JobAdmittedV1():
                self.admitted.add(fact.job)
            case f.JobRejectedV1():
                self.refused.add(fact.job)
                self.rejected[fact.reason] += 1
                self.hints[fact.reason] += fact.retry_after is not None
                self.messages[fact.reason] = fact.message
            case f.RefusalsCountedV1():
                self.counted[fact.reason] += fact.count
                self.counted_of[f"{fact.tenant}.{fact.user}"] += fact.count
            case f.WishRefusedV1():
                self.submissions[fact.reason] += 1
                self.messages[fact.reason] = fact.message
            case f.WishesJudgedV1():
                self.judged = fact.through
            case f.JobEndedV1() | f.JobDismissedV1():
                self.ended[fact.job] += 1
                self.states[getattr(fact, "state", "rejected")] += 1
            case f.LeaseGrantedV1():
                self.granted[fact.job] += 1
            case f.NodeLostV1():
                self.lost.append(fact.node)
            case _:
                pass

    def unknown(self, acknowledged: set[str]) -> list[str]:
        """Jobs that a caller was told are submitted, and that the ledger has neither as a job nor as a refusal, by name or counted."""
        left, unknown = Counter(self.counted_of), []
        for key in sorted(acknowledged - self.admitted - self.refused):
            user = key.rpartition(".")[0]
            left[user] -= 1
            if left[user] < 0:
                unknown.append(key)
        return unknown

    @property
    def open(self) -> int:
        """Jobs that were admitted and have not ended."""
        return len(self.admitted) - len(self.admitted & self.ended.keys())

    @property
    def twice(self) -> int:
        """Jobs that ended more than once."""
        return sum(times > 1 for times in self.ended.values())


@asynccontextmanager
async def counted(folder: Path) -> AsyncIterator[tuple[Count, Connection]]:
    """The ledger, followed; and the operator's connection."""
    operator = await bus(folder)
    count = Count(JetStreamLog(operator, LEDGER_STREAM))
    following = asyncio.create_task(count.follow())
    try:
        yield count, operator
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await operator.close()


async def until(
    what: Callable[[], bool] | Callable[[], Awaitable[bool]], progress: Callable[[], str], within: float = PATIENCE
) -> float:
    """Wait for it, and say how it goes; the seconds that it took."""
    began = time.monotonic()
    while True:
        found = what()
        if not isinstance(found, bool):
            found = await found
        if found:
            return time.monotonic() - began
        if time.monotonic() - began > within:
            raise RuntimeError(f"not within {within:g} s: {progress()}")
        show_progress(progress())
        await asyncio.sleep(0.2)


def violations(records: list[Any], besides: str = "") -> list[str]:
    """What an auditor who knows nothing but bytes finds wrong with a ledger; `besides`: a subject of void records, which are nothing."""
    from tests.properties.auditor import Auditor

    older = "a record is older than the one before it"
    auditor = Auditor()
    for message in records:
        if message.subject == besides and message.sequence == auditor.sequence + 1:
            auditor.sequence = message.sequence
        else:
            auditor.read(message)
    return [one for one in auditor.violations if older not in one]
