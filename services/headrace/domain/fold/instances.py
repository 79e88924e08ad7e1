"""The fold of instances and their offers (R38), and of nodes that leave the installation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.values.money import millionths
from headrace.domain.fold.node_orders import cancel_drain, leave
from headrace.domain.fold.nodes import set_status
from headrace.domain.model.calendar import period_of
from headrace.domain.model.instances import REMEMBERED, Instance, OfferState, Spending
from headrace.domain.state import capacity
from headrace.domain.state.supply import recount

if TYPE_CHECKING:
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State

UNLESS_BUSY = ("idle", "unused")
"""Causes of a release that a lease on the node outweighs."""
OF_THE_OFFER = ("boot_failed", "no_answer", "mismatch")
"""Causes of a release that are the offer's fault."""


def _ordered(state: State, fact: f.InstanceOrderedV1, _sequence: int, _place: int) -> None:
    for name in [name for name, one in state.instances.items() if one.ended_at and one.ended_at + REMEMBERED < state.now]:
        del state.instances[name]
    if fact.instance in state.instances:
        return
    state.instances[fact.instance] = Instance(
        name=fact.instance,
        pool=fact.pool,
        growth=fact.growth,
        provider=fact.provider,
        offer=fact.offer.name,
        market=fact.offer.market,
        price=fact.price,
        token=fact.token,
        ordered_at=state.now,
        expires=fact.expires,
        region=fact.offer.region,
    )


def _created(state: State, fact: f.InstanceCreatedV1, _sequence: int, _place: int) -> None:
    instance = state.instances.get(fact.instance)
    if instance is not None and instance.lives and not instance.created_at:
        instance.provider_id, instance.created_at = fact.provider_id, _between(instance.ordered_at, fact.at, state.now)


def _refused(state: State, fact: f.InstanceRefusedV1, _sequence: int, _place: int) -> None:
    instance = state.instances.get(fact.instance)
    if instance is None or not instance.lives or instance.created_at:
        return
    instance.refused, instance.message, instance.ended_at = fact.code, fact.message, state.now
    _close(state, instance, fact.code, fact.closed_until)
    _stir(state, instance.pool)


def _interrupted(state: State, fact: f.InstanceInterruptedV1, _sequence: int, _place: int) -> None:
    instance = state.instances.get(fact.node)
    if instance is not None and instance.lives and not instance.deadline:
        instance.interrupted, instance.deadline = fact.kind, fact.deadline


def _released(state: State, fact: f.InstanceReleasedV1, _sequence: int, _place: int) -> None:
    instance = state.instances.get(fact.instance)
    if instance is None or not instance.serves:
        return
    node = state.nodes.get(fact.instance)
    if fact.cause in UNLESS_BUSY and node is not None and node.leases:
        return
    instance.released, instance.released_at = fact.cause, state.now
    if fact.cause == "cap":
        _note_cap(state, instance.pool)
    if fact.cause in OF_THE_OFFER:
        _close(state, instance, fact.cause.upper(), fact.closed_until)
    growth = state.terms.growths.get(instance.pool)
    if (
        fact.cause == "unused"
        and growth is not None
        and not growth.open
        and growth.closed_until <= state.now < fact.closed_until
    ):
        growth.failures, growth.closed_until = growth.failures + 1, fact.closed_until
    if node is not None:
        leave(state, node, fact.cause, fact.by)
    _stir(state, instance.pool)


def _ended(state: State, fact: f.InstanceEndedV1, _sequence: int, _place: int) -> None:
    instance = state.instances.get(fact.instance)
    if instance is None or not instance.lives:
        return
    instance.ended, instance.ended_at = fact.cause, _between(instance.created_at or instance.ordered_at, fact.at, state.now)
    spent = _spending(state, instance.pool)
    spent.amount += instance.cost(spent.month, instance.ended_at)
    _leave(state, fact.instance)
    _stir(state, instance.pool)


def _spending(state: State, pool: str) -> Spending:
    """What the pool has spent in this month, to be changed."""
    month, _ = period_of("month", None, state.now)
    spent = state.spent.get(pool)
    if spent is None or spent.month != month:
        spent = state.spent[pool] = Spending(month)
    return spent


def _note_cap(state: State, name: str) -> None:
    """The pool's cap is reached: nothing more is ordered in this month, unless the cap is raised."""
    pool = state.pools.get(name)
    burst = pool.document.burst if pool is not None else None
    if burst is not None and burst.cap:
        spent = _spending(state, name)
        spent.reached = max(spent.reached, millionths(burst.cap))


def _orphan_ended(_state: State, _fact: f.InstanceOrphanEndedV1, _sequence: int, _place: int) -> None:
    """The ledger knew nothing of it."""


def _price_observed(state: State, fact: f.PriceObservedV1, _sequence: int, _place: int) -> None:
    offer = state.offers.setdefault((fact.pool, fact.offer), OfferState())
    offer.price = fact.price


def _node_removed(state: State, fact: f.NodeRemovedV1, _sequence: int, _place: int) -> None:
    _leave(state, fact.node)


def _leave(state: State, name: str) -> None:
    """The node is gone: what is still on it is lost, and it is forgotten as soon as nothing is left or kept on it."""
    node = state.nodes.get(name)
    if node is None:
        return
    for lease in node.leases.values():
        lease.empty = True
    set_status(state, name, "lost" if node.leases else "stopped")
    state.leaving[name] = node


def forget_nodes(state: State) -> None:
    """Forget nodes that have left, and on which nothing is held or kept any more."""
    for node in list(state.leaving.values()):
        if node.healthy:  # it has registered again
            del state.leaving[node.name]
        elif not node.leases and node.name not in _kept(state):
            _forget(state, node)


def _kept(state: State) -> set[str]:
    """Nodes on which something is kept for a job."""
    kept = {place.node for preemption in state.preemptions.values() for place in preemption.places}
    return kept | {place.node for hold in state.holds.values() for place in hold.places}


def _forget(state: State, node: NodeState) -> None:
    cancel_drain(state, node.name)
    capacity.tally(state, node, -1)
    pool = state.pool_of(node)
    if pool is not None:
        pool.index.remove(node)
        del pool.nodes[node.name]
        recount(pool, node)
        pool.openings += 1
        state.stir()
    for table in (state.nodes, state.leaving, state.refusing, state.set_aside, state.draining, state.approvals):
        table.pop(node.name, None)
    state.terms.executors.pop(node.name, None)


def _between(least: int, at: int, most: int) -> int:
    """The provider's time of something that the log has between two moments."""
    return max(least, min(at, most))


def _close(state: State, instance: Instance, code: str, until: int) -> None:
    """Close the offer of an instance; what was asked for together with one that closed it already closes it no longer."""
    offer = state.offers.setdefault((instance.pool, instance.offer), OfferState())
    if offer.closed_until <= state.now:
        offer.failures, offer.code, offer.closed_until = offer.failures + 1, code, until


def _stir(state: State, name: str) -> None:
    """What the pool may still create has changed."""
    pool = state.pools.get(name)
    if pool is not None:
        pool.openings += 1


HANDLERS: dict[type, Any] = {
    f.InstanceOrderedV1: _ordered,
    f.InstanceCreatedV1: _created,
    f.InstanceRefusedV1: _refused,
    f.InstanceInterruptedV1: _interrupted,
    f.InstanceReleasedV1: _released,
    f.InstanceEndedV1: _ended,
    f.InstanceOrphanEndedV1: _orphan_ended,
    f.PriceObservedV1: _price_observed,
    f.NodeRemovedV1: _node_removed,
}
