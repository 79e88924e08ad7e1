"""`headrace usage`: usage and cost, by any keys and periods."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from headrace.accounting.books.periods import KINDS, BadPeriod, month, zone
from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_login_options, asking, client, names
from headrace.cli.output.formatting import as_json
from headrace.cli.output.tables import table
from headrace.client import Client
from headrace.contracts.messages.usage import UsageAnswer, UsageRequest, UsageRow
from headrace.contracts.spreadsheets import cell
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY, is_gpu
from headrace.contracts.values.durations import (
    HOUR,
    SECOND,
    DurationError,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)

KEYS = ("tenant", "group", "user", "service_account", "pool", "policy", "profile", "queue", "node", "job", "label:KEY")
MEASURES = ("total", "reserved", "borrowed", "idle", "suspended", "lost", "waiting", "kept", "provider_lost")
LOADS = ("busy", "idle_held", "unknown")
"""Of GPUs, by the samples of nodes."""
_UNITS = {GPU: GPU_UNITS, CPU: CPU_UNITS, MEMORY: 1024}
_NAMES = {GPU: "GPU-hours", CPU: "CPU-hours", MEMORY: "GiB-hours"}
DIGITS = Decimal("0.0001")

MEANINGS = """
what the columns mean, in hours of the unit (a GPU, a core, a GiB):
  total      held, from the start of the job to the release, the time to save its work included: reserved + borrowed
  reserved   the part within the policy's reservation; jobs that cannot be preempted count first, then the oldest
  borrowed   the part beyond it
  idle       the part of the reservation that no job of the policy held: reserved + idle is all of it
  suspended  what suspended jobs would have held; not charged
  lost       the part of the total whose work was in no checkpoint when the job had to stop
  waiting    what pending jobs asked for; not charged
  kept       what was free and kept for a waiting job: one that preempts others, or one that waited for long; not charged
  provider_lost  held from the grant until the job ran, or until its start was given up; not charged
  busy       of the total, GPU-hours in which the GPUs computed, by the samples of their nodes
  idle_held  of the total, GPU-hours in which the GPUs had been nearly unused for ten minutes and longer
  unknown    of the total, GPU-hours without samples: the GPU does not report its load, or the node was out of contact
  cost       at the prices that the pool had at that time
"""


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "usage",
        usage,
        "print usage and cost: what was used, reserved and borrowed, in hours, and what it cost",
        """headrace usage --by group
        headrace usage --by group,user --from 2026-11 --to 2026-12 --csv
        headrace usage --by policy --from 2026-11-01 --per day --timezone Europe/Berlin
        headrace usage --by job,label:project --from 24h --json
        headrace usage --by tenant --all-tenants --from 2026-11
        headrace usage --idle""",
    )
    parser.epilog = f"{parser.epilog}{MEANINGS}"
    add_times(parser)
    parser.add_argument(
        "--by", type=names, default=("group",), metavar="KEY,...", help=f"of {', '.join(KEYS)} (default: group)"
    )
    parser.add_argument("--per", choices=KINDS, default="", help="a line for each hour, day or month")
    parser.add_argument("--csv", action="store_true", help="print CSV")
    parser.add_argument(
        "--idle", action="store_true", help="show who holds GPUs that compute nearly nothing now, and unused nodes"
    )
    add_all_tenants(parser)
    add_login_options(parser)


def add_times(parser: Parser) -> None:
    """Add the options for a period and its time zone."""
    parser.add_argument(
        "--from", dest="since", default="", metavar="TIME", help="2026-11, 2026-11-21, 2026-11-21T08:00, or 24h for a day ago"
    )
    parser.add_argument("--to", dest="until", default="", metavar="TIME", help="until then (exclusive)")
    parser.add_argument(
        "--timezone",
        default="UTC",
        metavar="ZONE",
        help="time zone of hours, days and months, such as Europe/Berlin (default: UTC)",
    )


def add_all_tenants(parser: Parser) -> None:
    """Add `--all-tenants`, which only providers may use."""
    parser.add_argument("--all-tenants", action="store_true", help="of all tenants; only an admin of the installation may ask")


@asking
async def usage(args: argparse.Namespace) -> int:
    """Print the usage of the period, or with `--idle` what is idle now."""
    if args.idle:
        return await _idle(args)
    if args.json and args.csv:
        raise Failed("--json: use either --json or --csv")
    since, until = times(args)
    request = UsageRequest(since=since, until=until, by=args.by, per=args.per, timezone=args.timezone)
    async with client(args) as hr:
        answer = await _whole(hr, request, all_tenants=args.all_tenants)
    groups = [*([args.per] if args.per else []), *args.by]
    heads = [*groups, "unit", *MEASURES, *LOADS, "cost", "jobs"]
    rows = [_row(row, groups) for row in answer.rows]
    for warning in answer.warnings:
        print(f"headrace: {warning}", file=sys.stderr)
    if args.json:
        lines = [
            dict(zip(heads, row, strict=True)) | {"exact": exact(each)} for row, each in zip(rows, answer.rows, strict=True)
        ]
        print(as_json({"through": answer.through, "now": answer.now, "currency": answer.currency, "rows": lines}))
    elif args.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([cell(str(value)) for value in row] for row in (heads, *rows))
    elif rows:
        heads[-2] = f"cost {answer.currency}".strip()
        print(table([head.upper() for head in heads], [_short(row) for row in rows]))
    else:
        print("Nothing was used.")
    if until > answer.now:
        print(f"headrace: this is the usage so far, until {format_time(answer.now)}", file=sys.stderr)
    return 0


async def _idle(args: argparse.Namespace) -> int:
    """Print who holds GPUs without using them, and unused nodes."""
    given = {"--csv": args.csv, "--from": args.since, "--to": args.until, "--per": args.per, "--all-tenants": args.all_tenants}
    for flag in (flag for flag, value in given.items() if value):
        raise Failed(f"--idle: it shows the present and all that you may see, so it takes no {flag}")
    async with client(args) as hr:
        answer = await hr.utilization()
    if args.json:
        print(as_json(answer.idle()))
        return 0
    if answer.holders:
        heads = ["JOB", "NAME", "USER", "QUEUE", "NODE", "GPUS", "HELD", "BUSY", "MARKED"]
        rows = [
            [
                one.job,
                one.display_name,
                one.user,
                one.queue,
                one.node,
                one.gpus,
                format_duration(one.held * SECOND),
                f"{one.average} %",
                ("counts as borrowed" if one.idle_yields else "yes") if one.idle_time else "",
            ]
            for one in answer.holders
        ]
        print("These jobs hold GPUs that computed nearly nothing in the last ten minutes:")
        print(table(heads, rows))
    else:
        print("No job holds GPUs that are known to be idle.")
    if answer.unknown:
        print(f"The load of {answer.unknown} held GPUs is unknown.")
    if answer.idle_nodes:
        print("No job runs on these nodes:")
        print(table(["NODE", "POOL", "GPUS"], [[one.node, one.pool, one.gpus] for one in answer.idle_nodes]))
    return 0


def times(args: argparse.Namespace) -> tuple[int, int]:
    """`--from` and `--to` in microseconds since 1970, 0 if not given. Raises `Failed` if malformed or not in order."""
    try:
        where = zone(args.timezone)
    except BadPeriod as error:
        raise Failed(f"--{error}") from None
    since, until = _moment("--from", args.since, where), _moment("--to", args.until, where)
    if args.since and args.until and since >= until:
        raise Failed(f"--from {args.since} is not before --to {args.until}")
    if since > time.time_ns() // 1_000:
        raise Failed(f"--from {args.since} is in the future")
    return since, until


def _moment(flag: str, text: str, where: ZoneInfo) -> int:
    """Start of a month, day or time in the time zone, or a duration before now, in microseconds since 1970."""
    if not text:
        return 0
    try:
        return time.time_ns() // 1_000 - parse_duration(text)
    except DurationError:
        pass
    try:
        if len(text) == len("2026-11"):
            return month(text, where).since
        moment = datetime.fromisoformat(text)
        return parse_time((moment if moment.tzinfo is not None else moment.replace(tzinfo=where)).isoformat())
    except (ValueError, BadPeriod, OverflowError):
        raise Failed(
            f"{flag}: invalid time {text!r}: write 2026-11, 2026-11-21, 2026-11-21T08:00:00Z, or 24h for a day ago"
        ) from None


async def _whole(hr: Client, request: UsageRequest, *, all_tenants: bool) -> UsageAnswer:
    """The complete answer, over as many pages as it takes."""
    pages: list[UsageAnswer] = []
    async for page in hr.usage(request, all_tenants=all_tenants):
        pages.append(page)
        if page.more:
            _show_progress(sum(len(each.rows) for each in pages))
    rows = [row for page in pages for row in page.rows]
    if len(pages) > 1 and request.per:  # some jobs came after others of a later period
        rows.sort(key=lambda row: (row.group.get(request.per, ""), *(row.group[name] for name in request.by), row.key))
    return replace(pages[0], rows=tuple(rows), lines=len(rows))


def _show_progress(lines: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{lines:,} lines", end="\r", file=sys.stderr, flush=True)


def hours(key: str, unit_microseconds: str) -> str:
    """Exact integers of the books as hours, rounded to four digits."""
    exact = Fraction(int(unit_microseconds), _UNITS.get(GPU if is_gpu(key) else key, 1) * HOUR)
    rounded = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(DIGITS, ROUND_HALF_EVEN)
    return str(rounded)


def exact(row: UsageRow) -> dict[str, str]:
    """The integers behind the hours, in units (1/126,000 GPU, a millicore, a MiB) times microseconds."""
    return {measure: getattr(row, measure) for measure in MEASURES} | loads(row)


def loads(row: UsageRow) -> dict[str, str]:
    """How much the GPUs of a row computed, exactly; empty for other keys."""
    if row.key != GPU:
        return {}
    unknown = max(0, int(row.total) - int(row.measured))
    return {"busy": row.busy, "idle_held": row.idle_held, "unknown": str(unknown)}


def _row(row: UsageRow, groups: Sequence[str]) -> list[object]:
    amounts = (hours(row.key, getattr(row, measure)) for measure in MEASURES)
    unit, known = _NAMES.get(row.key, f"{row.key}-hours"), loads(row)
    computed = (hours(row.key, known[name]) if name in known else "" for name in LOADS)
    return [*(row.group.get(name, "") for name in groups), unit, *amounts, *computed, row.cost, row.jobs]


def _short(row: Sequence[object]) -> list[object]:
    """Row for people: zeros are left out, and costs have two decimals."""
    *rest, cost, jobs = row
    cents = str(Decimal(str(cost)).quantize(Decimal("0.01"), ROUND_HALF_EVEN))
    return ["" if cell == "0.0000" else cell for cell in rest] + ["" if cents == "0.00" else cents, jobs]
