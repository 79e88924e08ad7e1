"""`headrace tenant erase`: makes the texts of a tenant's jobs unreadable for ever."""

from __future__ import annotations

import argparse

from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_login_options, asking, client
from headrace.cli.output.formatting import as_json
from headrace.contracts.messages.queries import EraseRequest


def add(nouns: Nouns) -> None:
    tenant = add_command(nouns, "tenant", _nothing, "erase the commands of a tenant's jobs", "headrace tenant erase acme --yes")
    verbs = tenant.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    verb = add_command(
        verbs,
        "erase",
        erase,
        "destroy the key of a tenant's texts: commands, environments and images of its jobs can never be read again; the history stays",
        "headrace tenant erase acme --yes --reason 'contract ended'",
    )
    verb.add_argument("name", metavar="TENANT")
    verb.add_argument("--yes", action="store_true", help="confirm; this cannot be undone")
    verb.add_argument("--reason", default="", help="stored with the fact")
    add_login_options(verb)


def _nothing(args: argparse.Namespace) -> int:
    raise AssertionError(args)


@asking
async def erase(args: argparse.Namespace) -> int:
    """Erase the tenant's key; returns when that is recorded and done."""
    if not args.yes:
        raise Failed(f"--yes is missing: what the jobs of {args.name} ran can never be read again")
    async with client(args) as hr:
        answer = await hr.erase(EraseRequest(tenant=args.name, reason=args.reason))
    print(as_json(answer) if args.json else f"the texts of {args.name} are erased")
    return 0
