"""`headrace completion`: words that a shell offers while a command is typed, with the names that the installation has now."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import pairwise

from headrace.cli.arguments import Nouns, Parser, add_command, client, positional_actions, subcommands
from headrace.client import Client, HeadraceError
from headrace.client.contexts import LOCAL, contexts_file, read_contexts
from headrace.contracts.documents.model import KINDS

ANSWER_WITHIN = 2.0
"""Seconds within which the installation has to answer; else no live names are offered."""
JOBS_MAX = 200

SCRIPTS = {
    "bash": """\
_headrace() {
    local IFS=$'\\n'
    COMPREPLY=($(headrace completion bash --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _headrace headrace
""",
    "zsh": """\
#compdef headrace
_headrace() {
    local -a found
    found=(${(f)"$(headrace completion zsh --words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _headrace headrace
""",
    "fish": """\
complete -c headrace -a '(headrace completion fish --words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}

Names = Callable[[Client], Awaitable[Sequence[str]]]


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "completion",
        completion,
        "print a script with which a shell completes commands, options, and the names of queues, jobs, nodes and documents",
        """source <(headrace completion bash)                          for this shell; in ~/.bashrc for all
        headrace completion zsh > "${fpath[1]}/_headrace"
        headrace completion fish > ~/.config/fish/completions/headrace.fish""",
    )
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SCRIPTS), help="bash, zsh or fish")
    parser.add_argument("--words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(takes_more=True)


async def completion(args: argparse.Namespace) -> int:
    """Print the script of a shell; with `--words` the words that may stand in the place of the last one, one a line."""
    if args.words is None:
        print(SCRIPTS[args.shell], end="")
        return 0
    if args.more:  # behind --, where a command has options of its own
        return 0
    found = await _candidates([word for word in args.words if word != "="] or [""])
    last = args.words[-1] if args.words and args.words[-1] != "=" else ""
    print("".join(f"{word}\n" for word in dict.fromkeys(found) if word.startswith(last)), end="")
    return 0


async def _candidates(words: Sequence[str]) -> Sequence[str]:
    """Everything that may stand in the place of the last word, whatever it begins with."""
    from headrace.cli.main import COMMANDS, parser  # noqa: PLC0415 - it knows this module by its name

    *typed, last = words
    if not typed:
        return ("--help", "--version") if last.startswith("-") else [name for names in COMMANDS.values() for name in names]
    here, place = parser(typed[0]), 0
    while place < len(typed) and typed[place] in subcommands(here):
        here, place = subcommands(here)[typed[place]], place + 1
    options = here._option_string_actions
    expecting = options.get(typed[-1]) if place < len(typed) else None
    if expecting is not None and expecting.nargs != 0:
        return await _values(here, expecting, typed)
    if last.startswith("-"):
        return [name for name, action in options.items() if name.startswith("--") and action.help != argparse.SUPPRESS]
    if subcommands(here):
        return tuple(subcommands(here))
    positionals = positional_actions(here)
    number = _positionals_in(here, typed[place:])
    if not positionals or (number >= len(positionals) and positionals[-1].nargs not in ("*", "+")):
        return ()
    return await _values(here, positionals[min(number, len(positionals) - 1)], typed)


def _positionals_in(here: Parser, typed: Sequence[str]) -> int:
    """How many of the words are neither options nor their values."""
    takes = {name for name, action in here._option_string_actions.items() if action.nargs != 0}
    return sum(not word.startswith("-") and (place == 0 or typed[place - 1] not in takes) for place, word in enumerate(typed))


async def _values(here: Parser, action: argparse.Action, typed: Sequence[str]) -> Sequence[str]:
    """The values that an argument may have."""
    if action.choices is not None:
        return tuple(map(str, action.choices))
    if action.metavar == "KIND" and action.dest == "kind":
        return KINDS
    if action.dest == "context" or (here.prog.startswith("headrace context") and action.dest == "name"):
        with suppress(HeadraceError):
            return (LOCAL, *read_contexts(contexts_file(os.environ)).contexts)
        return ()
    kind = next((word for word in typed if word in KINDS), "") if action.dest == "name" and here.prog in _DOCUMENTS else ""
    names = _documents(kind) if kind else _LIVE.get(action.dest)
    if names is None:
        return ()
    with suppress(HeadraceError, TimeoutError, OSError):
        async with asyncio.timeout(ANSWER_WITHIN), client(_login(typed)) as hr:
            return await names(hr)
    return ()


def _login(typed: Sequence[str]) -> argparse.Namespace:
    """The options for the installation and the login, as far as they are typed."""
    options: dict[str, str | None] = {"data": None, "tenant": "", "user": "", "server": "", "context": ""}
    for option, value in pairwise(typed):
        if option.startswith("--") and option[2:] in options:
            options[option[2:]] = value
    return argparse.Namespace(**options)


_DOCUMENTS = ("headrace get", "headrace delete")


def _documents(kind: str) -> Names:
    async def names(hr: Client) -> Sequence[str]:
        return [view.name.rpartition("/")[2] for view in (await hr.documents(kind)).documents]

    return names


async def _queues(hr: Client) -> Sequence[str]:
    return [queue.name for queue in await hr.queues()]


async def _jobs(hr: Client) -> Sequence[str]:
    found = await hr.jobs(limit=JOBS_MAX)
    return ["last", *(view.name for view in found if view.name), *(view.id for view in found)]


async def _users(hr: Client) -> Sequence[str]:
    return sorted({view.user for view in await hr.jobs(limit=JOBS_MAX)} | {hr.user})


async def _nodes(hr: Client) -> Sequence[str]:
    return [node.name for node in await hr.nodes()]


async def _pools(hr: Client) -> Sequence[str]:
    return [pool.name for pool in await hr.pools()]


async def _instances(hr: Client) -> Sequence[str]:
    return [one.instance for one in await hr.instances()]


_LIVE: dict[str, Names] = {
    "queue": _queues,
    "job": _jobs,
    "jobs": _jobs,
    "after": _jobs,
    "causes": _jobs,
    "owner": _users,
    "user": _users,
    "node": _nodes,
    "pool": _pools,
    "instance": _instances,
}
"""What an argument names, by its name in the parser."""
