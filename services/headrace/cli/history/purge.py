"""`headrace archive purge`: removes records from the stream that are archived, verified, read by all, and covered by a snapshot."""

from __future__ import annotations

import argparse
import logging
import os
import time
from pathlib import Path

import structlog

from headrace.archive import manifest as manifests
from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.archive.retention import RetentionStatus, objections
from headrace.bus.log import LogError
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.permissions import SERVICES
from headrace.cli.arguments import Failed, Nouns, add_command, add_data_option, add_json, positive, span
from headrace.cli.output.formatting import as_json
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.contracts.transport.tls import CA
from headrace.contracts.values.durations import DAY, format_duration
from headrace.service.snapshots import Snapshots
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import read_running
from headrace.supervisor.processes.readiness import Inspector

KEEP = 90 * DAY


def add_purge(verbs: Nouns) -> None:
    """Add `headrace archive purge`."""
    verb = add_command(
        verbs,
        "purge",
        purge_stream,
        "remove old records that are archived from the stream; refused, with every reason, if something still needs one of them",
        """headrace archive purge --keep 90d --dry-run       show up to which record, and what prevents it
        headrace archive purge --keep 90d
        headrace archive purge --through 81234

        A record is removed only if the archive has the same bytes, every service and reader has read it, and a snapshot of the state covers
        it. The last record of each writer is kept. Commands still read the whole history: from the archive, then from the stream.""",
    )
    what = verb.add_mutually_exclusive_group()
    what.add_argument(
        "--keep", type=span, default=KEEP, metavar="SPAN", help="keep records that are younger than this (default: 90d)"
    )
    what.add_argument("--through", type=positive, metavar="RECORD", help="remove the records up to this one")
    verb.add_argument("--dry-run", action="store_true", help="show what would be removed, and remove nothing")
    add_data_option(verb)
    add_json(verb)


async def purge_stream(args: argparse.Namespace) -> int:
    """Purge the stream. The installation must be up, because its services report how far they have read."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    installation = Installation(args.data)
    running = read_running(installation)
    if running is None or not running.ready:
        raise Failed(
            f"Headrace is not up in {installation.directory}, so its readers cannot be asked what they have read; `headrace up` starts it"
        )
    tls = installation.certificates()
    if tls is not None and tls.ca:
        os.environ.setdefault(CA, tls.ca)
    try:
        inspector = await Inspector.open(running.url, installation.operator())
        try:
            return await _purge(args, inspector, installation.directory / ARCHIVE)
        finally:
            await inspector.close()
    except LogError as error:
        raise Failed(str(error)) from None


async def _purge(args: argparse.Namespace, inspector: Inspector, archive: Path) -> int:
    from headrace.archive.purge import last_before, purge  # noqa: PLC0415 - the archive's libraries take half a second

    log = JetStreamLog(inspector.core, LEDGER_STREAM)
    manifest = manifests.read(archive)
    through = args.through or await last_before(log, time.time_ns() // 1_000 - args.keep)
    if through <= manifest.purged:
        why = f"nothing in it is older than {format_duration(args.keep)}" if not args.through else "those are removed already"
        return _progress(
            args, f"nothing to remove: the stream begins after record {manifest.purged}, and {why}", manifest.purged
        )
    against = objections(through, await _standing(inspector, log, manifest.through, archive))
    if against:
        raise Failed(f"records up to {through} cannot be removed: " + "; ".join(against))
    if args.dry_run:
        return _progress(args, f"records {manifest.purged + 1} to {through} would be removed from the stream", manifest.purged)
    await purge(inspector.core, LEDGER_STREAM, archive, through, lambda _record, _last: None)
    return _progress(args, f"records {manifest.purged + 1} to {through} are now only in the archive", through)


async def _standing(inspector: Inspector, log: JetStreamLog, archived: int, archive: Path) -> RetentionStatus:
    from headrace.archive.purge import readers  # noqa: PLC0415 - see `_purge`

    found: dict[str, int | None] = dict(await readers(inspector.core, LEDGER_STREAM))
    for service in SERVICES:
        found[service] = await inspector.folded(service)
    covering = await Snapshots.over(inspector.core, WholeLedger(log, archive)).newest()
    return RetentionStatus(await log.tip(), archived, found, None if covering is None else covering.sequence)


def _progress(args: argparse.Namespace, text: str, purged: int) -> int:
    print(as_json({"purged": purged, "dry_run": args.dry_run}) if args.json else text)
    return 0
