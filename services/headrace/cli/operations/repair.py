"""`headrace repair`: restores the ledger's stream from the archive and the independent copy, and SUBMIT if it was lost."""

from __future__ import annotations

import argparse
import logging

import structlog

from headrace.accounting.storage.database import DatabaseRefused, DatabaseUnavailable
from headrace.bus.log import LogError
from headrace.cli.arguments import Failed, Nouns, add_command, add_data_option, add_json
from headrace.cli.output.formatting import as_json
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import AlreadyRunning
from headrace.supervisor.processes.readiness import NotReady


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "repair",
        repair,
        "find damage in the streams and repair it: restore records of the ledger, and number new submissions after those that were judged",
        """headrace repair --look                       report damage, and change nothing
        headrace repair                              repair it; the former files are kept beside the new ones
        headrace repair --without-void               repair it, and remove records that others wrote in a service's name

        The installation has to be down. Every record is restored with its sequence, time and bytes, and the NATS server reads all of
        them before the result is accepted. They come from the archive and from the copy in PostgreSQL, or from one of them if the other
        is damaged too. If the store of SUBMIT was lost, submissions that were not judged are lost; new ones are numbered after those that
        were. If two intact sources differ in a record, nothing is changed: an operator has to decide.""",
    )
    parser.add_argument("--look", action="store_true", help="report damage, and change nothing; exit code 1 if there is any")
    parser.add_argument(
        "--without-end",
        action="store_true",
        help="end the ledger before the first record that no source has; later records are lost",
    )
    parser.add_argument(
        "--without-void",
        action="store_true",
        help="remove records that break the rules of the ledger and are only in the stream; no service uses them; later records move up",
    )
    add_data_option(parser)
    add_json(parser)


async def repair(args: argparse.Namespace) -> int:
    """Repair an installation that is down."""
    from headrace.supervisor.repair.stream_repair import repair_streams  # noqa: PLC0415 - the archive's libraries take half a second

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    installation = Installation(args.data)
    if not installation.settings_kept():
        raise Failed(f"no installation in {installation.directory}: name it with --data")

    def progress(part: str, what: str) -> None:
        if not args.json:
            print(f"  {part:<14} {what}", flush=True)

    try:
        mended = await repair_streams(
            installation, progress, only_look=args.look, without_end=args.without_end, without_void=args.without_void
        )
    except (LogError, NotReady, AlreadyRunning, DatabaseUnavailable, DatabaseRefused) as error:
        raise Failed(str(error)) from None
    if args.json:
        print(as_json({"troubles": mended.troubles, "through": mended.through, "kept": str(mended.kept or "")}))
    elif not mended.troubles:
        print(f"no damage: records through {mended.through} are as they were written")
    else:
        print("\n".join(mended.troubles))
        if mended.kept is None and not args.look:
            print(
                f"repaired: the ledger is whole through record {mended.through}, "
                "and new submissions are numbered after those that were judged"
            )
        elif mended.kept is not None:
            print(f"repaired: the ledger is whole through record {mended.through}; the former files are in {mended.kept}")
    return 1 if args.look and mended.troubles else 0
