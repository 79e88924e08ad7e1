"""Orders of the owner that work while the API is away."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from headrace.cli.arguments import client
from headrace.client import Unreachable, answers
from headrace.client.streams import answered

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.contracts.messages.queries import ApplyAnswer
    from headrace.supervisor.installation import Installation


ANSWER_WITHIN = 10.0
"""Timeout of these orders in seconds: a gateway that takes connections and answers none is then away."""


def ordered(
    args: argparse.Namespace, ask: Callable[[Client], Awaitable[ApplyAnswer]], method: str, request: Mapping[str, object]
) -> ApplyAnswer:
    """The answer of the API, or, while it is away on this machine, that of *governance* itself to the same method."""
    try:
        return answered(_asked(args, ask))
    except Unreachable as away:
        installation = _installation(args)
        if installation is None:
            raise
        print(f"headrace: {away}; asking governance directly", file=sys.stderr)
    import asyncio  # noqa: PLC0415 - gRPC takes long to import, and is needed here only

    from headrace.supervisor import api_away  # noqa: PLC0415

    return answers.plan(asyncio.run(api_away.call(installation, method, request)))


async def _asked(args: argparse.Namespace, ask: Callable[[Client], Awaitable[ApplyAnswer]]) -> ApplyAnswer:
    async with client(args, ANSWER_WITHIN) as hr:
        return await ask(hr)


def _installation(args: argparse.Namespace) -> Installation | None:
    from headrace.cli.whole_ledger import here  # noqa: PLC0415 - the same

    return here(args)
