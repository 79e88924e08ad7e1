"""The service of timelines, which asks *accounting*."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.messages.audit import TimelineAnswer, TimelineRequest
from headrace.governance.api.errors import invalid
from headrace.governance.api.messages import microseconds, moment
from headrace.governance.api.usage import ask_books

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext

BINS_USUAL, BINS_MAX = 200, 1_000


async def get_timeline(request: Any, call: CallContext) -> pb.Timeline:
    """Use and events of a period by bin, as the caller may see it."""
    if not 0 <= request.bins <= BINS_MAX:
        raise invalid("bins", f"write 1 to {BINS_MAX}, or leave it out")
    question = TimelineRequest(
        since=microseconds(request.since, "since"),
        until=microseconds(request.until, "until"),
        bins=request.bins or BINS_USUAL,
    )
    return message_of(await ask_books("timeline", call.tenant, question, TimelineAnswer, call))


def message_of(answer: TimelineAnswer) -> pb.Timeline:
    """The answer of *accounting* as a message of the API."""
    message = pb.Timeline(
        since=moment(answer.since),
        until=moment(answer.until),
        before=str(answer.before),
        sequence=map(str, answer.sequences),
        pending=answer.pending,
        changes=answer.changes,
        through=str(answer.through),
    )
    for pool in answer.pools:
        message.pools.add(
            pool=pool.pool,
            usable=pool.usable,
            used=pool.used,
            reserved=pool.reserved,
            borrowed=pool.borrowed,
            kept=pool.kept,
            preemptions=pool.preemptions,
            growth=pool.growth,
        )
    return message
