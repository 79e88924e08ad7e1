"""`headrace top`: the cluster in a terminal."""

from __future__ import annotations

import argparse
import importlib.util
import sys

from headrace.cli.arguments import Failed, Nouns, add_command, add_where_options, client


def add(nouns: Nouns) -> None:
    verb = add_command(
        nouns,
        "top",
        top,
        "show pools, GPUs, queues and events in this terminal, live or as of an earlier record",
        """headrace top
        headrace top --context work

        Keys: w why a job waits, / filter, t go to a record, left and right step records, l live, q quit.""",
    )
    add_where_options(verb)


async def top(args: argparse.Namespace) -> int:
    """Show the view until the user leaves it."""
    if importlib.util.find_spec("textual") is None:
        raise Failed("textual is not installed: pip install 'headrace[top]'")
    if not sys.stdout.isatty():
        raise Failed("standard output is not a terminal; `headrace pools`, `queues` and `jobs` print the same")
    from headrace.cli.top.screen import Top  # noqa: PLC0415  # an extra, and slow to import

    asker = argparse.Namespace(data=args.data, server=args.server, context=args.context, tenant="", user="")
    async with client(asker) as hr:
        await hr.overview()  # a wrong address or token is reported before the screen is taken
        await Top(hr).run_async()
    return 0
