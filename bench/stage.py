"""An installation with a fleet to play a scenario on, and every job's story from its ledger.

What is measured is read from the ledger, in the times that nodes and server wrote down; while a scenario runs, the counts of the queues
are read now and then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.fleet import Group
from bench.installation import cpu_seconds, installation
from headrace.bus.nats.connection import connect as connect_bus
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.client import connect
from headrace.client.client import Client
from headrace.client.endpoint import read_login
from headrace.contracts.facts import (
    AnyFact,
    JobAdmittedV1,
    JobEndedV1,
    JobRejectedV1,
    LeaseEndedV1,
    LeaseGrantedV1,
    LeaseRungV1,
    LeaseStartedV1,
    PreemptionOrderedV1,
)
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.messages.usage import UsageRequest
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.supervisor.installation import Installation
from headrace.supervisor.service_query import ask_service, operator_client

LOOK_EVERY = 0.25
PATIENCE = 900.0


@dataclass(slots=True)
class Story:
    """What befell one job, microseconds since 1970 (0: it did not). `spans`: from start to end of every replica of every attempt."""

    admitted: int = 0
    rejected: int = 0
    granted: int = 0
    started: int = 0
    notified: int = 0
    ended: int = 0
    starts: int = 0
    result: str = ""
    spans: list[tuple[int, int]] = field(default_factory=list)


class Stories:
    """Every job's story, by key, folded from facts."""

    def __init__(self) -> None:
        self.jobs: dict[str, Story] = {}
        self.facts = 0
        self.started = 0
        """Replicas that have."""
        self.ended = 0
        """Jobs that have."""
        self.orders: list[int] = []
        """When each preemption was stored as ordered."""
        self.notified: list[int] = []
        """When each node told a job to leave."""
        self._running: dict[str, int] = {}

    def of(self, job: str) -> Story:
        """A job's."""
        return self.jobs.get(job) or self.jobs.setdefault(job, Story())

    def take(self, fact: AnyFact, stamped: int) -> None:
        """One more fact, stored at that time."""
        self.facts += 1
        match fact:
            case JobAdmittedV1():
                self.of(fact.job).admitted = stamped
            case JobRejectedV1():
                story = self.of(fact.job)
                story.rejected, story.result = stamped, fact.reason
            case LeaseGrantedV1():
                story = self.of(fact.job)
                story.granted = story.granted or stamped
            case LeaseStartedV1():
                self._started(fact)
            case LeaseRungV1() if fact.rung == "told":
                self.of(fact.job).notified = fact.at
                self.notified.append(fact.at)
            case LeaseEndedV1():
                story = self.of(fact.job)
                began = self._running.pop(f"{fact.job}/{fact.rank}", 0)
                if began:
                    story.spans.append((began, fact.exited_at))
            case PreemptionOrderedV1():
                self.orders.append(stamped)
            case JobEndedV1():
                story = self.of(fact.job)
                story.ended, story.result = stamped, fact.state
                self.ended += 1

    def _started(self, fact: LeaseStartedV1) -> None:
        story = self.of(fact.job)
        story.started = story.started or fact.at
        story.starts += 1
        self.started += 1
        self._running[f"{fact.job}/{fact.rank}"] = fact.at


class Stage:
    """One installation while a scenario is played on it."""

    def __init__(self, folder: Path, client: Client, log: JetStreamLog) -> None:
        self.folder, self.client, self._log = folder, client, log
        self.stories = Stories()
        self._position = 0

    async def fresh(self) -> None:
        """What is in the ledger up to now is of no interest any more."""
        self._position, self.stories = await self._log.tip(), Stories()

    async def read(self) -> Stories:
        """Every job's story, now that all is over."""
        tip = await self._log.tip()
        return await self.follow_until(lambda _stories: self._position >= tip, "reading the ledger")

    async def follow_until(self, is_enough: Callable[[Stories], bool], what: str) -> Stories:
        """Follow the ledger until it has told enough."""
        deadline = time.monotonic() + PATIENCE
        reader = await self._log.read(self._position)
        try:
            while not is_enough(self.stories):
                for message in await reader.batch(wait=1.0):
                    self._position = message.sequence
                    for _, fact in with_implied_facts(decode_record(message.payload).facts):
                        self.stories.take(fact, message.stamped)
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{what}: it has not come to that in {PATIENCE:.0f} s")
        finally:
            await reader.close()
        return self.stories

    async def left(self) -> tuple[int, int]:
        """(pending, running) jobs."""
        queues = await self.client.queues()
        return sum(queue.pending for queue in queues), sum(queue.running for queue in queues)

    async def until(self, pending: int, running: int, what: str = "", of: int = 0) -> None:
        """Wait until exactly this number of jobs wait and run."""
        deadline = time.monotonic() + PATIENCE
        while (found := await self.left()) != (pending, running):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: {found[0]} wait and {found[1]} run, it was to be {pending} and {running}")
            progress(f"{what}: {found[0]:,} wait, {found[1]:,} run{f', of {of:,}' if of else ''}")
            await asyncio.sleep(LOOK_EVERY)
        done()

    async def until_booked(self) -> int:
        """Until the books are as far as the ledger is now; how many jobs they hold."""
        return await booked(self.folder, self.client, await self._log.tip())

    def cpu(self) -> dict[str, float]:
        """CPU-seconds of each part so far."""
        return cpu_seconds(self.folder)


@asynccontextmanager
async def stage(groups: Sequence[Group], *documents: str, user: str = "bench") -> AsyncIterator[Stage]:
    """A stage with these nodes and documents; it is gone afterwards."""
    progress("an installation is started")
    with installation(0, groups=groups, documents=documents) as folder:
        home = Installation(folder)
        operator = read_login(home.credentials / "operator.json")
        url = json.loads(home.endpoint.read_text("utf-8"))["url"]
        bus = await connect_bus(url, operator.name, operator.password)
        try:
            async with connect(data=folder, user=user) as client:
                here = Stage(folder, client, JetStreamLog(bus, LEDGER_STREAM))
                await here.fresh()
                done()
                yield here
        finally:
            await bus.close()


async def booked(folder: Path, client: Client, tip: int) -> int:
    """How many jobs have used a GPU, by books that are as far as the record `tip`.

    How far they are, the service knows; what was used is asked once, because PostgreSQL counts all jobs there are for an answer.
    """
    async with operator_client(Installation(folder)) as operator:
        while (view := await ask_service(operator, "accounting", 30.0)) is None or view.folded < tip:
            await asyncio.sleep(0.02)
    pages = [page async for page in client.usage(UsageRequest(by=("tenant",)))]
    return sum(row.jobs for page in pages for row in page.rows if row.key == "gpu")


def spent(before: dict[str, float], after: dict[str, float], jobs: int) -> dict[str, float]:
    """CPU-seconds for 1,000 jobs, by part."""
    return {name: round(1_000 * (cpu - before.get(name, 0.0)) / max(1, jobs), 3) for name, cpu in after.items()}


def quantile(values: Iterable[float], part: float) -> float:
    """The value that so great a part of them does not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def progress(what: str) -> None:
    """What is being measured, for who waits: on a terminal in one line that is written over, else line by line; apart from the figures."""
    is_terminal = sys.stderr.isatty()
    print(f"\r\x1b[K  {what}" if is_terminal else f"  {what}", end="" if is_terminal else "\n", file=sys.stderr, flush=True)


def done() -> None:
    """Nothing is being measured: a line of figures follows."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


Run = dict[str, Any]
"""The figures of one run, by name."""


def perform(
    parser: argparse.ArgumentParser,
    conditions: str,
    play: Callable[[argparse.Namespace], Awaitable[Run]],
    show: Callable[[argparse.Namespace, list[Run]], None],
) -> None:
    """Play a scenario as often as the command line asks, show what it took, and write it down where the command line says.

    `conditions`: what a reader of the figures has to know.
    """
    parser.add_argument("--runs", type=int, default=1, help="how often it is played")
    parser.add_argument("--json", type=Path, help="write the figures into this file as well")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; {conditions}")
    runs = [asyncio.run(play(arguments)) for _ in range(arguments.runs)]
    done()
    show(arguments, runs)
    if arguments.json:
        arguments.json.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")
