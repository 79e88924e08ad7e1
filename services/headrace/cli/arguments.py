"""Command-line parsing: a parser with one-line errors, options that several commands share, and argument types."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.contracts.values.durations import DurationError, parse_duration, parse_time

if TYPE_CHECKING:
    from headrace.client import Client

Command = Callable[[argparse.Namespace], "int | Coroutine[Any, Any, int]"]
"""Body of a command; returns its exit code."""

Nouns = Any
"""Result of `add_subparsers`; argparse does not export its type."""


COMMAND = "command"
"""Name of the argument that holds the words of a command with options of its own."""
CHOICES_SHOWN = 12
NUMBER_MAX = 2**63 - 1
_NEGATIVE = re.compile(r"-\.?[0-9]")
_WHOLE = re.compile(r"-?[0-9]{1,20}")


class Failed(Exception):
    """A command failed. The text is one line that names the field and the way out; it is empty if the reason was printed already."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse makes a formatter for each option, and would import an archiver to learn the width."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


@cache
def _columns() -> int:
    """Columns of the terminal: `COLUMNS`, else its own, else 80."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


class Parser(argparse.ArgumentParser):
    """Argument parser that reports errors in one line, names the word that was probably meant, and prints examples as they are written."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **settings)
        self._negative_number_matcher = (
            _NEGATIVE  # so that -5m is the value of --since, which says what it takes, and no option
        )

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with code 2."""
        stop = "" if message.endswith("?") else ";"
        self.exit(2, f"{self.prog}: {message}{stop} `{self.prog} --help` shows how\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write a help or an error; the base ignores that it cannot be written."""
        if message:
            (file or sys.stderr).write(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the base; an unknown option is reported before what is missing, which may be what was misspelt."""
        self._refuse_unknown_options(args or ())
        return super().parse_known_args(args, namespace)

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        if self.get_default("takes_more"):
            return
        options = self._option_string_actions
        verbs = bool(subcommands(self))
        for place, word in enumerate(words):
            name = word.partition("=")[0]
            if word == "--" or (verbs and not word.startswith("-")):
                return
            if not word.startswith("--") or name in options:
                continue
            if COMMAND in {action.dest for action in positional_actions(self)} and self._began(words[:place]):
                self.error(f"unknown option {name}; write -- before the command if the option belongs to it")
            self.error(f"unknown option {name}{did_you_mean(name, options)}")

    def _began(self, words: Sequence[str]) -> bool:
        """True if one of the words is neither an option nor the value of one."""
        takes = {name for name, action in self._option_string_actions.items() if action.nargs != 0}
        return any(
            not word.startswith("-") and (place == 0 or words[place - 1] not in takes) for place, word in enumerate(words)
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [] if action.choices is None else list(action.choices)
        if choices and value not in choices:
            what = f"unknown {str(action.metavar or 'word').lower()} {str(value)[:80]!r}"
            few = f"; choose one of {', '.join(map(str, choices))}" if len(choices) <= CHOICES_SHOWN else ""
            if isinstance(action, argparse._SubParsersAction):
                self.error(f"{what}{did_you_mean(str(value), choices) or few}")
            raise argparse.ArgumentError(action, f"{what}{did_you_mean(str(value), choices)}{few}")


def subcommands(parser: Parser) -> dict[str, Parser]:
    """The parsers of a parser's commands or verbs, by name; empty if it has none."""
    found = next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)
    return {} if found is None else dict(found.choices)


def positional_actions(parser: Parser) -> list[argparse.Action]:
    """The positional arguments of a parser, in order."""
    return [action for action in parser._actions if not action.option_strings]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean jobs?` for the most similar of the known words, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only what is misspelt needs it

    close = get_close_matches(word[:80], list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def add_command(nouns: Nouns, name: str, run: Command, says: str, examples: str = "") -> Parser:
    """Add a command; `says` is its line in the list of commands, `examples` are printed below its options, one a line."""
    lines = "".join(f"  {line.strip()}\n" for line in examples.strip().splitlines())
    parser: Parser = nouns.add_parser(name, help=says, description=says, epilog=f"examples:\n{lines}" if lines else "")
    parser.set_defaults(run=run)
    return parser


def add_data_option(parser: Parser) -> None:
    """Add `--data`, which selects the installation."""
    parser.add_argument(
        "--data", metavar="DIR", help="the installation's data directory (default: HEADRACE_DATA, else ~/.local/share/headrace)"
    )


def add_where_options(parser: Parser) -> None:
    """Add the options that select the installation: on this machine, by its address, or by a context."""
    add_data_option(parser)
    parser.add_argument(
        "--server",
        default="",
        metavar="URL",
        help="the API's address (default: HEADRACE_SERVER); with the token in HEADRACE_TOKEN",
    )
    parser.add_argument(
        "--context", default="", metavar="NAME", help="a context of `headrace context` (default: the current one)"
    )


def add_login_options(parser: Parser, *, json: bool = True) -> None:
    """Add the options for the installation, the login, and the format of the answer."""
    add_where_options(parser)
    parser.add_argument("--tenant", default="", help="act in this tenant (default: that of the login)")
    parser.add_argument(
        "--user",
        default="",
        help="act as this user; an administrator's login, such as the one that `headrace up` makes, may act as any user",
    )
    if json:
        add_json(parser)


def add_json(parser: Parser) -> None:
    """Add `--json`, the output for programs."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def client(args: argparse.Namespace, answer_within: float | None = None) -> Client:
    """Client for the options of `add_login_options`. `answer_within`: as of `headrace.client.connect`."""
    from headrace.client import connect  # noqa: PLC0415 - it takes longer to import than the rest, and `--help` does without

    return connect(
        data=args.data,
        tenant=args.tenant,
        user=args.user,
        server=args.server,
        context=args.context,
        prefers_api=True,
        answer_within=answer_within,
    )


def asking(command: Callable[[argparse.Namespace], Coroutine[Any, Any, int]]) -> Callable[[argparse.Namespace], int]:
    """A command that waits for answers of the API and for nothing else: it runs without an event loop (`client.streams`)."""

    @wraps(command)
    def run(args: argparse.Namespace) -> int:
        from headrace.client.streams import answered  # noqa: PLC0415 - as in `client`

        return answered(command(args))

    return run


def key_value(text: str) -> tuple[str, str]:
    """Key and value of `KEY=VALUE`, for argparse."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, not {text!r}")
    return key, value


def names(text: str) -> tuple[str, ...]:
    """Names of `a,b`, for argparse."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def moment(text: str) -> int:
    """Microseconds since 1970 for an ISO 8601 time, or for a duration before now (`24h`), for argparse."""
    try:
        return time.time_ns() // 1_000 - parse_duration(text)
    except DurationError:
        pass
    try:
        return parse_time(text)
    except DurationError:
        raise argparse.ArgumentTypeError(
            f"invalid time {text!r}: write 2026-11-21T08:00:00Z, 2026-11-21, or 24h for a day ago"
        ) from None


def span(text: str) -> int:
    """Microseconds of a duration such as `90s`, `10m`, `2d`, for argparse."""
    try:
        return parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def instant(text: str) -> tuple[int, int]:
    """(ledger sequence, microseconds since 1970), one of them 0: a number is a sequence, other text is a `moment`; for argparse."""
    if text.isdecimal():
        return positive(text), 0
    try:
        return 0, moment(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or a record's number such as 81234") from None


def currency(text: str) -> str:
    """Currency code of three letters (ISO 4217), for argparse."""
    if not (len(text) == 3 and text.isascii() and text.isupper()):
        raise argparse.ArgumentTypeError(f"invalid currency {text!r}: write three letters of ISO 4217, such as EUR")
    return text


def positive(text: str) -> int:
    """Whole number from 1 on, for argparse."""
    return _whole(text, 1, NUMBER_MAX, "a whole number from 1 on")


def natural(text: str) -> int:
    """Whole number from 0 on, for argparse."""
    return _whole(text, 0, NUMBER_MAX, "a whole number from 0 on")


def between(least: int, most: int) -> Callable[[str], int]:
    """Type of whole numbers from `least` to `most`, for argparse."""
    return lambda text: _whole(text, least, most, f"a whole number from {least} to {most}")


def _whole(text: str, least: int, most: int, what: str) -> int:
    if _WHOLE.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    raise argparse.ArgumentTypeError(f"invalid number {text[:40]!r}: write {what}")
