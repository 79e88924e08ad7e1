"""Offers of a pool that creates its nodes (R38): which may be used now, in which order, and what an instance is expected to cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.documents.model import PROVIDERS, Burst, Offer
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.contracts.values.money import millionths
from headrace.domain.model.calendar import period_of
from headrace.domain.state.tenant_spending import cap_of, spent_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.domain.model.instances import Instance, OfferState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

DEFAULT = "default"
"""Name of the one offer of a pool whose document has none."""

SPOT = "spot"
ANY_NUMBER = 1 << 30
REFUSED_FIRST = MINUTE
REFUSED_DOUBLINGS = 6
"""An offer that was refused is closed for a minute, then twice as long each time, up to an hour."""

OUTCOMES = {
    "CAPACITY": "no_capacity",
    "QUOTA": "no_quota",
    "PRICE": "over_price",
    "INVALID": "invalid",
    "MISMATCH": "mismatch",
    "CAP": "over_cap",
}
"""How growth ends, by the reason for which its last offer was closed; `late` for every other one."""


def is_provided(state: State, burst: Burst | None) -> bool:
    """Whether the provisioner creates the nodes of the pool; else an operator does."""
    return burst is not None and burst.provider in PROVIDERS[1:] and state.terms.level >= PROVISIONING


def offers_of(burst: Burst) -> tuple[Offer, ...]:
    """The offers as written; one without a price if the document has none."""
    return burst.offers or (Offer(name=DEFAULT, market=SPOT if burst.spot else "on_demand"),)


def price_of(state: State, pool: str, offer: Offer) -> int:
    """The price of an hour: as observed last, else as written; in millionths, 0 if not known."""
    known = state.offers.get((pool, offer.name))
    return known.price if known is not None and known.price else millionths(offer.price)


def open_offers(state: State, pool: PoolState, now: int, *, spot: bool = True) -> list[Offer]:
    """The offers that may be used now, the one to use first. `spot`: whether spot instances will do."""
    burst, name = pool.document.burst, pool.document.name
    if burst is None:
        return []
    found = [offer for offer in offers_of(burst) if not closed(state, name, offer, now) and (spot or offer.market != SPOT)]
    return found if burst.order != "cheapest" else sorted(found, key=lambda offer: price_of(state, name, offer))


def closed(state: State, pool: str, offer: Offer, now: int) -> str:
    """Why an offer may not be used now; empty if it may."""
    known = state.offers.get((pool, offer.name))
    if known is not None and known.closed_until > now:
        return known.code
    if offer.max_price and price_of(state, pool, offer) > millionths(offer.max_price):
        return "PRICE"
    document = state.pools[pool].document.burst if pool in state.pools else None
    if document is not None and document.cap and not affordable(state, state.pools[pool], offer, now):
        return "CAP"
    return ""


def affordable(state: State, pool: PoolState, offer: Offer, now: int) -> int:
    """How many more instances the pool's cap pays for to the end of their estimate; without a cap, or without a price, any number."""
    burst = pool.document.burst
    each = estimate(burst, price_of(state, pool.document.name, offer)) if burst is not None else 0
    if burst is None or not burst.cap or not each:
        return ANY_NUMBER
    left = millionths(burst.cap) - spent(state, pool, now)
    for one in state.instances.values():  # what those that live will cost at least
        if one.pool == pool.document.name and one.lives:
            left -= max(0, estimate(burst, one.price) - one.cost(0, now))
    return max(0, left // each)


def affordable_to(state: State, tenant: str, pool: PoolState, now: int, *, spot: bool = True) -> int:
    """How many instances the tenant's cap in this pool pays for to the end of their estimate; any number without a cap.

    They are counted at the price of the offer that comes first.
    """
    burst, name = pool.document.burst, pool.document.name
    cap = cap_of(state, tenant, name)
    if burst is None or not cap:
        return ANY_NUMBER
    left = max(0, cap - spent_by(state, tenant, name, now))
    offers = open_offers(state, pool, now, spot=spot)
    each = estimate(burst, price_of(state, name, offers[0])) if offers else 0
    return left // each if each else ANY_NUMBER if left else 0


def spent(state: State, pool: PoolState, now: int) -> int:
    """What the pool's instances have cost so far in the calendar month of UTC, in millionths."""
    name, (month, _) = pool.document.name, period_of("month", None, now)
    known = state.spent.get(name)
    ended = known.amount if known is not None and known.month == month else 0
    return ended + sum(one.cost(month, now) for one in state.instances.values() if one.pool == name and one.lives)


def is_over_cap(state: State, pool: PoolState, now: int) -> bool:
    """Whether the pool has spent its cap of the month."""
    burst = pool.document.burst
    return burst is not None and bool(burst.cap) and spent(state, pool, now) >= millionths(burst.cap)


def cap_reached_at(state: State, pool: PoolState, now: int) -> int | None:
    """When the instances that live will have spent the rest of the cap; None without a cap, or while none costs anything."""
    burst, name = pool.document.burst, pool.document.name
    hourly = sum(one.price for one in state.instances.values() if one.pool == name and one.lives and one.created_at)
    if burst is None or not burst.cap or not hourly:
        return None
    return now + max(0, millionths(burst.cap) - spent(state, pool, now)) * HOUR // hourly + 1


def reopens_at(state: State, pool: PoolState, now: int) -> int | None:
    """When the first closed offer of a pool may be used again; None if none is closed for a time."""
    burst = pool.document.burst
    offers = offers_of(burst) if burst is not None else ()
    known = (state.offers.get((pool.document.name, offer.name)) for offer in offers)
    moments = [one.closed_until for one in known if one is not None and one.closed_until > now]
    if burst is not None and burst.cap and any(closed(state, pool.document.name, offer, now) == "CAP" for offer in offers):
        moments.append(period_of("month", None, now)[1])
    return min(moments, default=None)


def closed_for(known: OfferState | None) -> int:
    """How long an offer is closed that is refused once more."""
    return REFUSED_FIRST << min(known.failures if known is not None else 0, REFUSED_DOUBLINGS)


def estimate(burst: Burst, price: int) -> int:
    """The least that an instance costs: from its boot over its idle time, or its least life; in millionths."""
    return price * max(burst.min_life, burst.boot + burst.idle) // HOUR


def living(instances: Iterable[Instance], pool: PoolState) -> set[str]:
    """Names of a pool's nodes and of its instances that have not ended; both count for `max_nodes`."""
    name = pool.document.name
    return {*pool.nodes, *(one.name for one in instances if one.pool == name and one.lives)}
