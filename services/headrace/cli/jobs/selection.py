"""Jobs selected by filters, and the question before something is done with all of them."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from headrace.cli.arguments import Failed, Parser, key_value
from headrace.cli.jobs.names import UNENDED
from headrace.client import Client
from headrace.contracts.messages.queries import JobView

SELECTED_MAX = 10_000
FLAGS = "--name, --label, --queue, --state, --owner or --everybody"


def add_filters(parser: Parser) -> None:
    """Add the filters by queue, name and label."""
    parser.add_argument("--queue", default="", metavar="POLICY/PROFILE", help="only this queue's")
    parser.add_argument(
        "--name", default="", metavar="PATTERN", help="only those whose name matches this pattern, such as 'sweep-*'"
    )
    parser.add_argument(
        "--label",
        type=key_value,
        action="append",
        default=[],
        metavar="K=V",
        help="only those with this label; may be given again",
    )


def add_selection(parser: Parser, states: Sequence[str], done: str) -> None:
    """Add what selects jobs to be changed: by name one by one, or by filters; `done`: what becomes of them."""
    parser.add_argument(
        "jobs", nargs="*", metavar="JOB", help="ids, beginnings of ids, names, or `last`; or select jobs by the options below"
    )
    add_filters(parser)
    parser.add_argument("--state", action="append", default=[], choices=states, help="only these; may be given several times")
    parser.add_argument("--owner", default="", metavar="USER", help="this user's jobs (default: your own)")
    parser.add_argument("--everybody", action="store_true", help="the jobs of all users of the tenant")
    parser.add_argument("--yes", action="store_true", help=f"do not ask for confirmation before the selected jobs are {done}")
    parser.add_argument("--reason", default="", help="stored with the request")


def is_by_filters(args: argparse.Namespace) -> bool:
    """True if filters say which jobs are meant, False if they are named. Raises Failed if neither or both."""
    selects = args.queue or args.name or args.label or args.state or args.owner or args.everybody
    if bool(args.jobs) == bool(selects):
        raise Failed(f"name the jobs by their ids or names, or select them by {FLAGS}")
    if args.owner and args.everybody:
        raise Failed("--owner and --everybody: use one of them")
    return bool(selects)


async def select(hr: Client, args: argparse.Namespace, states: Sequence[str]) -> tuple[Sequence[JobView], str]:
    """The jobs that the filters select, newest first, and their number in words, such as `3 jobs (2 pending, 1 running)`."""
    owner = "" if args.everybody else args.owner or hr.user
    found = await hr.jobs(
        states=args.state or states, queue=args.queue, user=owner, limit=SELECTED_MAX, name=args.name, labels=dict(args.label)
    )
    counted = Counter(view.state for view in found)
    what = f"{len(found)} jobs" if len(found) > 1 else "1 job"
    states_of = ", ".join(f"{counted[state]} {state}" for state in UNENDED if counted[state])
    if len(found) == SELECTED_MAX:
        return found, f"the newest {what} ({states_of}; repeat the command for the others)"
    return found, f"{what} ({states_of})"


def agreed(question: str) -> bool:
    """True if the person at the terminal agrees. Raises Failed without a terminal."""
    if not sys.stdin.isatty():
        raise Failed(
            f"{question.partition(' Continue?')[0]} Add --yes: standard input is not a terminal, so you cannot be asked"
        )
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
