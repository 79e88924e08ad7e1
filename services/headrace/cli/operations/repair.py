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
        "find what is damaged in the streams; put the right records into the ledger, and new submissions behind those that were judged",
        """headrace repair --look                       say what is wrong, and change nothing
        headrace repair                              the same, and repair it; what was there before is kept beside it
        headrace repair --without-void               the same without records that were written by others in a service's name

        The installation has to be down. Every record comes back with its sequence, its time and its bytes, and the server itself reads
        all of them before it counts. They come from the archive and from the books' copy, or from one of them where the other is damaged as
        well. Where the store of SUBMIT was lost, submissions that were not judged are gone; new ones are numbered behind those that were.
        Where two sources that both vouch for a record differ, nothing is changed: a person has to look.""",
    )
    parser.add_argument("--look", action="store_true", help="say what is wrong, and change nothing; exit 1 where something is")
    parser.add_argument(
        "--without-end",
        action="store_true",
        help="end the ledger before the first record that is lost everywhere: what came after is lost",
    )
    parser.add_argument(
        "--without-void",
        action="store_true",
        help="take out what breaks the law and stands in the stream alone: no service has taken it; what is behind it moves up",
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
        print(f"nothing is wrong: records through {mended.through} are as they were written")
    else:
        print("\n".join(mended.troubles))
        if mended.kept is None and not args.look:
            print(
                f"repaired: the ledger is whole through record {mended.through}, and new submissions come behind those that were judged"
            )
        elif mended.kept is not None:
            print(f"repaired: the ledger is whole through record {mended.through}; what was there before lies in {mended.kept}")
    return 1 if args.look and mended.troubles else 0
