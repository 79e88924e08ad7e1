"""`headrace apply`, `get`, `delete`: governance documents, as they are written and as they are in force."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from headrace.cli.arguments import Failed, Nouns, add_command, add_login_options, asking, client, did_you_mean
from headrace.cli.output.formatting import as_json
from headrace.client import Refused
from headrace.contracts.documents.file import read_file
from headrace.contracts.documents.model import KINDS
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import DocumentErrors, Tree, join_trees
from headrace.contracts.documents.yaml_text import write_yaml
from headrace.contracts.messages.queries import ApplyAnswer, ApplyRequest, Change, DeleteRequest
from headrace.contracts.transport.encoding import Malformed, decode

PLURALS = {"policy": "policies"} | {kind: f"{kind}s" for kind in KINDS if kind != "policy"}
_SIGNS = {"create": "+", "update": "~", "delete": "-", "keep": "="}


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "apply",
        apply,
        "apply governance documents, all or none",
        """headrace apply -f pools.yaml policies.yaml
        headrace apply -f policies.yaml --dry-run                 what it would change, and how many jobs it would touch
        headrace get policy | sed s/acme/emca/ | headrace apply -f -""",
    )
    parser.add_argument(
        "-f", "--file", nargs="+", action="extend", required=True, metavar="FILE", help="YAML or JSON; - is standard input"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the plan, write nothing")
    parser.add_argument("--reason", default="", help="stored with the facts")
    add_login_options(parser)
    kinds = ", ".join(KINDS)
    parser = add_command(
        nouns,
        "get",
        get,
        "print the documents in force, in a form that `apply` takes",
        "headrace get policy\nheadrace get policy ai-dev\nheadrace get pool onprem --json",
    )
    parser.add_argument("kind", metavar="KIND", type=_kind, help=kinds)
    parser.add_argument("name", metavar="NAME", nargs="?", default="")
    add_login_options(parser)
    parser = add_command(
        nouns,
        "delete",
        delete,
        "delete a document that is not in use, or close one that is",
        """headrace delete profile half
        headrace delete policy ai-dev --tenant acme --mode drain     running jobs continue; the policy is deleted when they have ended
        headrace get policy ai-dev | headrace apply -f -             open it again""",
    )
    parser.add_argument("kind", metavar="KIND", type=_kind, help=kinds)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--mode",
        default="",
        help="freeze: keep everything, start nothing; drain: start nothing, delete when running jobs have ended; "
        "cancel: cancel pending jobs, stop running ones, then delete (default: refuse while it is in use)",
    )
    parser.add_argument("--reason", default="", help="stored with the fact")
    add_login_options(parser)


def _kind(text: str) -> str:
    kind = {plural: kind for kind, plural in PLURALS.items()}.get(text, text)
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(
            f"unknown kind {text[:80]!r}{did_you_mean(text, KINDS)}; choose one of {', '.join(KINDS)}"
        )
    return kind


@asking
async def apply(args: argparse.Namespace) -> int:
    """Read the files, check them, send them, and print the plan."""
    tree = read_files(args.file)
    request = ApplyRequest(documents=tree.value, dry_run=args.dry_run, reason=args.reason)
    async with client(args) as hr:
        try:
            answer = await hr.apply(request)
        except Refused as refusal:
            _print_refusal(refusal)
            raise Failed from None
    if args.json:
        print(as_json(answer))
    else:
        _print_answer(answer, dry_run=args.dry_run)
    return 0


@asking
async def get(args: argparse.Namespace) -> int:
    """Print documents as YAML under the plural of their kind."""
    async with client(args) as hr:
        answer = await hr.documents(args.kind, args.name)
    if args.json:
        print(as_json(answer.documents))
    else:
        print(write_yaml({PLURALS[args.kind]: [view.document for view in answer.documents]}), end="")
    return 0


@asking
async def delete(args: argparse.Namespace) -> int:
    """Delete or close one object."""
    request = DeleteRequest(kind=args.kind, name=args.name, tenant=args.tenant, mode=args.mode, reason=args.reason)
    async with client(args) as hr:
        answer = await hr.delete(request)
    if args.json:
        print(as_json(answer))
    else:
        _print_answer(answer, dry_run=False)
    return 0


def read_files(files: list[str], check: Callable[[Tree], object] = read_documents) -> Tree:
    """All files as one tree. Every error that `check` can find without the server is printed with file and line."""
    trees: list[Tree] = []
    wrong = False
    for name in files:
        try:
            tree = read_file(name)
            check(tree)
            trees.append(tree)
        except DocumentErrors as errors:
            wrong = True
            for error in errors.errors:
                print(f"headrace: {name}: {error}", file=sys.stderr)
    if wrong:
        raise Failed
    try:
        return join_trees(trees)
    except DocumentErrors as errors:
        raise Failed(str(errors.errors[0])) from None


def _print_refusal(refusal: Refused) -> None:
    """Print the refusal: one line for each error."""
    try:
        plan = decode(refusal.body, ApplyAnswer)
    except Malformed:
        plan = ApplyAnswer(changes=())
    for line in plan.errors or (str(refusal),):
        print(f"headrace: {line}", file=sys.stderr)
    if refusal.code == "STALE":
        _print_changes(plan.changes)


def _print_answer(answer: ApplyAnswer, *, dry_run: bool) -> None:
    _print_changes(answer.changes)
    for warning in answer.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    changes = sum(change.action != "keep" for change in answer.changes)
    touched = (
        f"; affects {answer.running} running and {answer.pending} pending jobs" if answer.running or answer.pending else ""
    )
    if not changes:
        print("Nothing to change.")
    elif dry_run:
        print(f"Dry run: nothing is written{touched}.")
    else:
        print(f"Applied as revision {answer.revision}{touched}.")


def _print_changes(changes: tuple[Change, ...]) -> None:
    for change in changes:
        print(f"{_SIGNS.get(change.action, '?')} {change.kind} {change.name}")
        for field in change.fields if change.action == "update" else ():
            print(f"    {field}")
