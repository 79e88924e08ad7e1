"""The process: one fold that follows the ledger, and what is done with it beside everybody's work."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
from msgspec import structs

from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.audit.keeper import Keeper
from headrace.audit.pen import Pen
from headrace.audit.seals_kept import SEALS, Kept
from headrace.audit.taking import EVERY, FACTS, FACTS_LEAST, Pace
from headrace.audit.verify_watch import SEAL_EVERY as EVERY_SEAL
from headrace.audit.verify_watch import Watch
from headrace.bus.jetstream import JetStreamLog
from headrace.bus.log import LogBroken, LogRefused
from headrace.bus.telemetry import gauge
from headrace.contracts.durations import DurationError, parse_duration
from headrace.contracts.subjects import LEDGER_STREAM
from headrace.domain.fold.ledger import Ledger
from headrace.service.answering import serve, status
from headrace.service.engine import ENGINE
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import Snapshots, beginning
from headrace.service.together import together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.bus.process import Service
    from headrace.contracts.audit import VerifyReport
    from headrace.contracts.queries import ServiceView

SNAPSHOT_FACTS = "HEADRACE_SNAPSHOT_FACTS"
SNAPSHOT_EVERY = "HEADRACE_SNAPSHOT_EVERY"
"""The environment variables that say when a snapshot is taken: after so many facts (`200000`), or so long (`10m`)."""

SEAL_EVERY = "HEADRACE_SEAL_EVERY"
"""The environment variable that says how long a record waits for its seal at most (`1m`)."""

NICE = 10
"""It stands behind whoever decides and answers: on a machine that has too much to do it gets a tenth of what they get."""

_log = structlog.get_logger("headrace.audit")


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
    pen = Pen(log)
    keeper = Keeper(log, fold, snapshots, pen, facts=facts, pace=pace)
    watch = Watch(
        log, pen, Kept(service.data / SEALS), ENGINE, Ledger(await beginning(snapshots)), every=seal_every(os.environ)
    )
    measure(watch, fold)
    gauge(
        "headrace.snapshot.behind", "{record}", "records folded behind the last snapshot", lambda: fold.sequence - keeper.last
    )

    def told(_tenant: str, _user: str, _payload: bytes) -> ServiceView:
        view = status(service.name, fold)
        snapshots_taken = {"snapshot": keeper.last, "snapshots_taken": keeper.taken}
        return structs.replace(view, detail=view.detail | snapshots_taken | watch.detail(fold.sequence))

    def verified(_tenant: str, _user: str, _payload: bytes) -> VerifyReport:
        return watch.report()

    await serve(service.connection, service.name, fold, {"status": told, "verified": verified})
    await together(_keep(keeper), watch.run())


async def _keep(keeper: Keeper) -> None:
    """A broken ledger ends the snapshots, and not the process: who asks what is wrong is to be answered."""
    try:
        await keeper.run()
    except LogBroken as error:
        _log.critical("no_more_snapshots", reason=str(error))
        await asyncio.Event().wait()


def measure(watch: Watch, fold: LedgerFold) -> None:
    """The figures of verification: what was looked at, how far that is behind, and what was found."""
    decisions = watch.verifier.decisions
    gauge("headrace.audit.records", "{record}", "records looked at", lambda: watch.verifier.records)
    gauge("headrace.audit.facts", "{fact}", "facts verified", lambda: 0 if decisions is None else decisions.facts)
    gauge("headrace.audit.behind", "{record}", "records not looked at yet", lambda: watch.behind(fold.sequence))
    gauge("headrace.audit.findings", "{finding}", "what is not as it was written or decided", lambda: watch.found)
    gauge("headrace.audit.unsealed", "{record}", "records under no seal yet", lambda: len(watch.verifier.seals.unsealed))


def seal_every(environment: Mapping[str, str]) -> int:
    """How long a record waits for its seal, as the environment says, in microseconds. Raises `LogRefused` for what it cannot mean."""
    every = environment.get(SEAL_EVERY, "")
    try:
        return parse_duration(every) if every else EVERY_SEAL
    except DurationError as error:
        raise LogRefused(f"{SEAL_EVERY}: {error}") from None


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
