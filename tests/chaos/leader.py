"""Q3: the server that leads the ledger is killed (-9) again and again: how long until the others have agreed, and until we go on.

The stream is writable when its leader refuses an append that names a wrong last sequence: that writes nothing, and only a leader
answers so. From then until the next record is our part, and until the next grant. What comes once SUBMIT has a leader too counts from
then: before that there may be nothing to write. At the end everything is judged as in `make chaos`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from headrace.bus.log import LogError, WrongLast
from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.client.endpoint import read_login
from headrace.contracts.transport.subjects import LEDGER_STREAM, SUBMIT_STREAM, ledger, submit
from headrace.nats_client.connection import Connection
from tests.chaos.judging import judge
from tests.chaos.load import Load
from tests.chaos.place import SERVERS, Place
from tests.chaos.watching import Watching

NOWHERE = 2**53
"""A sequence that no record has."""
WHERE = ("default", "ann", "batch", "one")
"""A queue, to which nothing is submitted here."""
RATE = 5.0
PATIENCE = 90.0
APART = 3.0
"""Seconds between everything being well again and the next kill."""


class Probe:
    """Asks over a connection to each server whether a stream can be written: SUBMIT and the ledger each have their own leader."""

    def __init__(self, connections: Sequence[Connection], stream: str, subject: str) -> None:
        self._logs = [JetStreamLog(connection, stream, timeout=0.25) for connection in connections]
        self._stream, self._subject = stream, subject

    async def until_writable(self) -> int:
        """When it could be written first, microseconds."""
        asking = [asyncio.create_task(self._ask(log)) for log in self._logs]
        done, left = await asyncio.wait(asking, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        if not done:
            raise RuntimeError(f"{self._stream} cannot be written {PATIENCE:g} s after its leader was killed")
        return min(task.result() for task in done)

    async def _ask(self, log: JetStreamLog) -> int:
        while True:
            try:
                await log.append(self._subject, b"", NOWHERE)
            except WrongLast:
                return time.time_ns() // 1_000
            except LogError:
                await asyncio.sleep(0.01)


async def _until_three(watching: Watching) -> str:
    """Who leads, when the two others are there and have everything."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        rows = await watching.rows()
        if len(rows) == 3 and all(row["ledger"] != "away" and row["lag"] == 0 for row in rows.values()):
            return next(part for part, row in rows.items() if row["ledger"] == "leads")
        await asyncio.sleep(0.1)
    raise RuntimeError("the three servers do not come together")


async def measure(folder: Path, kills: int) -> dict[str, object]:
    """Seconds of each kill: until writable, from then to the next record and to the next grant; and the judgement."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    place = Place(folder)
    place.prepare()
    before = os.getloadavg()[0]
    try:
        await asyncio.to_thread(place.up)
        await asyncio.to_thread(place.govern)
        load = Load(place, random.Random("leader"), RATE)
        watching = Watching(place, load)
        login = read_login(place.data / "credentials" / "operator.json")
        urls = place.endpoint().split(",")
        connections = [await connect(url, login.name, login.password, name="probe") for url in urls]
        work = [asyncio.create_task(watching.follow()), asyncio.create_task(load.run())]
        await asyncio.sleep(5.0)
        elected: list[float] = []
        records: list[float] = []
        grants: list[float] = []
        for number in range(1, kills + 1):
            leader = await _until_three(watching)
            await asyncio.sleep(APART)
            left = [one for one, part in zip(connections, SERVERS, strict=True) if part != leader]
            probes = (Probe(left, LEDGER_STREAM, ledger("governance")), Probe(left, SUBMIT_STREAM, submit(*WHERE)))
            killed = time.time_ns() // 1_000
            place.signal(leader, signal.SIGKILL)
            writable, submits = await asyncio.gather(*(probe.until_writable() for probe in probes))
            elected.append((writable - killed) / 1e6)
            waited = max(0, submits - writable) / 1e6
            record, grant = await watching.until_written(writable, PATIENCE)
            records.append(record if record < waited else record - waited)
            grants.append(max(0.0, grant - waited))
            print(
                f"  kill {number} of {kills}: writable after {elected[-1]:.2f} s, record {record:.2f} s later; submits {waited:.2f} s"
                f" later, grant {grants[-1]:.2f} s after that",
                flush=True,
            )
        work[1].cancel()
        deadline = time.monotonic() + 120
        while load.open and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        verdict = await judge(place, load, watching, [])
        await watching.close()
        for connection in connections:
            await connection.close()
    finally:
        place.end(keep=False)
    return {
        "kills": kills,
        "elected_s": sorted(elected),
        "next_record_s": sorted(records),
        "next_grant_s": sorted(grants),
        "acknowledged": len(load.acknowledged),
        "lost": verdict.lost,
        "violations": verdict.violations,
        "load": [before, os.getloadavg()[0]],
    }


def main() -> int:
    """1 where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-leader-", dir="/tmp"))
    folder.chmod(0o711)
    found = asyncio.run(measure(folder, options.kills))
    for name, what in (("elected_s", "writable again"), ("next_record_s", "next record"), ("next_grant_s", "next grant")):
        seconds = found[name]
        assert isinstance(seconds, list)
        worst = seconds[min(len(seconds) - 1, -(-99 * len(seconds) // 100) - 1)]
        print(f"Q3  {what:<16} median {statistics.median(seconds):.2f} s, p99 {worst:.2f} s, greatest {seconds[-1]:.2f} s")
    violations = found["violations"]
    assert isinstance(violations, list)
    print(
        f"Q3  {found['kills']} kills, {found['acknowledged']} acknowledged, {found['lost']} lost, {len(violations)} violations"
    )
    for violation in violations[:10]:
        print(f"    {violation}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2), encoding="utf-8")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
