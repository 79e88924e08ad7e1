"""The feed is killed (-9) again and again under load: for how long nobody is told anything, and whether anybody missed something.

Somebody hears all that FEED says of one tenant, from before the first kill until all is at rest; somebody else reads the ledger. In the
end every fact of a job that is in the ledger has been heard once, and in its order.
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
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from headrace.bus.log import Message
from headrace.client.watching import read_fact
from headrace.contracts.codec import decode_record
from headrace.contracts.implied import spelled_out
from headrace.feed.facts_out import OF_A_JOB
from tests.chaos.judging import read_ledger
from tests.chaos.load import Load
from tests.chaos.place import Place
from tests.chaos.watching import Watching

if TYPE_CHECKING:
    from nats.aio.msg import Msg

RATE = 5.0
PATIENCE = 60.0
APART = 3.0
REST = 120.0
SHOWN = 5


class Ear:
    """What FEED has said: each message's place in the ledger, in the order in which it came; and when the last one came."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int, str]] = []
        self.last = time.monotonic()
        self.silence = 0.0

    async def hear(self, message: Msg) -> None:
        """One message."""
        now = time.monotonic()
        self.silence, self.last = max(self.silence, now - self.last), now
        fact = read_fact(message.subject, message.data)
        if fact is not None and "job" in fact.fields and not fact.type.endswith(".feed"):
            self.heard.append((fact.sequence, fact.number, fact.type))

    async def until_newer(self, than: int) -> None:
        """Until it has told of a record behind this one."""
        async with asyncio.timeout(PATIENCE):
            while not (self.heard and self.heard[-1][0] > than):
                await asyncio.sleep(0.005)


def judged(heard: list[tuple[int, int, str]], messages: list[Message]) -> list[str]:
    """What was missed, told twice, or told in another order."""
    told = Counter((sequence, kind) for sequence, _, kind in heard)
    first = min((sequence for sequence, _, _ in heard), default=0)
    kinds = {kind.__struct_config__.tag for kind in OF_A_JOB}
    stated = Counter(
        (message.sequence, fact.__struct_config__.tag)
        for message in messages
        if message.sequence > first
        for _, fact in spelled_out(decode_record(message.payload).facts)
        if type(fact) in OF_A_JOB
    )
    missed = stated - told
    places = [(sequence, number) for sequence, number, _ in heard]
    found = [f"{missed.total()} facts were never told: {sorted(missed)[:SHOWN]}"] if missed else []
    found += [f"{len(places) - len(set(places))} messages came twice"] if len(set(places)) < len(places) else []
    found += ["messages came in another order"] if places != sorted(places) else []
    strange = [key for key in told if key[0] > first and key[1] in kinds and key not in stated]
    return found + ([f"told and not in the ledger: {strange[:SHOWN]}"] if strange else [])


async def measure(folder: Path, kills: int) -> dict[str, Any]:
    """Seconds without a word around each kill, and what was missed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    place, ear, silences, before = Place(folder), Ear(), list[float](), os.getloadavg()[0]
    place.prepare()
    try:
        await asyncio.to_thread(place.up)
        await asyncio.to_thread(place.govern)
        load = Load(place, random.Random("feed"), RATE)
        watching = Watching(place, load)
        bus = await place.operator()
        await bus.subscribe("hr.feed.default.>", cb=ear.hear, pending_msgs_limit=0, pending_bytes_limit=0)
        work = [asyncio.create_task(watching.follow()), asyncio.create_task(load.run())]
        await ear.until_newer(0)
        for number in range(1, kills + 1):
            await asyncio.sleep(APART)
            tip, ear.silence = await watching.tip(), 0.0
            place.signal("feed", signal.SIGKILL)
            await ear.until_newer(tip)
            silences.append(ear.silence)
            print(f"  kill {number} of {kills}: {ear.silence:.2f} s without a word", flush=True)
        work[1].cancel()
        deadline = time.monotonic() + REST
        while load.open and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        messages = await read_ledger(place)
        last = max(m.sequence for m in messages if any(type(fact) in OF_A_JOB for fact in decode_record(m.payload).facts))
        await ear.until_newer(last - 1)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await watching.close()
        await bus.close()
    finally:
        place.end(keep=False)
    return {
        "kills": kills,
        "silence_s": sorted(silences),
        "told": len(ear.heard),
        "violations": judged(ear.heard, messages) + ([f"{len(load.open)} jobs have not ended"] if load.open else []),
        "load": [before, os.getloadavg()[0]],
    }


def main() -> int:
    """1 where somebody missed something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-feed-", dir="/tmp"))
    folder.chmod(0o711)
    found = asyncio.run(measure(folder, options.kills))
    silences = found["silence_s"]
    print(
        f"feed  {found['kills']} kills: median {statistics.median(silences):.2f} s without a word, greatest {silences[-1]:.2f} s;"
        f" {found['told']} facts of jobs told, {len(found['violations'])} violations; load {found['load']}"
    )
    for violation in found["violations"]:
        print(f"    {violation}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2), encoding="utf-8")
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
