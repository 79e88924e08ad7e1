"""Answers about instances of pools that create their nodes (R38), from the JSON of the API."""

from __future__ import annotations

from headrace.client.answers import Json, moment, number
from headrace.contracts.messages.burst import CheckAnswer, InstanceView, OfferCheck, OfferView, PlanAnswer, PlannedInstance


def instance(answer: Json) -> InstanceView:
    """An instance of a pool that creates its nodes."""
    names = ("pool", "stage", "cause", "message", "provider", "provider_id", "offer", "market", "price", "cost")
    return InstanceView(
        instance=answer["name"].removeprefix("instances/"),
        **{name: answer.get(name, "") for name in names},
        ordered_at=moment(answer.get("order_time")),
        joined_at=moment(answer.get("join_time")),
        ended_at=moment(answer.get("end_time")),
        jobs=number(answer, "jobs"),
    )


def offer(answer: Json) -> OfferView:
    """An offer of a pool as it stands now."""
    names = ("pool", "offer", "provider", "type", "region", "zone", "market", "price", "max_price", "closed")
    return OfferView(**{name: answer.get(name, "") for name in names}, closed_until=moment(answer.get("closed_until_time")))


def growth_plan(answer: Json) -> PlanAnswer:
    """What would be ordered."""
    names = ("offer", "market", "price", "estimate")
    planned = (PlannedInstance(**{name: one.get(name, "") for name in names}) for one in answer.get("instances", ()))
    return PlanAnswer(
        pool=answer.get("pool", ""),
        provider=answer.get("provider", ""),
        instances=tuple(planned),
        estimate=answer.get("estimate", ""),
        notes=tuple(answer.get("notes", ())),
    )


def offer_checks(answer: Json) -> CheckAnswer:
    """What a provider says of a pool's offers."""
    checks = (OfferCheck(offer=one["offer"], problem=one.get("problem", "")) for one in answer.get("offers", ()))
    return CheckAnswer(pool=answer.get("pool", ""), provider=answer.get("provider", ""), offers=tuple(checks))
