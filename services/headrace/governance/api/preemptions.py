"""The service of preemptions, which asks *accounting*."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from headrace.contracts.api import preemptions_pb2 as pb
from headrace.contracts.messages.preemptions import PreemptionsAnswer, PreemptionsRequest
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.governance.api import names, paging
from headrace.governance.api.errors import invalid, shown
from headrace.governance.api.messages import microseconds, moment
from headrace.governance.api.usage import ask_books

if TYPE_CHECKING:
    from headrace.contracts.messages.preemptions import AttemptView, PreemptionJobView, PreemptionView, VictimView
    from headrace.governance.api.context import CallContext

PREFIX = "preemptions/"
_FACT = re.compile(r"([1-9][0-9]{0,17})\.([0-9]{1,4})", re.ASCII)


async def list_preemptions(request: Any, call: CallContext) -> pb.ListPreemptionsResponse:
    """A page of the preemptions that the caller may see, the latest first."""
    tenant = names.parts_of(request.parent, "tenants/*", "parent")[0] if request.parent else call.tenant
    asked = PreemptionsRequest(
        since=microseconds(request.since, "since"), until=microseconds(request.until, "until"), job=request.job
    )
    page = paging.page_of(request.page_size, request.page_token, call.method, tenant, encode(asked).decode())
    question = PreemptionsRequest(
        since=asked.since, until=asked.until, job=asked.job, limit=page.size, before=_fact(page.last, "page_token")
    )
    found = await ask_books("preemptions", tenant, question, PreemptionsAnswer, call)
    answer = pb.ListPreemptionsResponse(preemptions=map(message_of, found.preemptions), sequence=str(found.through))
    if found.more:
        last = found.preemptions[-1]
        answer.next_page_token = page.token(f"{last.ordered}.{last.place}")
    return answer


async def get_preemption(request: Any, call: CallContext) -> pb.Preemption:
    """One preemption with its steps, as the caller may see it."""
    ordered, place = _fact(request.name.removeprefix(PREFIX) or "-", "name")
    question = PreemptionsRequest(ordered=ordered, place=place)
    (found,) = (await ask_books("preemptions", call.tenant, question, PreemptionsAnswer, call)).preemptions
    return message_of(found)


def _fact(text: str, field: str) -> tuple[int, int]:
    """(sequence, place) of a fact such as `81234.0`; zeros for an empty text. Raises ApiError."""
    found = _FACT.fullmatch(text)
    if text and found is None:
        raise invalid(field, f"{shown(text)!r} is not a fact of the ledger; it looks like {PREFIX}81234.0", "INVALID_NAME")
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)


def message_of(view: PreemptionView) -> pb.Preemption:
    """A preemption as a message of the API."""
    message = pb.Preemption(
        name=f"{PREFIX}{view.ordered}.{view.place}",
        preemptor=_job(view.preemptor),
        pool=view.pool,
        cause=view.cause,
        rule=view.rule,
        order_time=moment(view.ordered_at),
        settle_time=moment(view.settled_at),
        to_signal=view.to_signal or 0,
        grace=view.grace or 0,
        to_release=view.to_release or 0,
        lost="" if view.lost is None else str(view.lost),
        unused=view.unused,
        places=[pb.PreemptionPlace(rank=rank, node=node, devices=devices) for rank, node, devices in view.places],
        victims=map(_victim, view.victims),
        others=view.others,
    )
    if view.started is not None:
        message.started.CopyFrom(_attempt(view.started))
    return message


def _job(view: PreemptionJobView) -> pb.PreemptionJob:
    return pb.PreemptionJob(job=names.job_name(view.job), display_name=view.name, user=view.user, queue=view.queue)


def _victim(view: VictimView) -> pb.PreemptionVictim:
    message = pb.PreemptionVictim(
        job=_job(view.job), expected_loss=str(view.expected), lost=str(round(int(view.lost) / (GPU_UNITS * SECOND)))
    )
    if view.attempt is not None:
        message.attempt.CopyFrom(_attempt(view.attempt))
    if view.next is not None:
        message.next.CopyFrom(_attempt(view.next))
    for step in view.steps:
        message.steps.add(rank=step.rank, rung=step.rung, time=moment(step.at), took=step.took, result=step.result)
    return message


def _attempt(view: AttemptView) -> pb.PreemptionAttempt:
    return pb.PreemptionAttempt(
        attempt=view.attempt,
        pool=view.pool,
        nodes=view.nodes,
        grant_time=moment(view.granted_at),
        start_time=moment(view.started_at),
        end_time=moment(view.ended_at),
        resume_from=view.resume_from,
        checkpoint=view.checkpoint,
        checkpoint_time=moment(view.checkpoint_at),
    )
