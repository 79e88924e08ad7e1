"""`headrace page`: a link to the page that logs a browser in once."""

from __future__ import annotations

import argparse
import webbrowser

from headrace.cli.arguments import Failed, Nouns, add_command, add_where_options, client, span
from headrace.client.endpoint import data_directory, read_endpoint
from headrace.contracts.values.durations import HOUR

STAYS_FOR = 12 * HOUR
"""How long the owner stays logged in, in microseconds."""


def add(nouns: Nouns) -> None:
    verb = add_command(
        nouns,
        "page",
        page,
        "print a link to the web page that logs a browser in; it works once",
        """headrace page
        headrace page --open
        headrace page --context work            the page of another installation, with that context's token""",
    )
    verb.add_argument("--open", action="store_true", help="open it in this machine's browser as well")
    verb.add_argument(
        "--expires", type=span, default=STAYS_FOR, metavar="SPAN", help="how long the owner stays logged in (default: 12h)"
    )
    add_where_options(verb)


async def page(args: argparse.Namespace) -> int:
    """Print the link, which counts once and for ten minutes."""
    asker = argparse.Namespace(data=args.data, server=args.server, context=args.context, tenant="", user="")
    async with client(asker) as hr:
        server = hr.called.target.server
        if not server:
            endpoint = read_endpoint(data_directory(args.data))
            server = endpoint.api if endpoint is not None else ""
        if not server:
            raise Failed("the API has no address that a browser can open; `headrace status` shows what is not running")
        link = await hr.login_link(server, args.expires)
    print(link)
    if args.open and not webbrowser.open(link):
        raise Failed("no browser was found on this machine; open the link yourself")
    return 0
