"""The service of instances: what pools have created and could create (R38). The provisioner ends an instance on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts.api import instances_pb2 as pb
from headrace.contracts.facts.writers import PROVISIONER
from headrace.contracts.messages.burst import CheckAnswer, CheckRequest, EndInstanceRequest, PlanRequest
from headrace.contracts.messages.queries import Answer, ApplyAnswer
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import decode, encode
from headrace.governance.api import names
from headrace.governance.api.apply import plan_message
from headrace.governance.api.messages import moment
from headrace.service.answering import Refused
from headrace.views.instances import instances_of, offers_shown, plan_of

if TYPE_CHECKING:
    from headrace.contracts.values.value import Value
    from headrace.governance.api.context import CallContext

ANSWER_WITHIN = 10.0
CHECK_WITHIN = 25.0
"""Seconds for what asks a provider."""


async def list_instances(_request: Any, call: CallContext) -> pb.ListInstancesResponse:
    """The instances, the newest first."""
    state = call.backend.state
    return pb.ListInstancesResponse(
        sequence=str(state.sequence),
        instances=[
            pb.Instance(
                name=f"instances/{one.instance}",
                pool=one.pool,
                stage=one.stage,
                cause=one.cause,
                message=one.message,
                provider=one.provider,
                provider_id=one.provider_id,
                offer=one.offer,
                market=one.market,
                price=one.price,
                cost=one.cost,
                order_time=moment(one.ordered_at),
                join_time=moment(one.joined_at),
                end_time=moment(one.ended_at),
                jobs=one.jobs,
            )
            for one in instances_of(state, call.backend.clock())
        ],
    )


async def list_offers(_request: Any, call: CallContext) -> pb.ListOffersResponse:
    """The offers of every pool."""
    state = call.backend.state
    return pb.ListOffersResponse(
        sequence=str(state.sequence),
        offers=[
            pb.OfferState(
                pool=one.pool,
                offer=one.offer,
                provider=one.provider,
                type=one.type,
                region=one.region,
                zone=one.zone,
                market=one.market,
                price=one.price,
                max_price=one.max_price,
                closed=one.closed,
                closed_until_time=moment(one.closed_until),
            )
            for one in offers_shown(state, call.backend.clock())
        ],
    )


async def plan_growth(request: Any, call: CallContext) -> pb.GrowthPlan:
    """What would be ordered if a pool were asked for nodes now."""
    state = call.backend.state
    (pool,) = names.parts_of(request.name, "pools/*")
    plan = plan_of(state, PlanRequest(pool=pool, nodes=request.nodes or 1), call.backend.clock())
    if isinstance(plan, str):
        raise Refused("REFUSED" if pool in state.pools else "NOT_FOUND", plan)
    return pb.GrowthPlan(
        pool=plan.pool,
        provider=plan.provider,
        instances=[
            pb.PlannedInstance(offer=one.offer, market=one.market, price=one.price, estimate=one.estimate)
            for one in plan.instances
        ],
        estimate=plan.estimate,
        notes=plan.notes,
        sequence=str(state.sequence),
    )


async def check_offers(request: Any, call: CallContext) -> pb.OfferChecks:
    """Ask the provisioner what the pool's provider says of its offers."""
    (pool,) = names.parts_of(request.name, "pools/*")
    answer = decode(await _ask(call, "check", CheckRequest(pool=pool), CHECK_WITHIN), CheckAnswer)
    checks = [pb.OfferCheck(offer=one.offer, problem=one.problem) for one in answer.offers]
    return pb.OfferChecks(pool=answer.pool, provider=answer.provider, offers=checks)


async def end_instance(request: Any, call: CallContext) -> Any:
    """Ask the provisioner to release an instance."""
    (name,) = names.parts_of(request.name, "instances/*")
    body = await _ask(call, "end", EndInstanceRequest(instance=name, reason=request.reason), ANSWER_WITHIN)
    return plan_message(decode(body, ApplyAnswer), call.backend.state.sequence)


async def _ask(call: CallContext, what: str, question: Value, within: float) -> bytes:
    """The provisioner's answer to the caller. Raises Refused."""
    tenant, _, user = call.caller.author.partition(".")
    subject = subjects.query(PROVISIONER, what, tenant, user)
    reply = await call.backend.connection.ask(subject, encode(question), within=min(within, call.within))
    answer = decode(reply.data, Answer)
    if answer.error:
        raise Refused(answer.code or "REFUSED", answer.error)
    return bytes(answer.body)
