"""Instances, offers and plans as operators see them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.messages.burst import InstanceView, OfferView, PlanAnswer, PlannedInstance
from headrace.contracts.values.money import format_money
from headrace.domain.placement.offers import (
    affordable,
    closed,
    estimate,
    is_provided,
    living,
    offers_of,
    open_offers,
    price_of,
    spent,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.messages.burst import PlanRequest
    from headrace.domain.state.state import State


def instances_of(state: State, now: int) -> Iterator[InstanceView]:
    """Every instance, the newest first."""
    for one in sorted(state.instances.values(), key=lambda one: (-one.ordered_at, one.name)):
        node = state.nodes.get(one.name)
        yield InstanceView(
            instance=one.name,
            pool=one.pool,
            stage=one.stage,
            cause=one.refused or one.ended or one.released,
            message=one.message,
            provider=one.provider,
            provider_id=one.provider_id,
            offer=one.offer,
            market=one.market,
            price=format_money(one.price) if one.price else "",
            cost=format_money(one.cost(0, now)) if one.price else "",
            ordered_at=one.ordered_at,
            joined_at=one.joined_at,
            ended_at=one.ended_at,
            jobs=len({lease.job.key for lease in node.leases.values()}) if node is not None else 0,
        )


def offers_shown(state: State, now: int) -> Iterator[OfferView]:
    """The offers of every pool, those that are open first, in the order in which they are asked."""
    for name, pool in sorted(state.pools.items()):
        burst = pool.document.burst
        if burst is None:
            continue
        ready = open_offers(state, pool, now)
        for offer in (*ready, *(one for one in offers_of(burst) if one not in ready)):
            known, price = state.offers.get((name, offer.name)), price_of(state, name, offer)
            yield OfferView(
                pool=name,
                offer=offer.name,
                provider=burst.provider,
                type=offer.type,
                region=offer.region,
                zone=offer.zone,
                market=offer.market,
                price=format_money(price) if price else "",
                max_price=offer.max_price,
                closed=closed(state, name, offer, now),
                closed_until=known.closed_until if known is not None and known.closed_until > now else 0,
            )


def plan_of(state: State, request: PlanRequest, now: int) -> PlanAnswer | str:
    """What would be ordered for the nodes of the request; or why nothing can be."""
    pool = state.pools.get(request.pool)
    burst = pool.document.burst if pool is not None else None
    if pool is None or burst is None:
        return f"pool {request.pool[:80]!r} is not one that creates nodes; `headrace burst offers` lists those that are"
    if not is_provided(state, burst):
        return f"pool {request.pool}: provider {burst.provider} creates no nodes: an operator adds them"
    there = len(living(state.instances.values(), pool))
    creatable = max(0, burst.max_nodes - there)
    offers = open_offers(state, pool, now)
    count = min(creatable, request.nodes, affordable(state, pool, offers[0], now)) if offers else 0
    notes = [f"cap {burst.cap} a month: {format_money(spent(state, pool, now))} are spent"] if burst.cap else []
    if request.nodes > creatable:
        notes.append(f"max_nodes {burst.max_nodes}: {there} live, room for {creatable}")
    notes += [
        f"offer {one.name} is closed: {why}" for one in offers_of(burst) if (why := closed(state, request.pool, one, now))
    ]
    each = [PlannedInstance(offer=one.name, market=one.market) for one in offers[:1]]
    total = 0
    if offers and (price := price_of(state, request.pool, offers[0])):
        least = estimate(burst, price)
        total = count * least
        each = [
            PlannedInstance(
                offer=offers[0].name, market=offers[0].market, price=format_money(price), estimate=format_money(least)
            )
        ]
    elif offers:
        notes.append(f"offer {offers[0].name} has no price; write one in the pool's offers, and the estimate is known")
    return PlanAnswer(
        pool=request.pool,
        provider=burst.provider,
        instances=tuple(each * count),
        estimate=format_money(total) if total else "",
        notes=tuple(notes),
    )
