"""The process: one fold that follows the ledger, and what is done with it beside everybody's work."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import structs

from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.audit.keeper import Keeper
from headrace.audit.pen import Pen
from headrace.audit.taking import EVERY, FACTS, FACTS_LEAST, Pace
from headrace.bus.jetstream import JetStreamLog
from headrace.bus.log import LogRefused
from headrace.bus.telemetry import gauge
from headrace.contracts.durations import DurationError, parse_duration
from headrace.contracts.subjects import LEDGER_STREAM
from headrace.service.answering import serve, status
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import Snapshots, beginning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.bus.process import Service
    from headrace.contracts.queries import ServiceView

SNAPSHOT_FACTS = "HEADRACE_SNAPSHOT_FACTS"
SNAPSHOT_EVERY = "HEADRACE_SNAPSHOT_EVERY"
"""The environment variables that say when a snapshot is taken: after so many facts (`200000`), or so long (`10m`)."""

NICE = 5
"""It stands behind whoever decides and answers."""


async def main(service: Service) -> None:
    """Run until cancelled."""
    pace = pace_of(os.environ)
    with suppress(OSError):
        os.nice(NICE)
    log = WholeLedger(JetStreamLog(service.connection, LEDGER_STREAM), service.data / ARCHIVE)
    snapshots = Snapshots.over(service.connection, log)
    state = await beginning(snapshots)
    facts = next((name.facts for name in await snapshots.names() if name.sequence == state.sequence), 0)
    fold = LedgerFold(state)
    keeper = Keeper(log, fold, snapshots, Pen(log), facts=facts, pace=pace)
    gauge(
        "headrace.snapshot.behind", "{record}", "records folded behind the last snapshot", lambda: fold.sequence - keeper.last
    )

    def told(_tenant: str, _user: str, _payload: bytes) -> ServiceView:
        view = status(service.name, fold)
        return structs.replace(view, detail=view.detail | {"snapshot": keeper.last, "snapshots_taken": keeper.taken})

    await serve(service.connection, service.name, fold, {"status": told})
    await keeper.run()


def pace_of(environment: Mapping[str, str]) -> Pace:
    """How often, as the environment says. Raises `LogRefused` for what it cannot mean."""
    facts, every = environment.get(SNAPSHOT_FACTS, ""), environment.get(SNAPSHOT_EVERY, "")
    if facts and not (facts.isascii() and facts.isdecimal() and int(facts)):
        raise LogRefused(f"{SNAPSHOT_FACTS}: {facts!r} is no number of facts; write one such as {FACTS}")
    try:
        span = parse_duration(every) if every else EVERY
    except DurationError as error:
        raise LogRefused(f"{SNAPSHOT_EVERY}: {error}") from None
    return Pace(int(facts) if facts else FACTS, span, FACTS_LEAST)
