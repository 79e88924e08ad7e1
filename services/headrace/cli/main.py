"""`headrace`, the console script: puts the commands together and turns every failure into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from headrace.cli.arguments import Failed, Parser, subcommands
from headrace.cli.output.streams import complain, not_written, open_streams, written
from headrace.cli.output.terminal import made_visible
from headrace.client import HeadraceError
from headrace.supervisor.errors import InstallationError

DONE, FAILED, INTERRUPTED = 0, 1, 130

COMMANDS = {
    "operations.up": ("up", "down"),
    "operations.page": ("page",),
    "operations.top": ("top",),
    "operations.status": ("status",),
    "resources.documents": ("apply", "get", "delete"),
    "jobs.submit": ("submit",),
    "jobs.jobs": ("jobs", "job", "why", "logs", "requeue", "preempt"),
    "jobs.cancel": ("cancel",),
    "resources.supply": ("queues", "pools", "nodes", "node"),
    "resources.burst": ("burst",),
    "identities.tenant": ("tenant",),
    "identities.token": ("token",),
    "operations.context": ("context",),
    "identities.user": ("user",),
    "reports.books": ("usage",),
    "reports.statement": ("statement",),
    "history.audit": ("audit",),
    "history.archive": ("archive",),
    "operations.backup": ("backup", "restore"),
    "operations.repair": ("repair",),
    "operations.restart": ("restart",),
    "operations.cluster_config": ("config",),
    "resources.simulate": ("simulate", "demo"),
    "resources.whatif": ("whatif",),
    "rules": ("rules",),
    "completion": ("completion",),
}
"""The modules of this package and the commands that each adds, in the order of the list. A command imports its own module only: all of
them together take half a second of CPU time."""

FAMILIES = frozenset({"history.audit"})
"""Modules that add only the verb that was typed, because others of their verbs are slow to import."""

WHERE = {
    "--server": ("URL", "ask the installation at this address (default: HEADRACE_SERVER)"),
    "--context": ("NAME", "ask the installation of this context of `headrace context`"),
    "--data": ("DIR", "the data directory of an installation on this machine (default: HEADRACE_DATA)"),
}
"""Options that may stand before the command as well as behind it."""

EXAMPLES = """\
first steps:
  headrace up                                                 everything on this machine; Ctrl-C or `headrace down` stops it
  headrace apply -f policies.yaml                             pools, profiles, groups and their policies
  headrace submit --queue ai-dev/half -- python train.py      prints the job's id
  headrace jobs                                               what runs, what waits and why
  headrace logs last -f                                       the output of the last submitted job, while it is written
  headrace usage --by group                                   usage and cost

Every command has --help with examples, every reading command --json. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    open_streams()
    words = sys.argv[1:] if argv is None else argv
    given, words = _before_the_command(words)
    whole = parser(*words[:2])
    try:
        words = _behind_the_command(whole, given, words)
        args, more = whole.parse_known_args(words)
        if more and not hasattr(args, "takes_more"):
            whole.error(f"unrecognized arguments: {' '.join(more)}")
        args.more = more
        with made_visible(raw=getattr(args, "raw", False)):
            return _run(args)
    except SystemExit as exit_:  # after the help, and after what was not understood
        return written(exit_.code if isinstance(exit_.code, int) else DONE)
    except OSError as error:
        return not_written(error)


def _before_the_command(words: Sequence[str]) -> tuple[list[str], Sequence[str]]:
    """The options of `WHERE` before the command, and the other words."""
    given: list[str] = []
    while words and words[0].partition("=")[0] in WHERE and ("=" in words[0] or len(words) > 1):
        size = 1 if "=" in words[0] else 2
        given += words[:size]
        words = words[size:]
    return given, words


def _behind_the_command(whole: Parser, given: list[str], words: Sequence[str]) -> Sequence[str]:
    """The words with what was given before the command behind it, where its own options stand; those count where both are given."""
    here, place = whole, 0
    while place < len(words) and words[place] in subcommands(here):
        here, place = subcommands(here)[words[place]], place + 1
    if place:
        for word in given:
            name = word.partition("=")[0]
            if name in WHERE and name not in here._option_string_actions:
                here.error(f"{name}: this command works on this machine only and takes no such option")
    return [*words[:place], *given, *words[place:]]


class _Version(argparse.Action):
    """Prints the release and how its rules run, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import platform  # noqa: PLC0415 - other commands need not load it

        from headrace.service.engine_version import RELEASE, has_compiled_rules  # noqa: PLC0415 - other commands need not load it

        rules = "compiled" if has_compiled_rules() else "plain Python"
        print(f"headrace {RELEASE} (rules: {rules}; Python {platform.python_version()})")
        parser.exit(DONE)


def _awaited(outcome: Coroutine[Any, Any, int]) -> int:
    import asyncio  # noqa: PLC0415 - some commands need none of this
    import logging  # noqa: PLC0415

    logging.getLogger("asyncio").setLevel(logging.ERROR)  # its messages about TLS do not help a person
    return asyncio.run(outcome)


def _run(args: argparse.Namespace) -> int:
    try:
        outcome = args.run(args)
        code = _awaited(outcome) if isinstance(outcome, Coroutine) else outcome
    except (HeadraceError, InstallationError, Failed) as error:
        if str(error):
            complain(str(error))
        code = FAILED
    except UnicodeEncodeError as error:
        complain(f"{error.object[:80]!r} is not UTF-8; names and texts are written in UTF-8")
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    return written(code)


def parser(command: str = "", verb: str = "") -> Parser:
    """Parser of the module that adds this command, for a family of modules with this verb only; of all if the command is unknown."""
    whole = Parser(prog="headrace", description="Headrace shares GPUs between teams.", epilog=EXAMPLES)
    whole.add_argument("--version", action=_Version, nargs=0, help="print the release, and whether its rules are compiled")
    for option, (metavar, says) in WHERE.items():
        whole.add_argument(option, metavar=metavar, default=argparse.SUPPRESS, help=says)
    nouns = whole.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    its = [module for module, commands in COMMANDS.items() if command in commands]
    for module in its or COMMANDS:
        adding = importlib.import_module(f"headrace.cli.{module}").add
        adding(nouns, verb) if module in FAMILIES else adding(nouns)
    return whole


if __name__ == "__main__":
    sys.exit(main())
