"""`headrace simulate`, `demo`: scenarios in virtual time, and the worked example with real processes."""

from __future__ import annotations

import argparse

from headrace.cli.arguments import Failed, Nouns, add_command, add_json, span
from headrace.cli.output.explain_view import because
from headrace.cli.output.formatting import as_json


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "simulate",
        simulate,
        "play scenario files in virtual time, and check what they expect",
        """headrace simulate scenario.yaml
        headrace simulate scenarios/*.yaml
        headrace simulate scenario.yaml --json
        headrace simulate scenario.yaml --why r-4 --at 20s                  why that job waits at that time
        headrace simulate scenario.yaml --what-if changes.yaml              compare the outcome with and without the changes
        headrace simulate scenario.yaml --what-if changes.yaml --at 20s     the changes are made at that time
        echo 'submit: [{name: big, queue: rnd/three}]' | headrace simulate scenario.yaml --what-if /dev/stdin

        A scenario is documents, as for `apply`, and beside them:
        nodes: [{name: gpu, count: 2, labels: {site: hq}, gpus: 8, gpu_model: H100-80GB}]       gpu-1, gpu-2
        timeline:                                                                               one event in each entry
        - {at: 0s, submit: {name: r, queue: rnd/three, count: 5, duration: 1h}}                 r-1 ... r-5
        - {at: 10s, node_lost: gpu-1}                                                           or drain, cordon, node_back, ...
        - {at: 20s, apply: {policies: [...]}}                                                   or delete: {kind, name, mode}
        - {at: 30s, expect: {jobs: {r-1: running}, reasons: {r-4: AT_POLICY_LIMIT}, preemptions: 1}}
        deploy/examples/reference/scenario.yaml of the source has every key.""",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument(
        "--what-if",
        metavar="CHANGES",
        help="documents as `apply` takes them, `nodes:` and `submit:` as in scenarios, `delete:`",
    )
    parser.add_argument("--at", type=span, help="time of the changes (default: before the first event), or of the question")
    parser.add_argument(
        "--for",
        dest="span",
        type=span,
        default="7d",
        help="how far both are played (default: 7d, or until nothing happens any more)",
    )
    parser.add_argument("--why", metavar="JOB", help="explain why a job of the scenario waits at --at, or at the end")
    add_json(parser)
    parser = add_command(
        nouns,
        "demo",
        demo,
        "start everything, play the worked example with real processes, print what happens, and stop",
        "headrace demo",
    )
    parser.add_argument("--keep", action="store_true", help="keep the installation's folder, and print where it is")


def simulate(args: argparse.Namespace) -> int:
    """Simulate the scenario files."""
    from headrace.simulate.command import main, what_if, why  # noqa: PLC0415 - the other commands do not need it

    if args.why is not None:
        if len(args.files) > 1 or args.what_if is not None:
            raise Failed("--why takes one scenario at a time, and no --what-if")
        return why(args.files[0], args.why, as_json if args.json else because, at=args.at)
    if args.what_if is None:
        if args.at is not None:
            raise Failed("--at requires --what-if or --why")
        return main(args.files, as_json=args.json)
    if len(args.files) > 1:
        raise Failed("--what-if takes one scenario at a time")
    return what_if(args.files[0], args.what_if, at=args.at, span=args.span, as_json=args.json)


def demo(args: argparse.Namespace) -> int:
    """Run the demo with real processes."""
    from headrace.demo import main  # noqa: PLC0415 - the other commands do not need it

    return main(["--keep"] if args.keep else [])
