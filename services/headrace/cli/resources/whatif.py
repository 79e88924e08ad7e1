"""`headrace whatif`: simulates the installation from a time on, with changes and without them, and compares."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from headrace.cli.arguments import Failed, Nouns, add_command, add_json, add_where_options, client, moment, span
from headrace.cli.resources.documents import read_files
from headrace.client import Refused
from headrace.client.questions import moment_text
from headrace.contracts.documents.tree import DocumentErrors
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.durations import format_time
from headrace.domain.fold.ledger import LedgerBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.contracts.documents.tree import Tree
    from headrace.contracts.messages.whatif import Difference
    from headrace.simulate.changes import WhatIfChanges
    from headrace.supervisor.installation import Installation

OPTIONS = {"since": "--from", "until": "--to", "span": "--for"}
"""The options by the fields of the API's request."""
BAR = 30
"""Width of the progress bar in characters."""


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "whatif",
        whatif,
        "simulate the installation from now on with changes and without, and show the difference",
        """headrace whatif -f changes.yaml                          from now on
        headrace whatif -f changes.yaml --at 24h                 from a day ago on
        headrace whatif -f changes.yaml --at 12345 --json        from the 12345th record of the ledger on
        headrace whatif -f changes.yaml --from 7d --to 1d        the real jobs of those six days, under other policies
        headrace get policy | sed 's/gpu: 4/gpu: 8/' | headrace whatif -f -
        echo 'submit: [{name: big, queue: ai-dev/half, count: 20, duration: 1h}]' | headrace whatif -f -
        echo 'nodes: [{name: new, count: 2, labels: {site: hq}, gpus: 8, gpu_model: H100-80GB}]' | headrace whatif -f -""",
    )
    parser.add_argument(
        "-f",
        "--file",
        nargs="+",
        action="extend",
        required=True,
        metavar="CHANGES",
        help="documents as for `apply`; `submit:` and `nodes:` as in scenarios; `delete:`; - is standard input",
    )
    parser.add_argument(
        "--from",
        "--at",
        dest="since",
        type=_point,
        default=(None, None),
        metavar="SEQ|TIME",
        help="when the changes are made: a record, a time, or a duration ago (default: now)",
    )
    parser.add_argument(
        "--to",
        type=_point,
        metavar="SEQ|TIME",
        help="repeat the real jobs, nodes and documents until then (default: no new jobs)",
    )
    parser.add_argument(
        "--for",
        dest="span",
        type=span,
        default="7d",
        help="how far both are simulated (default: 7d, or until nothing happens any more)",
    )
    add_where_options(parser)
    add_json(parser)
    parser.set_defaults(tenant="", user="")  # the whole installation is simulated


def _point(text: str) -> tuple[int | None, int | None]:
    """(sequence, microseconds since 1970), one of them None, for argparse."""
    return (int(text), None) if text.isdecimal() else (None, moment(text))


async def whatif(args: argparse.Namespace) -> int:
    """Read the changes, simulate, print the difference: here from the ledger on this machine, else by the API."""
    from headrace.cli.whole_ledger import here  # noqa: PLC0415 - the other commands do not need it
    from headrace.simulate.changes import read_changes  # noqa: PLC0415
    from headrace.simulate.difference import as_text  # noqa: PLC0415

    tree = read_files(args.file, read_changes)
    try:
        changes = read_changes(tree)
    except DocumentErrors as wrong:
        raise Failed(f"the files together: {wrong.errors[0]}") from None
    installation = here(args)
    found, sequence, now = await (_asked(args, tree) if installation is None else _simulated(args, changes, installation))
    title = f"From record {sequence}, {format_time(now)}, with {', '.join(args.file)}"
    print(encode(found).decode() if args.json else as_text(found, title))
    return 0


async def _asked(args: argparse.Namespace, tree: Tree) -> tuple[Difference, int, int]:
    """What the API answers: to the provider about all tenants, to others about their own."""
    from headrace.client.api import violations  # noqa: PLC0415 - the other commands do not need it

    until = {} if args.to is None else {"until": _point_text(args.to)}
    try:
        async with client(args) as hr:
            return await hr.what_if(tree.value, since=_point_text(args.since), span=args.span, **until)
    except Refused as refusal:
        named = [f"{OPTIONS.get(field, field)}: {message}" for field, message in violations(refusal)]
        for line in named or [str(refusal)]:
            print(f"headrace: {line.removeprefix('changes.')}", file=sys.stderr)
        raise Failed from None


def _point_text(point: tuple[int | None, int | None]) -> str:
    """A point as the API reads it; empty for now."""
    sequence, time = point
    return str(sequence) if sequence is not None else moment_text(time or 0)


async def _simulated(
    args: argparse.Namespace, changes: WhatIfChanges, installation: Installation
) -> tuple[Difference, int, int]:
    """What comes of the ledger on this machine, from the last snapshot before the beginning on."""
    from headrace.cli.whole_ledger import store  # noqa: PLC0415 - the other commands do not need it
    from headrace.service.snapshots import Snapshots  # noqa: PLC0415
    from headrace.simulate.ledger_window import LedgerPoint, LedgerWindow, NoPeriod  # noqa: PLC0415
    from headrace.simulate.refused import Refused as ChangesRefused  # noqa: PLC0415
    from headrace.simulate.run_pair import PlayLost, rarely_collected  # noqa: PLC0415
    from headrace.simulate.virtual_system import Unsettled  # noqa: PLC0415
    from headrace.simulate.whatif import FREEZE_AFTER  # noqa: PLC0415
    from headrace.simulate.whatif_worker import read  # noqa: PLC0415

    try:
        until = None if args.to is None else LedgerPoint(*args.to)
        period = LedgerWindow(LedgerPoint(*args.since), until, time.time_ns() // 1_000)
        with rarely_collected(FREEZE_AFTER):
            async with store(installation) as (connection, ledger):
                await read(ledger, period, Snapshots.over(connection, ledger), _bar("reading the ledger"))
            return period.compare(changes, span=args.span, progress=_bar("playing both")), *period.start
    except NoPeriod as wrong:
        raise Failed(f"--{wrong}") from None
    except LedgerBroken as broken:
        raise Failed(f"the ledger is damaged: {broken}") from None
    except PlayLost as lost:
        raise Failed(str(lost)) from None
    except (ChangesRefused, Unsettled) as stop:
        lines = str(stop).splitlines()
        print("\n".join(f"headrace: {line}" for line in lines), file=sys.stderr)
        raise Failed from None


def _bar(what: str) -> Callable[[int], None]:
    """A function that shows a progress bar on standard error if that is a terminal, given thousandths.

    `playing both  [######   ]  61 %`.
    """
    shown = -1

    def show(done: int) -> None:
        nonlocal shown
        if done // 10 == shown or not sys.stderr.isatty():
            return
        shown = done // 10
        end = "\r" if done < 1_000 else "\r" + " " * (len(what) + BAR + 12) + "\r"
        print(f"{what}  [{'#' * (BAR * done // 1_000):{BAR}}] {shown:3} %", end=end, file=sys.stderr, flush=True)

    return show
