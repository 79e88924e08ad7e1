"""`headrace cancel`: end jobs by their ids or by filters; pending jobs end first."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence

from headrace.cli.arguments import Failed, Nouns, add_command, add_login_options, client
from headrace.cli.jobs.follow import known
from headrace.cli.jobs.jobs import add_filters
from headrace.client import Client, Refused
from headrace.client.client import FINAL
from headrace.contracts.messages.queries import JobView
from headrace.contracts.messages.submissions import CANCELS_MAX

STATES = ("pending", "running", "preempting", "suspended")
SELECTED_MAX = 10_000
LOOKUPS_MAX = 50

EXAMPLES = """
headrace cancel 01jd3v8k5w2m4x6z8b0c2e4g6h
headrace cancel 01jd3v8k5w2m4x6z8b0c2e4g6h --reason "wrong data"
headrace cancel --name 'sweep-*'                          all of a sweep: it says how many, and asks
headrace cancel --queue ai-dev/half --state pending --yes what waits in a queue, without a question
headrace cancel --label run=7 --owner bob                 another user's, with a login that may speak for them
"""


def add(nouns: Nouns) -> None:
    parser = add_command(nouns, "cancel", cancel, "end jobs: pending ones at once, running ones by their ladder", EXAMPLES)
    parser.add_argument("jobs", nargs="*", metavar="ID", help="which; or say by the flags below which jobs that have not ended")
    add_filters(parser)
    parser.add_argument("--state", action="append", default=[], choices=STATES, help="only these; may be given several times")
    parser.add_argument("--owner", default="", metavar="USER", help="this user's jobs (default: those of who asks)")
    parser.add_argument("--everybody", action="store_true", help="the jobs of all users of the tenant")
    parser.add_argument("--yes", action="store_true", help="do not ask before the jobs that the flags select are cancelled")
    parser.add_argument("--reason", default="", help="stored with the request")
    add_login_options(parser, json=False)


async def cancel(args: argparse.Namespace) -> int:
    """Cancel the jobs that are named, or those that the filters select."""
    selects = args.queue or args.name or args.label or args.state or args.owner or args.everybody
    if bool(args.jobs) == bool(selects):
        raise Failed("name the jobs by their ids, or say which by --name, --label, --queue, --state, --owner or --everybody")
    if args.owner and args.everybody:
        raise Failed("--owner and --everybody: say one of them")
    async with client(args) as hr:
        return await (_cancel_named(hr, args) if args.jobs else _cancel_selected(hr, args))


async def _cancel_named(hr: Client, args: argparse.Namespace) -> int:
    """Look each job up first: a wrong id is reported at once, and an administrator may cancel any user's job. The others are cancelled."""
    gate = asyncio.Semaphore(LOOKUPS_MAX)

    async def look(name: str) -> JobView | Refused:
        async with gate:
            try:
                return await known(hr, name)
            except Refused as refusal:
                return refusal

    found: dict[str, JobView] = {}
    refused = 0
    for view in await asyncio.gather(*map(look, args.jobs)):
        if isinstance(view, JobView) and view.state not in FINAL:
            found[view.job] = view
            continue
        refused = 1
        why = view if isinstance(view, Refused) else f"{view.id} has ended already: it is {view.state}"
        print(f"headrace: {why}", file=sys.stderr)
    await _cancel(hr, list(found.values()), args.reason)
    for view in found.values():
        print(f"{view.id} will end")
    return refused


async def _cancel_selected(hr: Client, args: argparse.Namespace) -> int:
    """Print how many jobs are selected, ask, and cancel them."""
    owner = "" if args.everybody else args.owner or hr.user
    states = args.state or STATES
    found = await hr.jobs(
        states=states, queue=args.queue, user=owner, limit=SELECTED_MAX, name=args.name, labels=dict(args.label)
    )
    if not found:
        print("No such jobs.")
        return 0
    counted = Counter(view.state for view in found)
    what = f"{len(found)} jobs" if len(found) > 1 else "1 job"
    what += f" ({', '.join(f'{counted[state]} {state}' for state in STATES if counted[state])})"
    if len(found) == SELECTED_MAX:
        what += ", and there may be more: cancel again for the rest"
    if not args.yes and not _agreed(f"{what} will be cancelled. Go on? [y/N] "):
        print("Nothing is cancelled.")
        return 1
    await _cancel(hr, found[::-1], args.reason)
    print(f"{what} will end")
    return 0


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise Failed(f"{question.partition(' Go on?')[0]} Add --yes: standard input is not a terminal to ask at")
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


async def _cancel(hr: Client, views: Sequence[JobView], reason: str) -> None:
    """Cancel in one message if the jobs fit into it.

    Otherwise pending jobs end first, so that none of them starts on what running jobs release.
    """
    one = len(views) <= CANCELS_MAX and len({view.user for view in views}) == 1
    parts = [views] if one else [[view for view in views if (view.state == "pending") is waits] for waits in (True, False)]
    for part in parts:
        if part:
            await hr.cancel_many([view.job for view in part], reason)
