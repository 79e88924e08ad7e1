"""The command line of `headrace`, asked whether it takes the words of a document."""

from __future__ import annotations

import functools

from headrace.cli.arguments import Parser
from headrace.cli.main import parser


@functools.cache
def command_line() -> Parser:
    return parser()


def understood(words: list[str]) -> bool:
    """Whether the command line takes these words, every one of them."""
    try:
        args, more = command_line().parse_known_args(words)
    except SystemExit as end:
        return end.code == 0
    return not more or hasattr(args, "takes_more")
