"""Offers of a pool that creates its nodes (R38): which may be used now, in which order, and what an instance is expected to cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.documents.model import PROVIDERS, Burst, Offer
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.contracts.values.money import millionths
from headrace.domain.model.calendar import period_of
from headrace.domain.state.tenant_spending import cap_of, cost_of, hourly_cost, leases_of, spent_by

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

INTERRUPTED_SPARE = 20 * SECOND
"""How long before its instance is taken back the last process of a job has left."""

GRACE_AT_CAP = 10 * MINUTE
"""The longest ladder of a job whose instance leaves because the cap of its pool is reached; longer ones are cut to it."""

GONE_WITHIN = 30 * SECOND
"""How much longer an instance is expected to cost after its jobs have left; a restart of the provisioner takes less."""

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
    """How many more instances the pool's cap pays for to the end of their estimate, and until they are gone.

    Any number without a cap, or without a price. None in the rest of a month in which the cap was reached, until it is raised.
    """
    burst, name = pool.document.burst, pool.document.name
    price = price_of(state, name, offer)
    each = estimate(burst, price) + price * GONE_WITHIN // HOUR if burst is not None else 0
    if burst is None or not burst.cap or not each:
        return ANY_NUMBER
    cap, known = millionths(burst.cap), state.spent.get(name)
    if known is not None and known.reached >= cap and known.month == period_of("month", None, now)[0]:
        return 0
    left = cap - spent(state, pool, now)
    for one in state.instances.values():  # what those that live will cost at least
        if one.pool == name and one.lives:
            left -= max(0, estimate(burst, one.price) - one.cost(0, now)) + leaving_cost(state, one)
    return max(0, left // each)


def leaving_cost(state: State, one: Instance) -> int:
    """What an instance that is released now will have cost until it is gone, at most: its jobs leave by their ladders first."""
    node = state.nodes.get(one.name)
    terms = [lease.job.policy.document.preemption for lease in node.leases.values()] if node is not None else []
    ladder = max((each.callback_grace + each.term_grace for each in terms), default=0)
    return one.price * (min(ladder, GRACE_AT_CAP) + GONE_WITHIN) // HOUR


def affordable_to(state: State, tenant: str, pool: PoolState, now: int, *, spot: bool = True) -> int:
    """How many instances the tenant's cap in this pool pays for to the end of their estimate; any number without a cap.

    They are counted at the price of the offer that comes first, beside what the tenant's jobs will cost on instances that are there.
    """
    burst, name = pool.document.burst, pool.document.name
    cap = cap_of(state, tenant, name)
    if burst is None or not cap:
        return ANY_NUMBER
    left = cap - spent_by(state, tenant, name, now)
    for lease in leases_of(state, tenant, name):
        left -= max(0, estimate(burst, hourly_cost(state, lease)) - cost_of(state, lease, 0, now))
    offers = open_offers(state, pool, now, spot=spot)
    each = estimate(burst, price_of(state, name, offers[0])) if offers else 0
    return max(0, left) // each if each else ANY_NUMBER if left > 0 else 0


def spent(state: State, pool: PoolState, now: int) -> int:
    """What the pool's instances have cost so far in the calendar month of UTC, in millionths."""
    name, (month, _) = pool.document.name, period_of("month", None, now)
    known = state.spent.get(name)
    ended = known.amount if known is not None and known.month == month else 0
    return ended + sum(one.cost(month, now) for one in state.instances.values() if one.pool == name and one.lives)


def leaves_by(one: Instance) -> int | None:
    """When the last job has to have left an instance that is to end; None: when its ladder is over."""
    if one.released == "interrupted" and one.deadline:
        return one.deadline - INTERRUPTED_SPARE
    return one.released_at + GRACE_AT_CAP if one.released == "cap" else None


def is_over_cap(state: State, pool: PoolState, now: int) -> bool:
    """Whether the pool has spent its cap of the month, but for what it costs until its instances are gone."""
    left = _left_of_cap(state, pool, now)
    return left is not None and left <= 0


def cap_reached_at(state: State, pool: PoolState, now: int) -> int | None:
    """When all instances have to leave so that the cap pays for it; None without a cap, or while none costs anything."""
    hourly = sum(
        one.price for one in state.instances.values() if one.pool == pool.document.name and one.lives and one.created_at
    )
    left = _left_of_cap(state, pool, now) if hourly else None
    return None if left is None else now + max(0, left) * HOUR // hourly + 1


def _left_of_cap(state: State, pool: PoolState, now: int) -> int | None:
    """What is left of the pool's cap after what its instances have cost and what their leaving costs; None without a cap."""
    burst, name = pool.document.burst, pool.document.name
    if burst is None or not burst.cap:
        return None
    there = (one for one in state.instances.values() if one.pool == name and one.lives and one.created_at)
    return millionths(burst.cap) - spent(state, pool, now) - sum(leaving_cost(state, one) for one in there)


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
