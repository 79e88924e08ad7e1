"""`headrace user erase`: makes a person's identity and the texts of their jobs unreadable for ever."""

from __future__ import annotations

import argparse

from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_login_options, asking, client
from headrace.cli.output.formatting import as_json
from headrace.contracts.messages.queries import EraseRequest


def add(nouns: Nouns) -> None:
    user = add_command(nouns, "user", _nothing, "erase a person", "headrace user erase alice --yes")
    verbs = user.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    verb = add_command(
        verbs,
        "erase",
        erase,
        "destroy a person's key: who they were, and what their jobs ran, can never be read again; the history stays, under a pseudonym",
        """headrace user erase alice --yes --reason 'asked to be forgotten'
        headrace user erase acme/alice --yes

        No record is changed. The handle stays in the records, and in tables and files made of them, so do not use names as handles. Audit,
        books, jobs and FEED show one pseudonym instead, also for earlier times (messages of FEED are deleted within 10 minutes).
        First remove the person from groups, and cancel their jobs. Older backups have the key: destroy them. Nodes remove what a
        job ran (command, environment) from their disks when it ends; a node that is down does so when it starts again. Output
        and files of jobs stay on nodes as long as --keep of `headrace node run` says, checkpoints until they are removed by hand.""",
    )
    verb.add_argument("name", metavar="[TENANT/]USER")
    verb.add_argument("--yes", action="store_true", help="confirm; this cannot be undone")
    verb.add_argument("--reason", default="", help="stored with the fact")
    add_login_options(verb)


def _nothing(args: argparse.Namespace) -> int:
    raise AssertionError(args)


@asking
async def erase(args: argparse.Namespace) -> int:
    """Erase the person's key; returns when that is recorded and done."""
    tenant, _, user = args.name.rpartition("/")
    tenant = tenant or args.tenant or "default"
    if not args.yes:
        raise Failed(f"--yes is missing: who {user} of {tenant} was, and what their jobs ran, can never be read again")
    async with client(args) as hr:
        answer = await hr.erase(EraseRequest(tenant=tenant, user=user, reason=args.reason))
    print(as_json(answer) if args.json else f"{user} of {tenant} is {answer.changes[0].fields[0]}")
    return 0
