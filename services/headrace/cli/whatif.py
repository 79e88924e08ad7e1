"""`headrace whatif`: the installation as it was at a moment, played on with changes and without them, side by side."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.arguments import Failed, Nouns, add_asker, add_command, client, moment, span
from headrace.cli.documents import read_files
from headrace.client import Client
from headrace.contracts.codec import encode
from headrace.contracts.document_tree import DocumentErrors
from headrace.contracts.durations import format_time
from headrace.contracts.queries import RecordsAnswer, RecordsRequest, StoredRecord
from headrace.domain.fold.ledger import Ledger, LedgerBroken
from headrace.domain.snapshot import copy_of

if TYPE_CHECKING:
    from headrace.simulate.aftermath import Aftermath
    from headrace.simulate.changes import Changes

PAGE_WITHIN = 60.0
"""Seconds for a page of the ledger."""


class Point(NamedTuple):
    """A place in the ledger: through a sequence, or through a moment of the server's time, microseconds; None: not by that."""

    sequence: int | None = None
    time: int | None = None

    def is_before(self, record: StoredRecord) -> bool:
        """Whether the record is beyond it."""
        if self.sequence is not None:
            return record.sequence > self.sequence
        return self.time is not None and record.stamped > self.time


def add(nouns: Nouns) -> None:
    """The command."""
    parser = add_command(
        nouns,
        "whatif",
        whatif,
        "play the installation on with changes and without, in virtual time, and show the difference",
        """headrace whatif -f changes.yaml                          from now on
        headrace whatif -f changes.yaml --at 24h                 from a day ago on
        headrace whatif -f changes.yaml --at 12345 --json        from the 12345th record of the ledger on
        headrace whatif -f changes.yaml --from 7d --to 1d        the real jobs of those six days, with other policies
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
        "--at",
        "--from",
        dest="at",
        type=_point,
        default=Point(),
        metavar="SEQ|TIME",
        help="when the changes come: a record, a moment or a span ago (default: now)",
    )
    parser.add_argument(
        "--to",
        type=_point,
        metavar="SEQ|TIME",
        help="play the jobs that really came until then, and no further (default: nobody new comes)",
    )
    parser.add_argument("--for", dest="span", type=span, default="7d", help="how far both are played (default: 7d, or to rest)")
    add_asker(parser)


def _point(text: str) -> Point:
    return Point(sequence=int(text)) if text.isdecimal() else Point(time=moment(text))


async def whatif(args: argparse.Namespace) -> int:
    """Read the changes and the ledger, play, show. Everything is worked out here: the services hand out records, and no more."""
    from headrace.simulate.aftermath import Aftermath  # noqa: PLC0415 - the other commands need none of it
    from headrace.simulate.difference import as_text  # noqa: PLC0415
    from headrace.simulate.whatif import compare_from  # noqa: PLC0415
    from headrace.simulate.world import Refused, Unrest  # noqa: PLC0415

    changes = _changes(args.file)
    async with client(args) as hr:
        ledger = await _fold(hr, Ledger(), args.at)
        state, sequence = ledger.state, ledger.sequence
        now = max(state.now, args.at.time or (0 if args.at.sequence is not None else time.time_ns() // 1_000))
        aftermath = None if args.to is None else Aftermath(now)
        if aftermath is not None:
            state = copy_of(state)
            await _fold(hr, ledger, args.to, aftermath)
            if ledger.now <= now:
                raise Failed("--to: the ledger holds nothing between --from and there")
    try:
        found = compare_from(
            state, changes, now, span=args.span if aftermath is None else ledger.now - now, aftermath=aftermath
        )
    except (Refused, Unrest) as stop:
        lines = str(stop).splitlines()
        print("\n".join(f"headrace: {line}" for line in lines), file=sys.stderr)
        raise Failed from None
    title = f"From record {sequence}, {format_time(now)}, with {', '.join(args.file)}"
    print(encode(found).decode() if args.json else as_text(found, title))
    return 0


def _changes(files: list[str]) -> Changes:
    from headrace.simulate.changes import read_changes  # noqa: PLC0415 - the other commands need none of it

    try:
        return read_changes(read_files(files, read_changes))
    except DocumentErrors as wrong:
        raise Failed(f"the files together: {wrong.errors[0]}") from None


async def _fold(hr: Client, ledger: Ledger, point: Point, aftermath: Aftermath | None = None) -> Ledger:
    """The ledger folded on through the point, or to its end; what comes meanwhile is noted in the `aftermath`."""
    while True:
        answer = await hr.query("governance", "records", RecordsRequest(after=ledger.sequence), RecordsAnswer, PAGE_WITHIN)
        if point.sequence is not None and point.sequence > answer.tip:
            raise Failed(f"--at, --to: the ledger ends with record {answer.tip}, {point.sequence} is not there yet")
        for record in answer.records:
            if point.is_before(record):
                return ledger
            try:
                folded = ledger.read(record)
            except LedgerBroken as broken:
                raise Failed(f"the ledger is damaged: {broken}") from None
            if aftermath is not None and folded is not None:
                aftermath.note(folded, ledger.state)
        if ledger.sequence >= answer.tip:
            return ledger
        if sys.stderr.isatty():
            print(f"reading the ledger: {ledger.sequence} of {answer.tip} records", end="\r", file=sys.stderr, flush=True)
