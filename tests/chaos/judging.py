"""The judgement, when everything has come to rest: by the bytes of the records, by what jobs themselves saw, and by PostgreSQL.

Nothing of the product is believed: the ledger is read by the independent auditor, the books are added up by the independent bookkeeper,
and whether something ran twice is said by the kernel, whose locks the jobs held.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import psutil

from headrace.bus.log import Message
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.client import connect
from headrace.contracts.messages.usage import UsageRequest
from headrace.contracts.transport.subjects import LEDGER_STREAM
from tests.chaos.load import Load
from tests.chaos.place import Place
from tests.chaos.watching import ENDS, Watching
from tests.properties.bookkeeper import Bookkeeper
from tests.simulation.watch import Watch

FIELDS = ("tenant", "group", "user", "pool", "policy", "profile")
MEASURED = ("reserved", "borrowed", "idle", "suspended", "waiting", "lost")
SHOWN = 5


class Sweeping(Bookkeeper):
    """The bookkeeper, who looks in each piece of time only at what was there then: thousands of leases would keep it busy for hours."""

    def account(self, bounds: Sequence[int], fields: Sequence[str]) -> dict[Any, Any]:
        self._coming = deque(sorted(self.leases.items(), key=lambda item: item[1].granted))
        self._here: dict[Any, Any] = {}
        self._queue = deque(sorted(self._all_waits(), key=lambda wait: wait[1]))
        self._in_line: list[Any] = []
        return super().account(bounds, fields)

    def piece(self, found: Any, period: int, ends: int, moment: int, span: int, fields: Sequence[str]) -> None:
        while self._coming and self._coming[0][1].granted <= moment:
            key, lease = self._coming.popleft()
            self._here[key] = lease
        self._here = {key: lease for key, lease in self._here.items() if lease.ended is None or lease.ended > moment}
        while self._queue and self._queue[0][1] <= moment:
            self._in_line.append(self._queue.popleft())
        self._in_line = [wait for wait in self._in_line if wait[2] > moment]
        whole = self.leases, self.waits, self.jobs
        self.leases, self.waits, self.jobs = self._here, self._in_line, {}
        try:
            super().piece(found, period, ends, moment, span, fields)
        finally:
            self.leases, self.waits, self.jobs = whole


class Verdict:
    """`violations`: what must never be; `lost`: acknowledged jobs without one final state."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.lost = 0
        self.twice = 0
        self.records = 0
        self.facts = 0
        self.ends: Counter[str] = Counter()

    def wrong(self, what: str, found: object = None) -> None:
        """One more, with the first few of what was found."""
        shown = f": {sorted(map(str, found))[:SHOWN]}" if isinstance(found, (list, set, dict)) else ""
        self.violations.append(what + shown)


async def read_ledger(place: Place) -> list[Message]:
    """Every record, from the first."""
    bus = await place.operator()
    log = JetStreamLog(bus, LEDGER_STREAM)
    tip = await log.tip()
    reader = await log.read(0)
    messages: list[Message] = []
    while len(messages) < tip:
        messages += await reader.batch(wait=10.0)
    await reader.close()
    await bus.close()
    return messages


async def judge(place: Place, load: Load, watching: Watching, lost_parts: list[str]) -> Verdict:
    """All of it."""
    verdict = Verdict()
    verdict.violations += [*watching.troubles, *lost_parts, *load.wrong]
    messages = await read_ledger(place)
    _see_history(verdict, messages, watching)
    see_jobs(verdict, messages, load)
    see_rules(verdict, messages)
    await see_books(verdict, messages, place)
    _see_processes(verdict, place)
    verified = place.tried("audit", "verify", within=600.0)
    if verified.returncode:
        verdict.wrong(f"headrace audit verify: {verified.stdout.strip()[-600:]} {verified.stderr.strip()}")
    return verdict


def _see_history(verdict: Verdict, messages: list[Message], watching: Watching) -> None:
    """What was once read is what is there."""
    now = {message.sequence: blake2b(message.payload, digest_size=16).hexdigest() for message in messages}
    changed = [sequence for sequence, digest in watching.digests.items() if now.get(sequence) != digest]
    if changed:
        verdict.wrong("records that had been read are gone, or others", changed)


def see_jobs(verdict: Verdict, messages: list[Message], load: Load) -> None:
    """Every acknowledged submit has one final state, and the exit code that its process had."""
    ended: Counter[str] = Counter()
    wrong_exit: list[str] = []
    for message in messages:
        for fact in json.loads(message.payload)["facts"]:
            verdict.facts += 1
            if fact["type"] not in ENDS:
                continue
            ended[fact["job"]] += 1
            verdict.ends[fact.get("state") or fact["type"].removesuffix(".v1")] += 1
            code = fact.get("exit_code")
            if code is not None and code != load.acknowledged.get(fact["job"], code):
                wrong_exit.append(f"{fact['job']} {fact['state']} {fact['cause']} {code}")
    verdict.records = len(messages)
    lost = [job for job in load.acknowledged if not ended[job]]
    twice = [job for job, times in ended.items() if times > 1]
    verdict.lost, verdict.twice = len(lost), len(twice)
    for what, found in (
        ("acknowledged and in no final state", lost),
        ("ended more than once", twice),
        ("ended with an exit code that is not its own", wrong_exit),
    ):
        if found:
            verdict.wrong(f"{len(found)} jobs {what}", found)


def see_rules(verdict: Verdict, messages: list[Message]) -> None:
    """The independent auditor, on every record; and that nothing is held any more."""
    watch = Watch()
    for message in messages:
        watch.stored(message)
    watch.finish()
    verdict.violations += watch.violations
    if watch.auditor.leases:
        verdict.wrong("leases that have not ended", set(watch.auditor.leases))
    if watch.void:
        verdict.wrong("records that are void", watch.void)


async def see_books(verdict: Verdict, messages: list[Message], place: Place) -> None:
    """What PostgreSQL says, line by line, is the sum of the bytes of the records alone."""
    keeper = Sweeping().read_all(messages)
    since, until = keeper.first - 1, keeper.now
    async with connect(data=place.data) as client:
        question = UsageRequest(since=since, until=until, by=FIELDS)
        pages = [page async for page in client.usage(question)]
    ours = {
        (tuple(row.group[field] for field in FIELDS), row.key): tuple(int(getattr(row, name)) for name in MEASURED)
        for page in pages
        for row in page.rows
    }
    recounted: dict[Any, Any] = keeper.account([since, until], FIELDS)
    theirs = {(names, key): tuple(int(line[name]) for name in MEASURED) for (_, names, key), line in recounted.items()}
    differing = [f"{place}: books {ours.get(place)}, bookkeeper {theirs.get(place)}" for place in ours | theirs]
    differing = [line for line, place in zip(differing, ours | theirs, strict=True) if ours.get(place) != theirs.get(place)]
    if differing:
        verdict.wrong(f"{len(differing)} lines of the books are not what adds up", differing)


def _see_processes(verdict: Verdict, place: Place) -> None:
    """No job runs any more, none ran twice, and none found a device of its own held by another."""
    for file, what in (("ran-twice", "attempts ran twice"), ("held-twice", "devices were held by two processes")):
        path = place.witness / file
        if path.exists():
            verdict.wrong(what, path.read_text().splitlines())
    running = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("WITNESS") == str(place.witness):
                running.append(f"{process.pid} {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    if running:
        verdict.wrong("jobs that have ended still run", running)


def logs_of(place: Place) -> list[str]:
    """What parts said that only a person can help with."""
    found = []
    for path in sorted(Path(place.data / "logs").glob("*.log")):
        with path.open(errors="replace") as file:
            found += [f"{path.stem}: {line.strip()[:400]}" for line in file if '"log_broken"' in line or "Traceback" in line]
    return found
