"""What a service's memory comes to over hours at a steady rate, and by what it is bounded: `python -m bench.growth`.

Virtual time: jobs come, run and end at 20 a second, and every record goes through the codec and the fold, as each service reads it; `audit`
through the verifier as well. Printed for each half hour: resident memory, jobs in the fold and ids that are remembered, in all and in
bytes for each job of that half hour. Ended jobs leave the fold after an hour (`ENDED_KEPT`) and their ids after 25 (`IDS_REMEMBERED`).
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.memory import BATCH, Stored, Tape, _resident
from bench.options import options
from headrace.audit.verify import LedgerVerifier
from headrace.audit.verify_watch import AT_ONCE
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.state.state import State

RATE = 20
LOOK_EVERY = 30 * MINUTE


def fold() -> tuple[Callable[[Stored], object], State]:
    """Any service."""
    reader = FoldedLedger()
    return reader.read, reader.state


def audit() -> tuple[Callable[[Stored], object], State]:
    """The verification of every record, beside the fold whose snapshots it takes."""
    reader, verifier = FoldedLedger(), LedgerVerifier("headrace/other")

    def take(message: Stored) -> None:
        reader.read(message)
        verifier.take([message])  # type: ignore[list-item]
        if verifier.decisions is not None:
            while verifier.decisions.fold_before(message.stamped, AT_ONCE):
                pass
        verifier.seals.came.clear()

    return take, reader.state


PARTS = {"fold": fold, "audit": audit}


def grow(part: str, hours: int) -> Iterator[dict[str, Any]]:
    """A row for each half hour of virtual time."""
    take, state = PARTS[part]()
    tape = Tape()
    for message in tape.law():
        take(message)
    gc.collect()
    start, looked, before, jobs = tape.now, tape.now, _resident(), 0
    for message in tape.lives(hours * 3_600 * RATE * 5, every=BATCH * SECOND // RATE):
        take(message)
        if tape.now - looked >= LOOK_EVERY:
            gc.collect()
            resident = _resident()
            yield {
                "part": part,
                "hours": round((tape.now - start) / HOUR, 1),
                "MiB": round(resident / 2**20, 1),
                "bytes_per_job": round((resident - before) / (tape.jobs - jobs)),
                "jobs": len(state.jobs),
                "ids": len(state.answered),
            }
            looked, before, jobs = tape.now, resident, tape.jobs


def main(part: str = "", hours: int = 3) -> None:
    """Print the rows, of one part or of all."""
    for name in [part] if part else PARTS:
        began = time.monotonic()
        for row in grow(name, hours):
            print(json.dumps(row), flush=True)
        print(f"# {name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    parser = options("bench.growth", __doc__, "10 minutes for a part and 3 hours of virtual time")
    parser.add_argument("part", nargs="?", choices=PARTS, help="the service (default: each in turn)")
    parser.add_argument("hours", type=int, nargs="?", default=3, help="of virtual time")
    asked = parser.parse_args()
    main(asked.part or "", asked.hours)
