"""`headrace audit export` and `headrace archive`: the ledger as Parquet files, their checks, and how far they reach."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from headrace.archive import manifest as manifests
from headrace.archive.history import ARCHIVE
from headrace.archive.manifest import Manifest
from headrace.bus.log import LogError
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_data_option, add_json
from headrace.cli.history.purge import add_purge
from headrace.cli.output.formatting import as_json
from headrace.cli.output.service_status import count_in
from headrace.cli.output.tables import table
from headrace.cli.output.terminal import progress
from headrace.client import HeadraceError
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.contracts.values.durations import format_duration
from headrace.supervisor.directories import CLUSTER_FILE
from headrace.supervisor.installation import Installation
from headrace.supervisor.nats.store import open_store
from headrace.supervisor.processes.pidfile import AlreadyRunning, read_running
from headrace.supervisor.processes.readiness import NotReady
from headrace.supervisor.service_query import ask_service, operator_client

ANSWER_WITHIN = 2.0
"""Timeout of a status query in seconds."""


def add(nouns: Nouns) -> None:
    family = add_command(
        nouns, "archive", _nothing, "show, check and purge what is archived of the ledger", "headrace archive check"
    )
    verbs = family.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    verb = add_command(
        verbs,
        "status",
        status,
        "print which months and records the archive has, and when newer records are archived",
        "headrace archive status --json",
    )
    _add_archive_options(verb)
    add_purge(verbs)
    verb = add_command(
        verbs,
        "check",
        check,
        "read the whole archive and report what is missing, truncated or changed; exit code 1 if anything is",
        "headrace archive check\nheadrace archive check --archive /mnt/vault/headrace",
    )
    _add_archive_options(verb)


def add_export(verbs: Nouns) -> None:
    """Add `headrace audit export`."""
    verb = add_command(
        verbs,
        "export",
        export,
        "archive all records that are not archived yet, byte for byte, as Parquet files by month; each file is read back and compared",
        """headrace audit export                                        into DATA/archive, which the installation reads itself
        headrace audit export --archive /mnt/vault/headrace          a second copy in another place
        duckdb -c "SELECT time, writer, unnest(kinds) AS kind FROM '~/.local/share/headrace/archive/ledger/*/*.parquet'"

        Only records that are not archived yet are written. The installation archives by itself once a record has waited for a day
        (HEADRACE_ARCHIVE_EVERY, such as 6h, or off).""",
    )
    _add_archive_options(verb)


def _add_archive_options(verb: Parser) -> None:
    verb.add_argument("--archive", metavar="DIR", help="the archive's directory (default: DATA/archive)")
    add_data_option(verb)
    add_json(verb)


def _nothing(args: argparse.Namespace) -> int:
    raise AssertionError(args)


def archive_directory(args: argparse.Namespace) -> Path:
    """Directory of `--archive`, or else of the installation's own archive."""
    return Path(args.archive).expanduser().absolute() if args.archive else Installation(args.data).directory / ARCHIVE


def progress_of(what: str) -> Callable[[int, int], None]:
    """A function that shows progress on one line of standard error if that is a terminal."""

    def show_progress(record: int, last: int) -> None:
        if sys.stderr.isatty():
            progress(f"{what}: record {record} of {last}")

    return show_progress


async def export(args: argparse.Namespace) -> int:
    """Archive what is new. After an interruption the next call continues."""
    from headrace.archive.export import export as bring_up_to_date  # noqa: PLC0415 - the import takes half a second, which other commands do not need

    directory = archive_directory(args)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        async with open_store(Installation(args.data)) as connection:
            before = manifests.read(directory).through
            manifest = await bring_up_to_date(JetStreamLog(connection, LEDGER_STREAM), directory, progress_of("archived"))
    except (LogError, NotReady, AlreadyRunning) as error:
        raise Failed(str(error)) from None
    if args.json:
        print(as_json(_summary(directory, manifest) | {"before": before}))
    elif manifest.through == before:
        print(f"nothing to archive: {directory} has every record up to {manifest.through}")
    else:
        print(f"records {before + 1} to {manifest.through} are archived and verified in {directory}")
    return 0


async def status(args: argparse.Namespace) -> int:
    """Print the contents of the archive's manifest and, for the installation's own archive, what *audit* reports if it is up."""
    directory = archive_directory(args)
    manifest = _read(directory)
    view = None if args.archive else await _asked(Installation(args.data))
    if args.json:
        more = {} if view is None else {"behind": max(0, view.folded - manifest.through), "trouble": view.trouble}
        every = {} if view is None else {"every": count_in(view.detail.get("archive_every"))}
        print(as_json(_summary(directory, manifest) | more | every))
    elif not manifest.pieces:
        print(f"No archive in {directory}: `headrace audit export` makes one.")
    else:
        print(table(("MONTH", "FILES", "FROM", "THROUGH", "BYTES"), (list(row.values()) for row in _months(manifest))))
        print(
            f"\n{directory}; purged from the stream: " + (f"records 1 to {manifest.purged}" if manifest.purged else "nothing")
        )
    if view is not None and not args.json:
        print(by_itself(view, manifest.through))
    if view is not None and view.trouble:
        raise Failed(view.trouble)
    return 0


async def _asked(installation: Installation) -> ServiceView | None:
    """Status of *audit*; None if it does not answer."""
    if read_running(installation) is None and not (installation.directory / CLUSTER_FILE).exists():
        return None
    try:
        async with operator_client(installation) as asking:
            return await ask_service(asking, "audit")
    except HeadraceError:
        return None


def by_itself(view: ServiceView, through: int) -> str:
    """How many records an archive that ends with record `through` lacks, and when they will be archived."""
    behind, every = max(0, view.folded - through), count_in(view.detail.get("archive_every"))
    what = f"{behind} records are only in the stream; "
    if not every:
        return what + "nothing is archived automatically (HEADRACE_ARCHIVE_EVERY)"
    return what + f"they are archived once one has waited for {format_duration(every)}"


async def check(args: argparse.Namespace) -> int:
    """Read the whole archive and print what is damaged."""
    from headrace.archive.check import check as check_archive  # noqa: PLC0415 - see `export`

    directory = archive_directory(args)
    try:
        manifest, troubles = await asyncio.to_thread(check_archive, directory, progress_of("read"))
    except LogError as error:
        raise Failed(str(error)) from None
    if not manifest.pieces and not troubles:
        raise Failed(f"no archive in {directory}: `headrace audit export` makes one")
    if args.json:
        print(as_json(_summary(directory, manifest) | {"troubles": troubles}))
    elif not troubles:
        print(f"{directory}: {len(manifest.pieces)} files with records 1 to {manifest.through}, all as they were written")
    if troubles:
        raise Failed("\nheadrace: ".join(troubles))
    return 0


def _read(directory: Path) -> Manifest:
    try:
        return manifests.read(directory)
    except LogError as error:
        raise Failed(str(error)) from None


def _summary(directory: Path, manifest: Manifest) -> dict[str, object]:
    return {"directory": str(directory), "through": manifest.through, "purged": manifest.purged, "months": _months(manifest)}


def _months(manifest: Manifest) -> list[dict[str, object]]:
    months: dict[str, dict[str, object]] = {}
    for piece in manifest.pieces:
        row = months.setdefault(piece.month, {"month": piece.month, "files": 0, "first": piece.first, "last": 0, "bytes": 0})
        row |= {"files": _number(row["files"]) + 1, "last": piece.last, "bytes": _number(row["bytes"]) + piece.size}
    return list(months.values())


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
