"""`headrace usage`: the books, by whatever they are asked for."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from headrace.cli.arguments import Nouns, add_asker, add_command, client, moment, names
from headrace.cli.shown import as_json
from headrace.cli.tables import table
from headrace.contracts.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY
from headrace.contracts.durations import HOUR
from headrace.contracts.queries import UsageAnswer, UsageRequest, UsageRow

KEYS = ("tenant", "group", "user", "pool", "profile", "job")
_UNITS = {GPU: GPU_UNITS, CPU: CPU_UNITS, MEMORY: 1024}
_NAMES = {GPU: "GPU-hours", CPU: "CPU-hours", MEMORY: "GiB-hours"}
DIGITS = Decimal("0.0001")


def add(nouns: Nouns) -> None:
    """The command."""
    parser = add_command(
        nouns,
        "usage",
        usage,
        "print the books: what was used, reserved and borrowed, in hours",
        """headrace usage --by group
        headrace usage --by group,user --from 2026-11-01 --to 2026-12-01 --csv
        headrace usage --by job --from 24h --json""",
    )
    parser.add_argument(
        "--from", dest="since", type=moment, default=0, metavar="TIME", help="from then on (UTC unless it names a zone)"
    )
    parser.add_argument("--to", dest="until", type=moment, default=0, metavar="TIME", help="up to then")
    parser.add_argument(
        "--by", type=names, default=("group",), metavar="KEY,...", help=f"of {', '.join(KEYS)} (default: group)"
    )
    parser.add_argument("--csv", action="store_true", help="print CSV")
    add_asker(parser)


async def usage(args: argparse.Namespace) -> int:
    """The books of the time asked for."""
    request = UsageRequest(since=args.since, until=args.until, by=args.by)
    async with client(args) as hr:
        answer = await hr.query("accounting", "usage", request, UsageAnswer)
    heads = [*args.by, "unit", "total", "reserved", "borrowed", "lost", "jobs"]
    rows = [_row(row, args.by) for row in answer.rows]
    if args.json:
        print(as_json({"through": answer.through, "rows": [dict(zip(heads, row, strict=True)) for row in rows]}))
    elif args.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([heads, *rows])
    elif rows:
        print(table([head.upper() for head in heads], rows))
    else:
        print("Nothing was used.")
    return 0


def hours(key: str, unit_microseconds: str) -> str:
    """Exact integers of the books as hours, rounded to four digits."""
    exact = Fraction(int(unit_microseconds), _UNITS.get(key, 1) * HOUR)
    rounded = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(DIGITS, ROUND_HALF_EVEN)
    return str(rounded)


def _row(row: UsageRow, by: Sequence[str]) -> list[object]:
    amounts = (hours(row.key, text) for text in (row.total, row.reserved, row.borrowed, row.lost))
    return [*(row.group.get(name, "") for name in by), _NAMES.get(row.key, f"{row.key}-hours"), *amounts, row.jobs]
