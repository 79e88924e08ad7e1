"""`headrace context add`, `use`, `list`, `remove`: named installations and their tokens."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from msgspec import structs

from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_json
from headrace.cli.output.tables import table
from headrace.client.api import Api, ApiTarget
from headrace.client.contexts import LOCAL, Context, Contexts, contexts_file, read_contexts, write_contexts
from headrace.client.endpoint import TOKEN
from headrace.contracts.messages.tokens import read_bearer
from headrace.contracts.values.ids import is_token

THIS_MACHINE = "the installation on this machine"


def add(nouns: Nouns) -> None:
    family = add_command(
        nouns,
        "context",
        _nothing,
        "choose the installation that commands use, by a name",
        """headrace context add work --server https://headrace.example:8080 --token-file token.txt
        headrace context use work                    from now on; `headrace context use local`: the one on this machine
        headrace --help                              commands take --context NAME as well""",
    )
    verbs = family.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    verb = add_command(
        verbs,
        "add",
        add_context,
        "add an installation, or replace it; the first one becomes the current one",
        """headrace context add work --server https://headrace.example:8080 --token-file token.txt
        HEADRACE_TOKEN=... headrace context add work --server https://headrace.example:8080 --ca ca.pem""",
    )
    verb.add_argument("name", metavar="NAME", type=_name)
    verb.add_argument("--server", required=True, metavar="URL", help="the API's address, https://HOST:PORT")
    verb.add_argument(
        "--token-file", metavar="FILE", help="a file with the token, - is standard input (default: HEADRACE_TOKEN)"
    )
    verb.add_argument("--ca", default="", metavar="FILE", help="the certificate authority of the API (default: this machine's)")
    verb.add_argument("--tenant", default="", help="act in this tenant (default: that of the token)")
    verb.add_argument("--user", default="", help="act as this user (default: that of the token)")
    verb = add_command(
        verbs, "use", use, "make a context the current one", "headrace context use work\nheadrace context use local"
    )
    verb.add_argument("name", metavar="NAME")
    verb = add_command(verbs, "list", list_contexts, "list the contexts, without their tokens", "headrace context list")
    add_json(verb)
    verb = add_command(verbs, "remove", remove, "remove a context and its token", "headrace context remove work")
    verb.add_argument("name", metavar="NAME")


def _nothing(args: argparse.Namespace) -> int:
    raise AssertionError(args)


def _name(text: str) -> str:
    if not is_token(text) or text == LOCAL:
        raise argparse.ArgumentTypeError(f"invalid name {text!r}: use 1-63 of a-z, 0-9, '-', and not {LOCAL!r}")
    return text


def add_context(args: argparse.Namespace) -> int:
    """Store a context after checking its form; whether it answers is seen by the next command."""
    token = _token(args.token_file)
    ca = str(Path(args.ca).expanduser().absolute()) if args.ca else ""
    context = Context(server=args.server.rstrip("/"), token=token, ca=ca, tenant=args.tenant, user=args.user)
    Api(ApiTarget(server=context.server, token=token, ca=ca))  # checks the address and the authority's file
    path = contexts_file()
    known = read_contexts(path)
    current = known.current or args.name
    write_contexts(path, Contexts(current=current, contexts=known.contexts | {args.name: context}))
    now = "" if current == args.name else f"; `headrace context use {args.name}` makes it the current one"
    print(f"{args.name} is {context.server}{now}")
    return 0


def _token(file: str | None) -> str:
    try:
        text = os.environ.get(TOKEN, "") if file is None else sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
        raise Failed(f"--token-file: {file} cannot be read: {why}") from None
    token = text.strip()
    if file is not None and (not token or len(token.split()) != 1):
        raise Failed(f"--token-file: {file} has no token; `headrace token create` prints one")
    return token


def use(args: argparse.Namespace) -> int:
    """Make a context the current one."""
    path = contexts_file()
    known = read_contexts(path)
    name = "" if args.name == LOCAL else args.name
    server = known.named(name).server if name else THIS_MACHINE
    write_contexts(path, structs.replace(known, current=name))
    print(f"commands use {server} from now on")
    return 0


def list_contexts(args: argparse.Namespace) -> int:
    """Print the contexts; tokens are not shown."""
    known = read_contexts(contexts_file())
    rows = [
        {
            "name": name,
            "current": name == known.current,
            "server": one.server,
            "tenant": one.tenant or _spoken(one)[0],
            "user": one.user or _spoken(one)[1],
            "ca": one.ca,
            "token": bool(one.token),
        }
        for name, one in sorted(known.contexts.items())
    ]
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    shown = [("*" if row["current"] else "", *(row[key] for key in ("name", "server", "tenant", "user"))) for row in rows]
    local = ("" if known.current else "*", LOCAL, THIS_MACHINE, "", "")
    print(table(("CURRENT", "NAME", "SERVER", "TENANT", "USER"), [local, *shown]))
    return 0


def _spoken(context: Context) -> tuple[str, str]:
    spoken = read_bearer(context.token)
    return ("", "") if spoken is None else (spoken.tenant, spoken.handle)


def remove(args: argparse.Namespace) -> int:
    """Remove a context; if it was the current one, commands speak to the installation on this machine."""
    path = contexts_file()
    known = read_contexts(path)
    known.named(args.name)
    rest = {name: one for name, one in known.contexts.items() if name != args.name}
    write_contexts(path, Contexts(current="" if known.current == args.name else known.current, contexts=rest))
    print(f"{args.name} is removed")
    return 0
