"""How commands are spelt: the parser that complains in one line, the flags that several commands have, and who they connect as."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from headrace.client import Client, connect
from headrace.contracts.values.durations import DurationError, parse_duration, parse_time

Command = Callable[[argparse.Namespace], "int | Coroutine[Any, Any, int]"]
"""What a command does: its exit code."""

Nouns = Any
"""What `add_subparsers` gives; argparse keeps its type to itself."""


class Failed(Exception):
    """The command could not do it; one line that names the field and the way out. No text: it has been said already."""


class Parser(argparse.ArgumentParser):
    """Complains in one line, and shows examples as they are written."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """One line, and exit code 2."""
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` shows how\n")


def add_command(nouns: Nouns, name: str, run: Command, says: str, examples: str = "") -> Parser:
    """One command; `says` is its line in the list, `examples` stand below its flags, a line each."""
    lines = "".join(f"  {line.strip()}\n" for line in examples.strip().splitlines())
    parser: Parser = nouns.add_parser(name, help=says, description=says, epilog=f"examples:\n{lines}" if lines else "")
    parser.set_defaults(run=run)
    return parser


def add_place(parser: Parser) -> None:
    """Which installation."""
    parser.add_argument(
        "--data", metavar="DIR", help="the installation's data directory (default: HEADRACE_DATA, else ~/.local/share/headrace)"
    )


def add_asker(parser: Parser, *, json: bool = True) -> None:
    """Which installation, as whom, and in which form the answer comes."""
    add_place(parser)
    parser.add_argument("--tenant", default="", help="speak in this tenant (default: the login's)")
    parser.add_argument(
        "--user", default="", help="speak as this user; an admin's login, as `headrace up` makes it, may be anybody"
    )
    if json:
        add_json(parser)


def add_json(parser: Parser) -> None:
    """For programs."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def client(args: argparse.Namespace) -> Client:
    """A client as the flags of `add_asker` say."""
    return connect(data=args.data, tenant=args.tenant, user=args.user)


def key_value(text: str) -> tuple[str, str]:
    """`KEY=VALUE`, for argparse."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no KEY=VALUE")
    return key, value


def names(text: str) -> tuple[str, ...]:
    """`a,b`, for argparse."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def moment(text: str) -> int:
    """Microseconds since 1970 for an ISO 8601 moment, or for a span before now (`24h`), for argparse."""
    try:
        return time.time_ns() // 1_000 - parse_duration(text)
    except DurationError:
        pass
    try:
        return parse_time(text)
    except DurationError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no moment; write 2026-11-21T08:00:00Z, 2026-11-21, or 24h for a day ago"
        ) from None


def span(text: str) -> int:
    """Microseconds for `90s`, `10m`, `2d`, for argparse."""
    try:
        return parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def instant(text: str) -> tuple[int, int]:
    """(ledger sequence, microseconds since 1970), one of them 0: a number is a sequence, all else a `moment`; for argparse."""
    if text.isdecimal():
        return positive(text), 0
    try:
        return 0, moment(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or a record's number such as 81234") from None


def currency(text: str) -> str:
    """Three letters of ISO 4217, for argparse."""
    if not (len(text) == 3 and text.isascii() and text.isupper()):
        raise argparse.ArgumentTypeError(f"{text!r} is no currency; write three letters of ISO 4217, such as EUR")
    return text


def positive(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def natural(text: str) -> int:
    """A whole number from 0 on, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return int(text)
