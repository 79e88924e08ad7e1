"""`headrace backup` and `restore`: a whole installation as one file, and an installation from that file."""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path

import structlog

from headrace.bus.log import LogError
from headrace.cli.arguments import Failed, Nouns, add_command, add_data_option, add_json
from headrace.cli.output.formatting import as_json, local
from headrace.supervisor.installation import Installation
from headrace.supervisor.nats.store import open_store
from headrace.supervisor.processes.pidfile import AlreadyRunning, read_running
from headrace.supervisor.processes.postgres import address
from headrace.supervisor.processes.readiness import NotReady


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "backup",
        backup,
        "write the whole installation into one file, whether it runs or not",
        """headrace backup                                  headrace-2026-11-22T080000Z.tar, here
        headrace backup /mnt/vault                       the same there
        headrace backup before-the-upgrade.tar --json

        In it: the ledger and all submissions not yet judged, the books, the archive, keys, logins, settings. Not in it: files of jobs on
        nodes, and logs. It gives access to everything, so keep it as safe as keys; after `tenant erase` destroy the older backups.""",
    )
    parser.add_argument("file", nargs="?", default=".", metavar="FILE|DIR", help="file or directory (default: a new file here)")
    add_data_option(parser)
    add_json(parser)
    parser = add_command(
        nouns,
        "restore",
        restore,
        "restore an installation from a backup into an empty directory, and check all its records",
        "headrace restore headrace-2026-11-22T080000Z.tar --data /srv/headrace\nheadrace up --data /srv/headrace",
    )
    parser.add_argument("file", metavar="FILE", help="what `headrace backup` wrote")
    add_data_option(parser)
    add_json(parser)


def _progress(args: argparse.Namespace, part: str, what: str) -> None:
    if not args.json:
        print(f"  {part:<14} {what}", flush=True)


async def backup(args: argparse.Namespace) -> int:
    """Back up from the running services, or start only NATS and PostgreSQL for it."""
    from headrace.supervisor.backup.backup import back_up, damaged_members  # noqa: PLC0415 - the archive's libraries take half a second
    from headrace.supervisor.backup.stores import Stores  # noqa: PLC0415 - the same

    installation, file = Installation(args.data), _target(args.file)
    if not installation.settings_kept():
        raise Failed(f"no installation in {installation.directory}: name it with --data")

    def progress(part: str, what: str) -> None:
        _progress(args, part, what)

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        if read_running(installation) is not None:
            dsn = address(installation.postgres, installation.postgres_password())
            async with open_store(installation) as bus:
                contents = await back_up(installation, bus, dsn, file, progress)
        else:
            async with Stores(installation) as stores:
                contents = await back_up(installation, stores.bus, stores.dsn, file, progress)
    except (LogError, NotReady, AlreadyRunning) as error:
        raise Failed(str(error)) from None
    troubles = damaged_members(contents, installation.directory)
    if args.json:
        summary = {
            "file": str(file),
            "through": contents.through,
            "bytes": contents.size,
            "at": contents.at,
            "troubles": troubles,
        }
        print(as_json(summary))
    else:
        print(f"{file}: the installation as of {local(contents.at)}, the ledger through record {contents.through}")
    if troubles:
        raise Failed("\nheadrace: ".join(f"the archive in the backup is damaged: {trouble}" for trouble in troubles))
    return 0


def _target(text: str) -> Path:
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        path /= time.strftime("headrace-%Y-%m-%dT%H%M%SZ.tar", time.gmtime())
    if not path.parent.is_dir():
        raise Failed(f"the directory {path.parent} does not exist")
    return path


def _source(text: str) -> Path:
    return Path(text).expanduser().absolute()


async def restore(args: argparse.Namespace) -> int:
    """Restore into a directory that is empty or does not exist."""
    from headrace.supervisor.backup.restore import restore as put_together  # noqa: PLC0415 - the archive's libraries take half a second

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    installation, file = Installation(args.data), _source(args.file)
    try:
        restored = await put_together(file, installation, lambda part, what: _progress(args, part, what))
    except (LogError, NotReady, AlreadyRunning) as error:
        raise Failed(str(error)) from None
    if args.json:
        print(as_json({"directory": str(installation.directory)} | restored._asdict()))
    else:
        print(
            f"{installation.directory}: the ledger through record {restored.through}, the books through {restored.booked}, "
            f"{restored.jobs} jobs pending or running\nNext: headrace up --data {installation.directory}"
        )
    return 0
