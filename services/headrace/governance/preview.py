"""The installation as it would be if documents were applied: the same fold, the same hardware, the same jobs.

Strategy: the facts are folded into an empty state, by the fold itself, and the result is laid over the current state. So the real state
is unchanged, and the meaning of documents is implemented once.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.contracts.facts import AnyFact
from headrace.domain.fold.governance import HANDLERS
from headrace.domain.model.nodes import NodeState
from headrace.domain.state.pools import PoolState
from headrace.domain.state.state import State
from headrace.domain.state.supply import recount


def preview(state: State, facts: Iterable[AnyFact]) -> State:
    """Documents, shares, pools and their nodes after `facts` of governance (`applied` only). Read-only.

    It shares everything that does not change with `state`. It contains neither jobs nor queues.
    """
    fresh = State(sequence=state.sequence, now=state.now)
    for fact in facts:
        HANDLERS[type(fact)](fresh, fact, state.sequence + 1, 0)
    kept_shares = {key: share for key, share in state.shares.items() if key[0] not in fresh.tenants}
    return State(
        sequence=state.sequence,
        now=state.now,
        tenants=state.tenants | fresh.tenants,
        users=state.users | fresh.users,
        groups=state.groups | fresh.groups,
        profiles=state.profiles | fresh.profiles,
        policies=state.policies | fresh.policies,
        pools=_with_nodes(state, fresh.pools) if fresh.pools else state.pools,
        shares=kept_shares | fresh.shares,
        nodes=state.nodes,
    )


def _with_nodes(state: State, changed: dict[str, PoolState]) -> dict[str, PoolState]:
    """Copies of all pools, each node in the pool that the changed selectors choose."""
    pools = {name: PoolState(pool.document, pool.revision) for name, pool in (state.pools | changed).items()}
    for node in state.nodes.values():
        home = _home(node, pools)
        if home is not None:
            home.nodes[node.name] = node
    for pool in pools.values():
        recount(pool)
    return pools


def _home(node: NodeState, pools: dict[str, PoolState]) -> PoolState | None:
    """The node's pool as the fold (`join_pool`) chooses it: unchanged while it holds leases, else the first pool that selects it."""
    if node.pool and node.leases:
        return pools[node.pool]
    return next((pools[name] for name in sorted(pools) if pools[name].document.selector.items() <= node.labels.items()), None)
