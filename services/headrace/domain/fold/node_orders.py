"""The fold of what is ordered about nodes (R28, R32, R36), and of their maintenance (R41)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.domain.model.maintenance import PoolMaintenance, ScheduledDrain
from headrace.domain.model.nodes import SELF

if TYPE_CHECKING:
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State


def _node_drain_scheduled(state: State, fact: f.NodeDrainScheduledV1, _sequence: int, _place: int) -> None:
    if fact.node in state.nodes:
        state.maintenance.drains[fact.node] = ScheduledDrain(fact.begins, fact.author, fact.reason)
        state.pending.sort_again(state.now)


def cancel_drain(state: State, node: str) -> ScheduledDrain | None:
    """No drain of the node is scheduled any more; the one that was."""
    drain = state.maintenance.drains.pop(node, None)
    if drain is not None:
        state.pending.sort_again(state.now)
        pool = state.pools.get(state.nodes[node].pool) if node in state.nodes else None
        if pool is not None:
            pool.openings += 1
    return drain


def _maintenance_stated(state: State, fact: f.MaintenanceStatedV1, _sequence: int, _place: int) -> None:
    if fact.pool not in state.pools:
        return
    if fact.begins:
        state.maintenance.pools[fact.pool] = PoolMaintenance(fact.begins, fact.ends, fact.begun, fact.reason)
    else:
        state.maintenance.pools.pop(fact.pool, None)
    _window_changed(state, fact.pool)


def _window_changed(state: State, name: str) -> None:
    pool = state.pools[name]
    for node in pool.nodes.values():
        follow_window(state, node)
        pool.index.put(node)
    pool.openings += 1
    state.stir()
    state.pending.sort_again(state.now)


def plan_windows(state: State, pool: str, *, planned: bool) -> None:
    """Note whether the pool's document has windows; the allocator states what they say."""
    (state.maintenance.planned.add if planned else state.maintenance.planned.discard)(pool)


def forget_windows(state: State, pool: str) -> None:
    """The pool is gone, and its windows with it."""
    plan_windows(state, pool, planned=False)
    if state.maintenance.pools.pop(pool, None) is not None:
        state.pending.sort_again(state.now)


def follow_window(state: State, node: NodeState) -> None:
    """The node is in maintenance while the pool that it is in now is."""
    node.maintenance = state.maintenance.under_way(node.pool)
    if node.draining or node.maintenance is not None:
        state.draining[node.name] = node
    else:
        state.draining.pop(node.name, None)


def _node_cordoned(state: State, fact: f.NodeCordonedV1, _sequence: int, _place: int) -> None:
    end_probation(state, fact.node)
    cordon(state, fact.node, fact.reason or "cordoned by " + fact.author, by=fact.author)


def _node_uncordoned(state: State, fact: f.NodeUncordonedV1, _sequence: int, _place: int) -> None:
    """It is given another chance, whatever it refused before; one whose instance is to end is not (R38)."""
    node = state.nodes.get(fact.node)
    if node is not None and node.leaves:
        return
    if node is not None:
        node.draining, node.refusals = False, {}
        follow_window(state, node)
        state.refusing.pop(node.name, None)
    cancel_drain(state, fact.node)
    state.excluded.pop(fact.node, None)
    end_probation(state, fact.node)
    cordon(state, fact.node, "")


def _node_excluded(state: State, fact: f.NodeExcludedV1, _sequence: int, _place: int) -> None:
    state.excluded[fact.node] = fact.reason
    end_probation(state, fact.node)
    cordon(state, fact.node, fact.reason, by=SELF)


def _node_drain_ordered(state: State, fact: f.NodeDrainOrderedV1, _sequence: int, _place: int) -> None:
    cancel_drain(state, fact.node)
    _drain(state, fact.node, fact.author, fact.reason)


def _node_drain_began(state: State, fact: f.NodeDrainBeganV1, _sequence: int, _place: int) -> None:
    drain = cancel_drain(state, fact.node)
    if drain is not None:
        _drain(state, fact.node, drain.author, drain.reason)


def _drain(state: State, name: str, author: str, reason: str) -> None:
    node = state.nodes.get(name)
    if node is not None:
        node.draining = True
        state.draining[node.name] = node
    end_probation(state, name)
    cordon(state, name, reason or "drained by " + author, by=author)


def _node_confirmed_empty(state: State, fact: f.NodeConfirmedEmptyV1, _sequence: int, _place: int) -> None:
    """What is overdue there is gone, and if the node is away, everything is (R28, R32); the allocator has to answer."""
    node = state.nodes.get(fact.node)
    if node is None:
        return
    for lease in node.leases.values():
        if lease.overdue or not node.healthy:
            lease.empty = True
            state.unsettled[lease.job.key] = lease.job


def leave(state: State, node: NodeState, cause: str, by: str = "") -> None:
    """The instance of the node is to end (R38): nothing new comes, everything on it leaves by its ladder. `by`: the operator, or empty."""
    node.leaves = node.draining = True
    state.draining[node.name] = node
    end_probation(state, node.name)
    cordon(state, node.name, f"its instance is to end: {cause}", by=by or SELF)


def end_probation(state: State, name: str) -> None:
    """An operator, or a job that it has started, has spoken on a node that was set aside by its refusals (R36)."""
    node = state.set_aside.pop(name, None)
    if node is not None:
        node.probation = None


def cordon(state: State, name: str, reason: str, *, by: str = "") -> None:
    """Nothing new is granted on the node; with an empty reason: it takes new work again. `by`: who cordoned it; empty: the allocator."""
    node = state.nodes.get(name)
    if node is not None and (reason or not node.leaves):
        node.cordoned = reason
        node.cordoned_by, node.cordoned_at = (by, state.now) if reason else ("", 0)
        pool = state.pool_of(node)
        if pool is not None:
            pool.index.put(node)
            state.stir()
            pool.openings += 1


HANDLERS: dict[type, Any] = {
    f.NodeCordonedV1: _node_cordoned,
    f.NodeUncordonedV1: _node_uncordoned,
    f.NodeExcludedV1: _node_excluded,
    f.NodeDrainOrderedV1: _node_drain_ordered,
    f.NodeDrainBeganV1: _node_drain_began,
    f.NodeConfirmedEmptyV1: _node_confirmed_empty,
    f.NodeDrainScheduledV1: _node_drain_scheduled,
    f.MaintenanceStatedV1: _maintenance_stated,
}
