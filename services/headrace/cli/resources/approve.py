"""`headrace node approve`, and the options that limit which claims of a node are accepted."""

from __future__ import annotations

import argparse

from headrace.cli.arguments import Nouns, Parser, add_command, add_login_options, asking, client, key_value, natural
from headrace.cli.output.formatting import as_json
from headrace.contracts.messages.tokens import ApproveNodeRequest, NodeClaims
from headrace.contracts.values.isolation import LEVELS


def add(verbs: Nouns) -> None:
    verb = add_command(
        verbs,
        "approve",
        approve,
        "accept what a node reports about itself (labels, GPUs, isolation); `headrace nodes` shows what is not accepted yet",
        """headrace node approve gpu01                                      all that it reports now
        headrace node approve gpu01 --gpus 8                             8 GPUs at most; the rest stays as it was approved
        headrace node approve gpu01 --labels 'site=hq,gpu.driver=*'      * stands for any value""",
    )
    verb.add_argument("node", metavar="NAME")
    add_claims(verb)
    verb.add_argument("--reason", default="", help="stored with the fact")
    add_login_options(verb)


def add_claims(parser: Parser | argparse._ArgumentGroup) -> None:
    """Add the options for the claims of a node: labels, GPUs, isolation."""
    parser.add_argument(
        "--labels", type=labels, metavar="K=V,...", help="labels that the node may have; the value * stands for any"
    )
    parser.add_argument("--gpus", type=natural, metavar="N", help="the most GPUs that it may have")
    parser.add_argument(
        "--isolation", choices=LEVELS, metavar="LEVEL", help=f"the highest level that it may report: {', '.join(LEVELS)}"
    )


def labels(text: str) -> dict[str, str]:
    """Labels of `site=hq,rack=r7`, for argparse."""
    return dict(key_value(pair) for pair in text.split(",") if pair)


def claims_of(args: argparse.Namespace) -> NodeClaims:
    """The claims that the options of `add_claims` name."""
    return NodeClaims(labels=args.labels, gpus=args.gpus, isolation=args.isolation)


@asking
async def approve(args: argparse.Namespace) -> int:
    """Approve claims of a node and print a line for each that was not approved before."""
    request = ApproveNodeRequest(node=args.node, claims=claims_of(args), reason=args.reason)
    async with client(args) as hr:
        answer = await hr.approve(request)
    (change,) = answer.changes
    lines = [f"{args.node}: {field}" for field in change.fields] or [f"{args.node}: nothing has changed"]
    print(as_json(answer) if args.json else "\n".join(lines))
    return 0
