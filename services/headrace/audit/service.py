"""The process: one fold that follows the ledger, and the tasks beside it."""

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
from headrace.bus.niceness import AUDIT_NICE, lower_priority
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.contracts.values.durations import DurationError, parse_duration
from headrace.domain.fold.ledger import FoldedLedger
from headrace.service.answering import serve, status
from headrace.service.engine_version import ENGINE
from headrace.service.fold import LedgerFold
from headrace.service.follower_status import Following, watch_fold
from headrace.service.snapshots import Snapshots, beginning
from headrace.service.task_group import run_until_first_ends

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.bus.process import Service
    from headrace.contracts.messages.audit import VerifyReport
    from headrace.contracts.messages.queries import ServiceView
    from headrace.health.metrics import MetricSources

SNAPSHOT_FACTS = "HEADRACE_SNAPSHOT_FACTS"
SNAPSHOT_EVERY = "HEADRACE_SNAPSHOT_EVERY"
"""Environment variables for the time of a snapshot: after that many facts (`200000`), or that long (`10m`)."""

SEAL_EVERY = "HEADRACE_SEAL_EVERY"
"""Environment variable for the longest time that a record waits for its seal (`1m`)."""

ARCHIVE_EVERY, NEVER = "HEADRACE_ARCHIVE_EVERY", "off"
"""Environment variable for the longest time that a record waits for the archive (`1d`), or `off`."""

_log = structlog.get_logger("headrace.audit")


async def main(service: Service) -> None:
    """Run the service until cancelled."""
    policy = snapshot_policy(os.environ)
    lower_priority(AUDIT_NICE)
    stream = JetStreamLog(service.connection, LEDGER_STREAM)
    log = WholeLedger(stream, service.data / ARCHIVE)
    archiving = Archiving(stream, stream.now, log.archive, archive_every(os.environ))
    snapshots = Snapshots.over(service.connection, log)
    state = await beginning(snapshots)
    facts = await snapshots.facts_until(state.sequence)
    fold = LedgerFold(state)
    writer = LedgerWriter(log, lambda: fold.state.terms.level)
    snapshotter = Snapshotter(log, fold, snapshots, writer, facts=facts, policy=policy)
    watch = VerificationTask(
        log,
        writer,
        SealStore(service.data / SEALS),
        ENGINE,
        FoldedLedger(await beginning(snapshots)),
        every=seal_every(os.environ),
    )
    following = Following(lambda: fold.sequence, lambda: fold.state.now, log.tip, lambda: watch.is_caught_up)
    watch_fold(service.health, following, fold)
    measure(service.health.metrics, watch, snapshotter, log.archive)
    measure_archiving(service.health.metrics, archiving)

    def service_view(_tenant: str, _user: str, _payload: bytes) -> ServiceView:
        view = status(service.name, fold)
        snapshots_taken = {"snapshot": snapshotter.last, "snapshots_taken": snapshotter.taken}
        detail = view.detail | snapshots_taken | watch.detail(fold.sequence) | {"archive_every": archiving.every}
        return structs.replace(view, detail=detail, trouble=archiving.trouble)

    def verified(_tenant: str, _user: str, _payload: bytes) -> VerifyReport:
        return watch.report()

    await serve(service.connection, service.name, fold, {"status": service_view, "verified": verified})
    await run_until_first_ends(_keep(snapshotter), watch.run(), archiving.run())


async def _keep(snapshotter: Snapshotter) -> None:
    """Run the snapshots. A broken ledger ends them, but not the process, so that queries about it are answered."""
    try:
        await snapshotter.run()
    except LogBroken as error:
        _log.critical("no_more_snapshots", reason=str(error))
        await asyncio.Event().wait()


def measure(metrics: MetricSources, watch: VerificationTask, snapshotter: Snapshotter, archive: Path) -> None:
    """Declare the metrics of verification, of snapshots and of the archive: amounts, lag, and findings."""
    decisions, fold, verifier = watch.verifier.decisions, snapshotter.fold, watch.verifier
    metrics.counter("headrace_audit_records_total", "number of records verified", lambda: verifier.records)
    metrics.counter("headrace_audit_facts_total", "facts verified", lambda: 0 if decisions is None else decisions.facts)
    metrics.gauge("headrace_audit_behind_records", "number of records not verified yet", lambda: watch.behind(fold.sequence))
    metrics.gauge("headrace_audit_findings", "number of records and decisions that failed verification", lambda: watch.found)
    metrics.gauge("headrace_audit_unsealed_records", "number of records without a seal", lambda: len(verifier.seals.unsealed))
    metrics.gauge(
        "headrace_audit_seal_age_seconds", "seconds since the last seal, while records wait for one; else 0", watch.seal_age
    )
    metrics.counter("headrace_snapshots_taken_total", "snapshots taken", lambda: snapshotter.taken)
    metrics.gauge(
        "headrace_snapshot_behind_records",
        "number of records after the last snapshot",
        lambda: fold.sequence - snapshotter.last,
    )
    metrics.gauge("headrace_archive_behind_records", "records that are not archived", lambda: fold.sequence - through(archive))


def measure_archiving(metrics: MetricSources, archiving: Archiving) -> None:
    """Declare the metric for failures of archiving."""
    metrics.gauge(
        "headrace_archive_failing", "1 while records that are due cannot be archived", lambda: int(bool(archiving.trouble))
    )


def through(archive: Path) -> int:
    """The last record of an archive. Raises `ArchiveBroken`; then the metric is missing, for which an alert exists."""
    return manifest.read(archive).through


def seal_every(environment: Mapping[str, str]) -> int:
    """How long a record waits for its seal, from the environment, in microseconds. Raises `LogRefused` if malformed."""
    every = environment.get(SEAL_EVERY, "")
    try:
        return parse_duration(every) if every else EVERY_SEAL
    except DurationError as error:
        raise LogRefused(f"{SEAL_EVERY}: {error}") from None


def archive_every(environment: Mapping[str, str]) -> int:
    """How long a record waits for the archive, in microseconds, 0 without limit. Raises `LogRefused` if malformed."""
    every = environment.get(ARCHIVE_EVERY, "")
    if every == NEVER:
        return 0
    try:
        return parse_duration(every) if every else EVERY_ARCHIVE
    except DurationError as error:
        raise LogRefused(f"{ARCHIVE_EVERY}: {error}, or {NEVER}") from None


def snapshot_policy(environment: Mapping[str, str]) -> SnapshotPolicy:
    """The snapshot policy from the environment. Raises `LogRefused` if malformed."""
    facts, every = environment.get(SNAPSHOT_FACTS, ""), environment.get(SNAPSHOT_EVERY, "")
    if facts and not (facts.isascii() and facts.isdecimal() and int(facts)):
        raise LogRefused(f"{SNAPSHOT_FACTS}: {facts!r} is not a number of facts; write one such as {FACTS}")
    try:
        span = parse_duration(every) if every else EVERY
    except DurationError as error:
        raise LogRefused(f"{SNAPSHOT_EVERY}: {error}") from None
    return SnapshotPolicy(int(facts) if facts else FACTS, span, FACTS_LEAST)
