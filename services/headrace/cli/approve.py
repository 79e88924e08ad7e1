"""`headrace node approve`, and the flags that say how much of what a node says of itself is believed."""

from __future__ import annotations

import argparse

from headrace.cli.arguments import Nouns, Parser, add_asker, add_command, client, key_value, natural
from headrace.cli.formatting import as_json
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.contracts.messages.tokens import ApproveNodeRequest, NodeClaims
from headrace.contracts.values.isolation import LEVELS


def add(verbs: Nouns) -> None:
    """The command."""
    verb = add_command(
        verbs,
        "approve",
        approve,
        "believe what a node says of itself (labels, GPUs, isolation); `headrace nodes` shows what is not believed",
        """headrace node approve gpu01                                      all that it says now
        headrace node approve gpu01 --gpus 8                             8 GPUs at most; the rest stays as it was approved
        headrace node approve gpu01 --labels 'site=hq,gpu.driver=*'      * stands for any value""",
    )
    verb.add_argument("node", metavar="NAME")
    add_claims(verb)
    verb.add_argument("--reason", default="", help="kept with the fact")
    add_asker(verb)


def add_claims(parser: Parser | argparse._ArgumentGroup) -> None:
    """What a node may say of itself."""
    parser.add_argument(
        "--labels", type=labels, metavar="K=V,...", help="labels that the node may have; the value * stands for any"
    )
    parser.add_argument("--gpus", type=natural, metavar="N", help="the number of GPUs that it may have")
    parser.add_argument(
        "--isolation", choices=LEVELS, metavar="LEVEL", help=f"the highest level that it may say: {', '.join(LEVELS)}"
    )


def labels(text: str) -> dict[str, str]:
    """`site=hq,rack=r7`, for argparse."""
    return dict(key_value(pair) for pair in text.split(",") if pair)


def claims_of(args: argparse.Namespace) -> NodeClaims:
    """What those flags say."""
    return NodeClaims(labels=args.labels, gpus=args.gpus, isolation=args.isolation)


async def approve(args: argparse.Namespace) -> int:
    """A line for what is approved now and was not before."""
    request = ApproveNodeRequest(node=args.node, claims=claims_of(args), reason=args.reason)
    async with client(args) as hr:
        answer = await hr.query("governance", "approve", request, ApplyAnswer)
    (change,) = answer.changes
    lines = [f"{args.node}: {field}" for field in change.fields] or [f"{args.node}: nothing has changed"]
    print(as_json(answer) if args.json else "\n".join(lines))
    return 0
