"""`headrace simulate`, `demo`: the same rules on a scenario in virtual time, and the worked example with real processes."""

from __future__ import annotations

import argparse

from headrace.cli.arguments import Nouns, add_command, add_json


def add(nouns: Nouns) -> None:
    """The commands."""
    parser = add_command(
        nouns,
        "simulate",
        simulate,
        "play scenario files in virtual time, and say whether what they expect holds",
        "headrace simulate scenario.yaml\nheadrace simulate scenarios/*.yaml\nheadrace simulate scenario.yaml --json",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    add_json(parser)
    parser = add_command(
        nouns,
        "demo",
        demo,
        "start everything, play the worked example with real processes, tell the story, stop",
        "headrace demo",
    )
    parser.add_argument("--keep", action="store_true", help="keep the installation's folder, and say where it is")


def simulate(args: argparse.Namespace) -> int:
    """Play."""
    from headrace.simulate.command import main  # noqa: PLC0415 - the other commands need none of it

    return main(args.files, as_json=args.json)


def demo(args: argparse.Namespace) -> int:
    """Play for real."""
    from headrace.demo import main  # noqa: PLC0415 - the other commands need none of it

    return main(["--keep"] if args.keep else [])
