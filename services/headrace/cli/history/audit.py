"""`headrace audit`: the history. Verbs that are one query are functions here; the others have their own modules."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time

import msgspec

from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_login_options, asking, client, names, positive
from headrace.cli.jobs.names import ANY, find_job
from headrace.cli.output.formatting import local
from headrace.cli.output.terminal import progress
from headrace.cli.reports.books import add_all_tenants, add_times, times
from headrace.contracts.messages.audit import AuditLine, AuditRequest
from headrace.contracts.values.durations import format_time

PAGE = 500

VERBS = (
    "log: what happened, who stated it, why, and by which rule; "
    "replay: the state at an earlier time; diff: what changed between two times; "
    "verify: whether the records are as they were written, and the decisions would be the same; "
    "export: all records into files"
)


ADDED_BY = {
    "log": ("audit", "add_log"),
    "export": ("archive", "add_export"),
    "verify": ("verify", "add_verify"),
    "replay": ("replay", "add_replay"),
    "diff": ("replay", "add_diff"),
    "seals": ("seals", "add_seals"),
}
"""The module of each verb, and its function that adds the verb."""


def add(nouns: Nouns, verb: str = "") -> None:
    """Add the family with this verb; with all of them if it is not one."""
    family = nouns.add_parser("audit", help="read the history", description=f"Read the history. {VERBS}.")
    verbs = family.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    for name, (module, adding) in ADDED_BY.items():
        if verb == name or verb not in ADDED_BY:
            getattr(importlib.import_module(f"headrace.cli.history.{module}"), adding)(verbs)


def add_log(verbs: Nouns) -> None:
    """Add `headrace audit log`."""
    parser = add_command(
        verbs,
        "log",
        log,
        "print what happened, one line for each fact, oldest first: when, in which record, who stated it, what, and by which rule",
        """headrace audit log --from 1h
        headrace audit log --from 2026-11-21 --to 2026-11-22 --kind lease.granted,preemption
        headrace audit log --job 01jd3v8k5w2m4x6z8b0c2e4g6h
        headrace audit log --causes 01jd3v8k5w2m4x6z8b0c2e4g6h         what led to it, and what came of it
        headrace audit log --causes 81234.2                            the same for one fact, by its record and place
        headrace audit log --all-tenants --node gpu01 --json           one JSON object a line, with the fact itself

        A line is: time, record.place, who stated it, the rule, what it is about, and what happened. --json also has the last record that a
        decision knew (as_of). A tenant sees its own facts.""",
    )
    add_times(parser)
    parser.add_argument("--job", default="", metavar="ID", help=f"the story of one job: {ANY}")
    parser.add_argument("--owner", default="", metavar="USER", help="only facts about this user's jobs")
    parser.add_argument(
        "--node", default="", metavar="NAME", help="only facts about this node, about jobs on it, or stated by it"
    )
    parser.add_argument(
        "--kind",
        type=names,
        default=(),
        metavar="KIND,...",
        help="only facts of these kinds: lease, lease.granted, preemption, policy",
    )
    parser.add_argument(
        "--causes", default="", metavar="ID", help="a job, a record, or a fact: what led to it, what came of it"
    )
    parser.add_argument("--limit", type=positive, default=None, metavar="N", help="maximum number of lines (default: all)")
    add_all_tenants(parser)
    add_login_options(parser)


@asking
async def log(args: argparse.Namespace) -> int:
    """Print the audit log page by page, without storing it."""
    since, until = times(args)
    if args.causes and (since or until or args.job or args.owner or args.node or args.kind):
        raise Failed("--causes takes no other filter: it selects the facts itself")
    if until > time.time_ns() // 1_000:
        print(f"headrace: --to {args.until} is in the future: these are the facts so far", file=sys.stderr)
    left = args.limit
    found = False
    async with client(args) as hr:
        request = AuditRequest(
            since=since,
            until=until,
            job=await find_job(hr, args.job) if args.job else "",
            user=args.owner,
            node=args.node,
            kinds=args.kind,
            causes=args.causes,
            limit=PAGE,
        )
        async for answer in hr.audit_lines(request, all_tenants=args.all_tenants):
            for line in answer.lines[:left]:
                found = True
                print(_object(line) if args.json else shown(line))
            left = None if left is None else left - len(answer.lines)
            sys.stdout.flush()
            if not answer.next or (left is not None and left <= 0):
                break
            if sys.stderr.isatty():
                progress(f"record {answer.next} of {answer.through}")
    if not found and not args.json:
        print("No facts match.")
    return 0


def _object(line: AuditLine) -> str:
    """One line for programs: the fact in its own units, the time as text."""
    return json.dumps(msgspec.to_builtins(line) | {"at": format_time(line.at)}, ensure_ascii=False)


def shown(line: AuditLine) -> str:
    """The text of one line of the log."""
    because = f"  (because of {', '.join(line.because)})" if line.because else ""
    about = f"{_short(line.about)}: " if line.about else ""
    text = "".join(character if character.isprintable() else "?" for character in f"{about}{line.text}{because}")
    return f"{local(line.at)}  {f'{line.sequence}.{line.place}':<9}  {line.by:<12} {line.rule or '-':<4} {text}"


def _short(about: str) -> str:
    """User and id of a job's key; the tenant is known."""
    tenant, dot, rest = about.partition(".")
    return rest if dot and "." in rest else tenant + dot + rest
