"""`headrace statement`: the charges of a tenant's month, for people, for spreadsheets, and for tools that read FOCUS."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from headrace.accounting.books.periods import BadPeriod, zone
from headrace.cli.arguments import Failed, Nouns, add_command, add_login_options, asking, client
from headrace.cli.output.output_file import write_out
from headrace.cli.output.tables import pairs, table
from headrace.contracts.messages.usage import StatementRequest


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "statement",
        statement,
        "print a tenant's statement of a month: every charge, and the total",
        """headrace statement --month 2026-11
        headrace statement --tenant acme --month 2026-11 --timezone Europe/Berlin --csv > acme-2026-11.csv
        headrace statement --tenant acme --month 2026-11 --json
        headrace statement --tenant acme --month 2026-11 --focus --output acme-2026-11-focus.csv
        headrace statement --instances --month 2026-11     what instances of pools cost: booting, jobs of tenants, idle

        The cost of an account's day is rounded once, half to even, to six decimals; every total is a sum of such costs. Once a month is
        over, and everything that was held in it has ended, its statement is final: later requests return the same bytes.""",
    )
    parser.add_argument("--month", default="", metavar="YYYY-MM", help="the month (default: this one)")
    parser.add_argument(
        "--timezone", default="UTC", metavar="ZONE", help="time zone of the month, such as Europe/Berlin (default: UTC)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV")
    form.add_argument(
        "--focus", action="store_true", help="print CSV with the columns of FOCUS 1.2, a row for each day's charge"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it into this file")
    parser.add_argument(
        "--instances", action="store_true", help="for the provider: what instances of pools cost, not what tenants owe (R38)"
    )
    add_login_options(parser)


@asking
async def statement(args: argparse.Namespace) -> int:
    """Print or write the statement."""
    try:
        args.month = args.month or datetime.now(zone(args.timezone)).strftime("%Y-%m")
    except BadPeriod as error:
        raise Failed(f"--{error}") from None
    if args.json and (args.csv or args.focus):
        raise Failed("--json: use one of --json, --csv and --focus")
    form = "focus" if args.focus else "csv" if args.csv else "json"
    async with client(args) as hr:
        request = StatementRequest(month=args.month, timezone=args.timezone, form=form)
        text, final = await hr.statement(request, of_instances=args.instances)
    plain = args.csv or args.focus or args.json
    shown = text if plain else (_shown_instances if args.instances else _shown)(json.loads(text))
    if args.output:
        write_out("--output", args.output, shown.encode())
    else:
        print(shown, end="")
    if not final:
        print(
            f"headrace: {args.month} is not final yet: something held in it has not ended, or may be reported late",
            file=sys.stderr,
        )
    return 0


def _shown(document: dict[str, Any]) -> str:
    """Text for people: the charges, the amounts that are not charged, and the total."""
    currency = document["currency"]
    heads = ("GROUP", "POLICY", "PROFILE", "USER", "POOL", "KIND", "UNIT", "QUANTITY", "RATE", f"COST {currency}")
    rows = [
        (
            *(line["group"], line["policy"], line["profile"], line["user"], line["pool"], line["kind"]),
            *(line["unit"], _cents(line["quantity"], 4), _cents(line["rate"], 4), _cents(line["cost"], 2)),
        )
        for line in document["lines"]
    ]
    first = pairs(
        (
            ("tenant", document["tenant"]),
            ("month", f"{document['month']} ({document['timezone']})"),
            ("state", "final" if document["final"] else f"so far, to {document['reaches']}"),
            *((kind, f"{cost} {currency}") for kind, cost in document["by_kind"].items()),
            ("lost to preemption", f"{document['lost_to_preemption']} {currency} of it"),
            ("total", f"{document['total']} {currency}"),
        )
    )
    return "\n\n".join([first, table(heads, rows) if rows else "Nothing was charged."]) + "\n"


def _shown_instances(document: dict[str, Any]) -> str:
    """Text for people: what each offer's instances cost, for what, and the total."""
    currency = document["currency"]
    heads = ("POOL", "OFFER", "MARKET", "INSTANCE", "WHAT", "TENANT", "HOURS", f"COST {currency}")
    rows = [
        (
            *(line["pool"], line["offer"], line["market"], line["instance"], line["what"], line["tenant"]),
            *(_cents(line["hours"], 4), _cents(line["cost"], 2)),
        )
        for line in document["lines"]
    ]
    first = pairs(
        (
            ("month", f"{document['month']} ({document['timezone']})"),
            ("state", "final" if document["final"] else f"so far, to {document['reaches']}"),
            *((f"offer {offer}", f"{cost} {currency}") for offer, cost in document["by_offer"].items()),
            *((what, f"{cost} {currency}") for what, cost in document["by_what"].items()),
            ("overhead", f"{document['overhead']} {currency}: booting and idle"),
            ("total", f"{document['total']} {currency}"),
        )
    )
    return "\n\n".join([first, table(heads, rows) if rows else "No instance cost anything."]) + "\n"


def _cents(text: str, digits: int) -> str:
    """The number cut to `digits` decimals, not rounded: the full figures are in --json and --csv."""
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals[:digits]}"
