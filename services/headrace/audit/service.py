"""The process: one fold that follows the ledger, and what is done with it beside everybody's work."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import structlog
from msgspec import structs

from headrace.archive import manifest
from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.audit.archiving import EVERY as EVERY_ARCHIVE
from headrace.audit.archiving import Archiving
from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.seal_store import SEALS, SealStore
from headrace.audit.snapshot_policy import EVERY, FACTS, FACTS_LEAST, SnapshotPolicy
from headrace.audit.snapshotter import Snapshotter
from headrace.audit.verify_watch import SEAL_EVERY as EVERY_SEAL
from headrace.audit.verify_watch import VerificationTask
from headrace.bus.log import LogBroken, LogRefused
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.niceness import AUDIT_NICE, stand_behind
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.contracts.values.durations import DurationError, parse_duration
from headrace.domain.fold.ledger import FoldedLedger
from headrace.service.answering import serve, status
from headrace.service.engine_version import ENGINE
from headrace.service.fold import LedgerFold
from headrace.service.follower_status import Following, watch_fold
from headrace.service.snapshots import Snapshots, beginning
from headrace.service.task_group import together

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.bus.process import Service
    from headrace.contracts.messages.audit import VerifyReport
    from headrace.contracts.messages.queries import ServiceView
    from headrace.health.metrics import Figures

SNAPSHOT_FACTS = "HEADRACE_SNAPSHOT_FACTS"
SNAPSHOT_EVERY = "HEADRACE_SNAPSHOT_EVERY"
"""The environment variables that say when a snapshot is taken: after so many facts (`200000`), or so long (`10m`)."""

SEAL_EVERY = "HEADRACE_SEAL_EVERY"
"""The environment variable that says how long a record waits for its seal at most (`1m`)."""

ARCHIVE_EVERY, NEVER = "HEADRACE_ARCHIVE_EVERY", "off"
"""The environment variable that says how long a record waits for the archive at most (`1d`), or that nothing is archived by itself."""

_log = structlog.get_logger("headrace.audit")


async def main(service: Service) -> None:
    """Run until cancelled."""
    pace = pace_of(os.environ)
    stand_behind(AUDIT_NICE)
    stream = JetStreamLog(service.connection, LEDGER_STREAM)
    log = WholeLedger(stream, service.data / ARCHIVE)
    archiving = Archiving(stream, stream.now, log.archive, archive_every(os.environ))
    snapshots = Snapshots.over(service.connection, log)
    state = await beginning(snapshots)
    facts = await snapshots.facts_until(state.sequence)
    fold = LedgerFold(state)
    pen = LedgerWriter(log, lambda: fold.state.terms.level)
    keeper = Snapshotter(log, fold, snapshots, pen, facts=facts, pace=pace)
    watch = VerificationTask(
        log,
        pen,
        SealStore(service.data / SEALS),
        ENGINE,
        FoldedLedger(await beginning(snapshots)),
        every=seal_every(os.environ),
    )
    following = Following(lambda: fold.sequence, lambda: fold.state.now, log.tip, lambda: watch.is_caught_up)
    watch_fold(service.health, following, fold)
    measure(service.health.figures, watch, keeper, log.archive)
    measure_archiving(service.health.figures, archiving)

    def told(_tenant: str, _user: str, _payload: bytes) -> ServiceView:
        view = status(service.name, fold)
        snapshots_taken = {"snapshot": keeper.last, "snapshots_taken": keeper.taken}
        detail = view.detail | snapshots_taken | watch.detail(fold.sequence) | {"archive_every": archiving.every}
        return structs.replace(view, detail=detail, trouble=archiving.trouble)

    def verified(_tenant: str, _user: str, _payload: bytes) -> VerifyReport:
        return watch.report()

    await serve(service.connection, service.name, fold, {"status": told, "verified": verified})
    await together(_keep(keeper), watch.run(), archiving.run())


async def _keep(keeper: Snapshotter) -> None:
    """A broken ledger ends the snapshots, and not the process: who asks what is wrong is to be answered."""
    try:
        await keeper.run()
    except LogBroken as error:
        _log.critical("no_more_snapshots", reason=str(error))
        await asyncio.Event().wait()


def measure(figures: Figures, watch: VerificationTask, keeper: Snapshotter, archive: Path) -> None:
    """The figures of verification, of snapshots and of the archive: how much was looked at, how far that is behind, what was found."""
    decisions, fold, verifier = watch.verifier.decisions, keeper.fold, watch.verifier
    figures.counter("headrace_audit_records_total", "records looked at", lambda: verifier.records)
    figures.counter("headrace_audit_facts_total", "facts verified", lambda: 0 if decisions is None else decisions.facts)
    figures.gauge("headrace_audit_behind_records", "records not looked at yet", lambda: watch.behind(fold.sequence))
    figures.gauge("headrace_audit_findings", "what is not as it was written or decided", lambda: watch.found)
    figures.gauge("headrace_audit_unsealed_records", "records under no seal yet", lambda: len(verifier.seals.unsealed))
    figures.gauge("headrace_audit_seal_age_seconds", "since the last seal, while records wait for one", watch.seal_age)
    figures.counter("headrace_snapshots_taken_total", "snapshots taken", lambda: keeper.taken)
    figures.gauge("headrace_snapshot_behind_records", "records behind the last snapshot", lambda: fold.sequence - keeper.last)
    figures.gauge("headrace_archive_behind_records", "records that are not archived", lambda: fold.sequence - through(archive))


def measure_archiving(figures: Figures, archiving: Archiving) -> None:
    """Whether the archive is brought up to date by itself."""
    figures.gauge("headrace_archive_failing", "1 while what waits cannot be archived", lambda: int(bool(archiving.trouble)))


def through(archive: Path) -> int:
    """The last record that an archive has; raises `ArchiveBroken`, and then the figure is missing, which is an alert of its own."""
    return manifest.read(archive).through


def seal_every(environment: Mapping[str, str]) -> int:
    """How long a record waits for its seal, as the environment says, in microseconds. Raises `LogRefused` for what it cannot mean."""
    every = environment.get(SEAL_EVERY, "")
    try:
        return parse_duration(every) if every else EVERY_SEAL
    except DurationError as error:
        raise LogRefused(f"{SEAL_EVERY}: {error}") from None


def archive_every(environment: Mapping[str, str]) -> int:
    """How long a record waits for the archive, in microseconds, 0 for ever. Raises `LogRefused` for what it cannot mean."""
    every = environment.get(ARCHIVE_EVERY, "")
    if every == NEVER:
        return 0
    try:
        return parse_duration(every) if every else EVERY_ARCHIVE
    except DurationError as error:
        raise LogRefused(f"{ARCHIVE_EVERY}: {error}, or {NEVER}") from None


def pace_of(environment: Mapping[str, str]) -> SnapshotPolicy:
    """How often, as the environment says. Raises `LogRefused` for what it cannot mean."""
    facts, every = environment.get(SNAPSHOT_FACTS, ""), environment.get(SNAPSHOT_EVERY, "")
    if facts and not (facts.isascii() and facts.isdecimal() and int(facts)):
        raise LogRefused(f"{SNAPSHOT_FACTS}: {facts!r} is no number of facts; write one such as {FACTS}")
    try:
        span = parse_duration(every) if every else EVERY
    except DurationError as error:
        raise LogRefused(f"{SNAPSHOT_EVERY}: {error}") from None
    return SnapshotPolicy(int(facts) if facts else FACTS, span, FACTS_LEAST)
