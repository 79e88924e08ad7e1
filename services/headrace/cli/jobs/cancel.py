"""`headrace cancel`: end jobs by their ids or names, or by filters; pending jobs end first."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from headrace.cli.arguments import Failed, Nouns, add_command, add_login_options, client
from headrace.cli.jobs.follow import known
from headrace.cli.jobs.names import UNENDED, find_unended_job, split_part
from headrace.cli.jobs.selection import add_selection, agreed, is_by_filters, select
from headrace.client import Client, Refused
from headrace.contracts.messages.queries import FINAL, JobView
from headrace.contracts.messages.submissions import CANCELS_MAX

LOOKUPS_MAX = 50

EXAMPLES = """
headrace cancel 01jd3v8k5w2m4x6z8b0c2e4g6h
headrace cancel train                                     by its name, if one job of that name has not ended
headrace cancel sweep:0-9,20                              a part of an array, by its indices
headrace cancel last --reason "wrong data"                what was submitted last
headrace cancel --name 'sweep-*'                          all of a sweep; shows how many, and asks for confirmation
headrace cancel --queue ai-dev/half --state pending --yes what waits in a queue, without confirmation
headrace cancel --label run=7 --owner bob                 another user's, with a login that may act for them
"""


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns, "cancel", cancel, "end jobs: pending ones at once, running ones with time to save their work", EXAMPLES
    )
    add_selection(parser, UNENDED, "cancelled")
    add_login_options(parser, json=False)


async def cancel(args: argparse.Namespace) -> int:
    """Cancel the jobs that are named, or those that the filters select."""
    by_filters = is_by_filters(args)
    async with client(args) as hr:
        return await (_cancel_selected(hr, args) if by_filters else _cancel_named(hr, args))


async def _cancel_named(hr: Client, args: argparse.Namespace) -> int:
    """Look each job up first: a wrong id is reported at once, and an administrator may cancel any user's job. The others are cancelled."""
    gate = asyncio.Semaphore(LOOKUPS_MAX)

    async def find(name: str) -> JobView | Refused | Failed:
        async with gate:
            try:
                return await known(hr, await find_unended_job(hr, split_part(name)[0]))
            except (Refused, Failed) as refusal:
                return refusal

    found: dict[str, JobView] = {}
    parts: list[tuple[JobView, str]] = []
    refused = 0
    for name, view in zip(args.jobs, await asyncio.gather(*map(find, args.jobs)), strict=True):
        part = split_part(name)[1] if isinstance(view, JobView) else ""
        if isinstance(view, JobView) and part and not view.array:
            view = Failed(f"{view.id} is not an array; leave out :{part}")  # noqa: PLW2901
        if isinstance(view, JobView) and view.state not in FINAL:
            if part:
                parts.append((view, part))
            else:
                found[view.job] = view
            continue
        refused = 1
        why = f"{view.id} has ended already: it is {view.state}" if isinstance(view, JobView) else view
        print(f"headrace: {why}", file=sys.stderr)
    await _cancel(hr, list(found.values()), args.reason)
    for view in found.values():
        print(f"{view.id} will end")
    for view, part in parts:
        try:
            await hr.cancel(view.job, args.reason, elements=part)
        except Refused as refusal:
            refused = 1
            print(f"headrace: {refusal}", file=sys.stderr)
            continue
        print(f"{view.id}:{part} will end")
    return refused


async def _cancel_selected(hr: Client, args: argparse.Namespace) -> int:
    """Print how many jobs are selected, ask, and cancel them."""
    found, what = await select(hr, args, UNENDED)
    if not found:
        print("No such jobs.")
        return 0
    if not args.yes and not agreed(f"{what} will be cancelled. Continue? [y/N] "):
        print("Nothing is cancelled.")
        return 1
    await _cancel(hr, found[::-1], args.reason)
    print(f"{what} will end")
    return 0


async def _cancel(hr: Client, views: Sequence[JobView], reason: str) -> None:
    """Cancel in one message if the jobs fit into it.

    Otherwise pending jobs end first, so that none of them starts on what running jobs release.
    """
    one = len(views) <= CANCELS_MAX and len({view.user for view in views}) == 1
    parts = [views] if one else [[view for view in views if (view.state == "pending") is waits] for waits in (True, False)]
    for part in parts:
        if part:
            await hr.cancel_many([view.job for view in part], reason)
