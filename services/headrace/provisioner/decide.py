"""What to order, what to release, and what is to be asked of providers now. Pure.

Naive meaning: state what providers have answered; release what is no longer needed; order what pools ask for; and name the calls that the
ledger says are not yet done. A fact comes before every call, so a call that was made and whose answer was lost is made again, with the
same token.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PROVIDERS
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.facts.provisioning import OfferTaken
from headrace.contracts.transport.digests import text_digest
from headrace.contracts.values.durations import MINUTE
from headrace.domain.model.calendar import period_of
from headrace.domain.placement.offers import (
    affordable,
    cap_reached_at,
    closed_for,
    estimate,
    is_over_cap,
    is_provided,
    living,
    offers_of,
    open_offers,
    price_of,
)
from headrace.domain.placement.pool_growth import CLOSED_FIRST, DOUBLINGS_MAX, open_growth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.documents.model import Burst, Offer
    from headrace.contracts.facts import AnyFact
    from headrace.domain.model.instances import Instance
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

FACTS_MAX = 200
"""Maximum facts in one record."""

POOL_NAME_MAX = 54
"""Characters of a pool's name in the names of its instances."""

DEFAULT_BOOT = 4 * MINUTE

MANY, PAUSE_EACH = 100, 300
"""With more instances than `MANY` a round is not repeated for every record of others, but after `PAUSE_EACH` microseconds for each
instance. A round, with the question when the next one is due, takes some 3 microseconds for each, so that all rounds of a minute take less
than a second of CPU.
"""


BEFORE_CAP = ("pool_closed", "interrupted")
"""Causes of a release that are named also if the cap is reached."""


class Call(NamedTuple):
    """What is to be asked of a provider: `create` or `end`, for one instance."""

    what: str
    instance: str


class Provisioner:
    """The rules of the provisioner over one state. `calls`: what the ledger says is not yet done, as of the last round."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.calls: tuple[Call, ...] = ()
        self._answers: deque[AnyFact] = deque()
        self._looked_at = 0
        self._skipped = False

    def add_facts(self, *facts: AnyFact) -> None:
        """What a provider has answered, or an operator has asked for: stated in the next round, if it still applies."""
        self._answers += facts

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """The facts to state at log time `now`; may be empty."""
        state = self.state
        many = len(state.instances) > MANY
        self._skipped = many and not self._answers and 0 <= now - self._looked_at < self._pause
        if self._skipped:
            return ()
        self._looked_at = now
        if state.terms.level < PROVISIONING:
            self._answers.clear()
            return ()
        applied: list[AnyFact] = []
        while self._answers and len(applied) < FACTS_MAX:
            fact = self._answers.popleft()
            if applies(state, fact):
                applied.append(fact)
        facts = applied or [*releases(state, now)][:FACTS_MAX] or [*orders(state, now)][:FACTS_MAX]
        self.calls = () if facts else tuple(calls(state))
        return tuple(facts)

    @property
    def _pause(self) -> int:
        return PAUSE_EACH * len(self.state.instances)

    def next_wakeup(self) -> int | None:
        """Time at which something is due without a new record."""
        if self.state.terms.level < PROVISIONING:
            return None
        if self._skipped:
            return self._looked_at + self._pause
        return min((moment for moment in _moments(self.state, self._looked_at) if moment > self._looked_at), default=None)


def applies(state: State, fact: AnyFact) -> bool:
    """Whether an answer still says something new."""
    match fact:
        case f.InstanceCreatedV1():
            one = state.instances.get(fact.instance)
            return one is not None and one.lives and not one.created_at
        case f.InstanceRefusedV1():
            one = state.instances.get(fact.instance)
            return one is not None and one.lives and not one.created_at
        case f.InstanceReleasedV1():
            one = state.instances.get(fact.instance)
            return one is not None and one.serves
        case f.InstanceEndedV1():
            one = state.instances.get(fact.instance)
            return one is not None and one.lives and not _is_busy(state, one)
        case f.InstanceOrphanEndedV1():
            one = state.instances.get(fact.instance)
            return one is None or not one.lives
        case f.PriceObservedV1():
            known = state.offers.get((fact.pool, fact.offer))
            return fact.pool in state.pools and (known is None or known.price != fact.price)
    return False


def calls(state: State) -> Iterator[Call]:
    """Orders without an answer, and instances that were released and hold nothing."""
    for one in state.instances.values():
        if not one.lives or one.provider not in PROVIDERS[1:]:
            continue
        if one.released:
            if not _is_busy(state, one):
                yield Call("end", one.name)
        elif not one.created_at:
            yield Call("create", one.name)


def _holds(state: State, one: Instance) -> bool:
    """Whether its node holds a lease."""
    node = state.nodes.get(one.name)
    return node is not None and bool(node.leases)


def _is_busy(state: State, one: Instance) -> bool:
    """Whether its node holds a lease that it could still run; what an absent node holds is for the allocator to end."""
    node = state.nodes.get(one.name)
    return node is not None and bool(node.leases) and node.healthy


def releases(state: State, now: int) -> Iterator[f.InstanceReleasedV1]:
    """Instances that are to end, each with the cause."""
    spare: dict[str, int] = {}
    over = {name for name, pool in state.pools.items() if is_over_cap(state, pool, now)}
    bursts = {name: burst for name, pool in state.pools.items() if is_provided(state, burst := pool.document.burst)}
    for one in state.instances.values():
        if one.ended_at or one.released:
            continue
        pool, burst = state.pools.get(one.pool), bursts.get(one.pool)
        cause = _why_release(state, one, burst, now) if burst is not None else "pool_closed"
        if one.pool in over and cause not in BEFORE_CAP:
            cause = "cap"
        if cause in ("idle", "unused") and pool is not None and burst is not None:
            spare.setdefault(one.pool, _serving(state, pool) - burst.min_nodes)
            if spare[one.pool] <= 0:
                continue
            spare[one.pool] -= 1
        if cause:
            yield f.InstanceReleasedV1(instance=one.name, cause=cause, closed_until=_closed_until(state, one, cause, now))


def _why_release(state: State, one: Instance, burst: Burst, now: int) -> str:
    if one.deadline:
        return "interrupted"
    if not one.joined_at:
        if one.created_at:
            return "boot_failed" if now >= one.created_at + 2 * burst.boot else ""
        if all(offer.name != one.offer for offer in offers_of(burst)):
            return "offer_gone"
        return "no_answer" if now >= one.expires else ""
    node = state.nodes.get(one.name)
    if node is None:
        return ""
    if not node.healthy:
        return "lost" if now >= node.status_at + 2 * burst.boot else ""
    if _differs(node, burst):
        return "mismatch"
    if burst.max_life and now >= one.joined_at + burst.max_life:
        return "max_life"
    if node.leases or now < one.emptied_at + burst.idle or now < one.created_at + burst.min_life or not _is_idle(node):
        return ""
    return "idle" if one.used else "unused"


def _is_idle(node: NodeState) -> bool:
    return not node.leases and not node.cpu_nominated and not any(device.nominated or device.kept for device in node.devices)


def _differs(node: NodeState, burst: Burst) -> bool:
    """Whether a node came with other GPUs than were promised; unfit ones were promised too."""
    promised, model, mig = burst.node, burst.node.gpu_model, burst.node.mig
    for device in node.devices:
        if device.model != model or device.mig != mig:
            return True
    return len(node.devices) < promised.gpus


def _closed_until(state: State, one: Instance, cause: str, now: int) -> int:
    if cause == "unused":
        with_it = (other for other in state.instances.values() if (other.pool, other.growth) == (one.pool, one.growth))
        if one.growth and any(other.used or _holds(state, other) for other in with_it):
            return 0
        growth = state.terms.growths.get(one.pool)
        return now + (CLOSED_FIRST << min(growth.failures if growth is not None else 0, DOUBLINGS_MAX))
    if cause in ("boot_failed", "no_answer", "mismatch"):
        return now + closed_for(state.offers.get((one.pool, one.offer)))
    return 0


def orders(state: State, now: int) -> Iterator[f.InstanceOrderedV1]:
    """Instances that pools need and have not ordered, by the best open offer of each."""
    for name, pool in sorted(state.pools.items()):
        burst = pool.document.burst
        if burst is None or not is_provided(state, burst):
            continue
        growth = open_growth(state, name)
        asked = growth.sequence if growth is not None else 0
        wanted = growth.nodes - growth.joined - _coming(state, name, asked) if growth is not None else 0
        short = burst.min_nodes - _serving(state, pool)
        creatable = burst.max_nodes - len(living(state.instances.values(), pool))
        spot = growth is None or not growth.firm
        offers = open_offers(state, pool, now, spot=spot) if max(wanted, short) > 0 < creatable else []
        for number in range(min(creatable, max(wanted, short), affordable(state, pool, offers[0], now)) if offers else 0):
            yield _order(state, pool, burst, offers[0], asked if number < wanted else 0, number, now)


def _coming(state: State, pool: str, growth: int) -> int:
    """Instances on their way for this growth."""
    return sum(
        one.pool == pool and one.growth == growth and one.serves and not one.joined_at for one in state.instances.values()
    )


def _serving(state: State, pool: PoolState) -> int:
    """Nodes and instances of a pool that are there to stay, so far."""
    there = living(state.instances.values(), pool)
    return sum(1 for name in there if (one := state.instances.get(name)) is None or one.serves)


def _order(
    state: State, pool: PoolState, burst: Burst, offer: Offer, growth: int, number: int, now: int
) -> f.InstanceOrderedV1:
    name, price = pool.document.name, price_of(state, pool.document.name, offer)
    token = text_digest(f"{name} {growth} {number} {state.sequence} {now}")
    return f.InstanceOrderedV1(
        instance=f"{name[:POOL_NAME_MAX]}-{token[:8]}",
        pool=name,
        growth=growth,
        provider=burst.provider,
        offer=OfferTaken(name=offer.name, type=offer.type, region=offer.region, zone=offer.zone, market=offer.market),
        price=price,
        estimate=estimate(burst, price),
        token=token,
        expires=now + 2 * (burst.boot or DEFAULT_BOOT),
    )


def _moments(state: State, now: int) -> Iterator[int]:
    for one in state.instances.values():
        pool = state.pools.get(one.pool)
        burst = pool.document.burst if pool is not None else None
        if not one.serves or burst is None:
            continue
        if not one.joined_at:
            yield one.created_at + 2 * burst.boot if one.created_at else one.expires
            continue
        yield max(one.emptied_at + burst.idle, one.created_at + burst.min_life)
        node = state.nodes.get(one.name)
        if node is not None and not node.healthy:
            yield node.status_at + 2 * burst.boot
        if burst.max_life:
            yield one.joined_at + burst.max_life
    yield from (offer.closed_until for offer in state.offers.values())
    for pool in state.pools.values():
        burst = pool.document.burst
        if burst is not None and burst.cap:
            yield period_of("month", None, now)[1]
            if (reached := cap_reached_at(state, pool, now)) is not None:
                yield reached
