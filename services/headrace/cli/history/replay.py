"""`headrace audit replay` and `audit diff`: the whole governed state at a time, and the differences between two times."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.cli.arguments import Nouns, add_command, add_login_options, asking, client, moment
from headrace.cli.output.formatting import amounts, as_json, local
from headrace.cli.output.tables import table
from headrace.cli.output.terminal import progress
from headrace.cli.reports.books import add_all_tenants
from headrace.cli.resources.supply import node_table, pool_table, queue_table
from headrace.contracts.messages.history import DiffRequest, DiffView, LedgerPoint, PastJob, PastView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client import Client
    from headrace.contracts.messages.history import StateChange
    from headrace.contracts.messages.queries import DocumentView

WITHIN = 60.0
"""Timeout in seconds: a long history may have to be folded."""
PAGE = 2_000
HELD = ("HELD BY", "NAME", "QUEUE", "STATE", "ATTEMPT", "NODE", "POOL", "DEVICES", "AMOUNTS", "SINCE")
WAITED = ("WAITED", "NAME", "QUEUE", "STATE", "ASKS", "SINCE", "REASON", "BECAUSE")
SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def add_replay(verbs: Nouns) -> None:
    """Add `headrace audit replay`."""
    parser = add_command(
        verbs,
        "replay",
        replay_state,
        "print the whole state at an earlier time: documents, pools, nodes, queues, who held what, who waited and why",
        """headrace audit replay --at 2026-11-21T08:00:00Z
        headrace audit replay --at 24h                          a day ago
        headrace audit replay --at 81234                        after record 81234, as `audit log` numbers them
        headrace audit replay --at 81234 --json > then.json
        headrace audit replay --all-tenants                     of all tenants, now; for the provider

        A tenant sees its own jobs and documents, and of pools and nodes what `headrace pools` and `headrace nodes` show it.""",
    )
    parser.add_argument(
        "--at",
        type=point,
        default=LedgerPoint(),
        metavar="TIME|SEQ",
        help="a time, a duration ago such as 24h, or the number of a record (default: now)",
    )
    add_all_tenants(parser)
    add_login_options(parser)


def add_diff(verbs: Nouns) -> None:
    """Add `headrace audit diff`."""
    parser = add_command(
        verbs,
        "diff",
        diff,
        "print what differs between two moments: documents, nodes, use of pools, jobs",
        """headrace audit diff 24h 1h                    what changed between a day and an hour ago
        headrace audit diff 81234 81300
        headrace audit diff 2026-11-21T08:00:00Z              from then until now
        headrace audit diff 1h --all-tenants --json

        + added, - removed, ~ changed. What was added and removed in between is not shown; `headrace audit log` has it.""",
    )
    parser.add_argument("before", type=point, metavar="A", help="a moment, a span ago, or a record")
    parser.add_argument("after", type=point, nargs="?", default=LedgerPoint(), metavar="B", help="a later one (default: now)")
    add_all_tenants(parser)
    add_login_options(parser)


def point(text: str) -> LedgerPoint:
    """Point in the ledger: a sequence or a time, for argparse."""
    if text.isascii() and text.isdecimal():
        if not int(text):
            raise argparse.ArgumentTypeError("records are numbered from 1")
        return LedgerPoint(sequence=int(text))
    return LedgerPoint(at=moment(text))


@asking
async def replay_state(args: argparse.Namespace) -> int:
    """Print the state, read page by page."""
    async with client(args) as hr:
        whole = await _whole(hr, args.at, all_tenants=args.all_tenants)
    print(as_json(whole) if args.json else shown(whole))
    return 0


async def _whole(hr: Client, at: LedgerPoint, *, all_tenants: bool) -> PastView:
    pages: list[PastView] = []
    async for page in hr.state(at, all_tenants=all_tenants):
        pages.append(page)
        if page.next and sys.stderr.isatty():
            progress(f"{sum(len(each.jobs) for each in pages)} jobs")
    return replace(pages[0], jobs=tuple(job for page in pages for job in page.jobs), next="")


def shown(view: PastView) -> str:
    """The state as tables, for people."""
    more = f"; the ledger goes on to record {view.tip}" if view.tip > view.sequence else ""
    parts = [f"After record {view.sequence}, {local(view.now)}{more}"]
    if view.documents:
        parts.append(table(("KIND", "NAME", "REVISION", "CLOSED", "DOCUMENT"), map(_document_row, view.documents)))
    parts += [pool_table(view.pools)] if view.pools else []
    parts += [node_table(view.nodes)] if view.nodes else []
    parts += [queue_table(view.queues)] if view.queues else []
    holding = [job for job in view.jobs if job.leases]
    waiting = [job for job in view.jobs if not job.leases]
    if holding:
        parts.append(table(HELD, (row for job in holding for row in _lease_rows(job))))
    if waiting:
        parts.append(table(WAITED, map(_waiting_row, waiting)))
    counts = ", ".join(f"{count} {state}" for state, count in view.counts.items())
    parts.append(f"Jobs known: {counts or 'none'}.")
    return "\n\n".join(parts)


def _document_row(view: DocumentView) -> tuple[object, ...]:
    named = ("tenant", "name", "handle")
    rest = {key: value for key, value in view.document.items() if key not in named}
    text = json.dumps(rest, ensure_ascii=False).replace('"', "").removeprefix("{").removesuffix("}")
    return view.kind, view.name, view.revision or "", view.closed, text


def _lease_rows(job: PastJob) -> Iterator[tuple[object, ...]]:
    first: tuple[object, ...] = (job.job, job.name, job.queue, job.state, job.attempt)
    for lease in job.leases:
        state = " (overdue)" if lease.overdue else " (suspended)" if lease.suspended else ""
        where = (lease.node + state, lease.pool, " ".join(lease.devices))
        yield (*first, *where, amounts(lease.amounts), local(lease.granted_at))
        first = ("", "", "", "", "")


def _waiting_row(job: PastJob) -> tuple[object, ...]:
    asks = amounts(job.request) + (f" x {job.replicas}" if job.replicas > 1 else "")
    return job.job, job.name, job.queue, job.state, asks, local(job.since), job.reason, job.message


@asking
async def diff(args: argparse.Namespace) -> int:
    """Print the differences between two points."""
    async with client(args) as hr:
        request = DiffRequest(before=args.before, after=args.after)
        found = await hr.diff(request, all_tenants=args.all_tenants)
    print(as_json(found) if args.json else shown_difference(found))
    return 0


def shown_difference(found: DiffView) -> str:
    """One line for each changed object or job."""
    title = f"From record {found.before}, {local(found.before_now)}, to record {found.after}, {local(found.after_now)}"
    if not found.changes:
        return f"{title}: no differences."
    lines = [title, *map(_line, found.changes)]
    if found.more:
        lines.append(f"and {found.more} more: choose two moments that are closer to each other")
    return "\n".join(lines)


def _line(change: StateChange) -> str:
    if change.change == "added":
        fields = ", ".join(
            f"{name} {now}" for name, (_, now) in change.fields.items() if now and name not in ("name", "tenant")
        )
    elif change.change == "removed":
        fields = ""
    else:
        fields = ", ".join(f"{name}: {was or '-'} -> {now or '-'}" for name, (was, now) in change.fields.items())
    text = f"{SIGNS[change.change]} {change.kind} {change.name}  {fields}".rstrip()
    return "".join(character if character.isprintable() else "?" for character in text)
