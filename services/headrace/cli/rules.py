"""`headrace rules`: the rules that decisions cite, as docs/rules.md has them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.cli.arguments import Failed, Nouns, add_command, add_json
from headrace.cli.output.formatting import as_json
from headrace.cli.output.tables import table

PAGE = "rules.md"
_HEADING = re.compile(r"^### (R[0-9]+): (.*?) *(?:\{[^}]*\})?$")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Rule(NamedTuple):
    """A rule's number such as `R26`, its title, and its text without links."""

    rule: str
    title: str
    text: str


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "rules",
        rules,
        "print a rule by the number that decisions and messages cite; without a number list all rules",
        "headrace rules\nheadrace rules R26\nheadrace rules R15 R16 --json",
    )
    parser.add_argument("numbers", nargs="*", metavar="RULE", help="which, such as R26")
    add_json(parser)


def rules(args: argparse.Namespace) -> int:
    """Print the rules that are named, or the list of all."""
    known = {rule.rule: rule for rule in read_rules(_page())}
    chosen = list(known.values())
    if args.numbers:
        chosen = [_find(known, number) for number in args.numbers]
    if args.json:
        print(as_json([rule._asdict() for rule in chosen]))
    elif args.numbers:
        print("\n\n".join(f"{rule.rule}: {rule.title}\n\n{rule.text}" for rule in chosen))
    else:
        print(table(("RULE", "SAYS"), ((rule.rule, rule.title) for rule in chosen)))
    return 0


def _find(known: dict[str, Rule], number: str) -> Rule:
    try:
        return known[f"R{int(number.upper().removeprefix('R'))}"]
    except (KeyError, ValueError):
        first, *_, last = known
        raise Failed(
            f"there is no rule {number[:40]!r}; there are {first} to {last}, and `headrace rules` lists them"
        ) from None


def read_rules(page: str) -> Iterator[Rule]:
    """The rules of a page, in its order."""
    heading: re.Match[str] | None = None
    lines: list[str] = []
    for line in (*page.splitlines(), "## "):
        if line.startswith(("## ", "### ")):
            if heading is not None:
                yield Rule(heading[1], heading[2], _LINK.sub(r"\1", "\n".join(lines)).strip())
            heading, lines = _HEADING.match(line), []
        else:
            lines.append(line)


def _page() -> str:
    """The page of this release: part of the package, or of the checkout that is installed for development."""
    packaged, checkout = Path(__file__).with_name(PAGE), Path(__file__).parents[3] / "docs" / PAGE
    return (packaged if packaged.exists() else checkout).read_text("utf-8")
