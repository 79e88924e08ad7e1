"""What a pool has (R5, R6), and how much of it counts for whom: dedicated nodes count for their owner only (R21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import (
    CPU,
    CPU_UNITS,
    GPU,
    GPU_UNITS,
    JOB,
    MEMORY,
    add_to,
    is_gpu,
    key_of_model,
    model_of,
    times,
)
from headrace.domain.model.census import HARDWARE, Census, is_hardware
from headrace.domain.model.dedication import has_owners, may_use, owner_of_new, reach_in
from headrace.domain.state.quota import free_of

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Pool
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.census import NodeKind, PolicyKey
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.pools import PoolState


def census_of(pool: PoolState) -> Census:
    """Census of the pool's nodes; computed if missing."""
    if pool.census is None:
        pool.census = Census(pool.document)
        for node in pool.nodes.values():
            pool.census.count(node)
    return pool.census


def recount(pool: PoolState, node: NodeState | None = None) -> None:
    """Work out known and usable capacity anew, after nodes or the document changed (R6).

    `node`: the only one that has changed, come or gone since it was worked out last.
    """
    if node is None or pool.census is None:
        pool.census = None
    elif node.name in pool.nodes:
        pool.census.count(node)
    else:
        pool.census.forget(node.name)
    census, pool.topology = census_of(pool), None
    pool.governed = frozenset({GPU, *pool.document.capacity})
    pool.models = tuple(model for key in pool.document.capacity if (model := model_of(key)))
    known, usable = census.by_model(pool.models)
    pool.known = _under_ceilings(pool.document, _with_new(pool, {**census.known, **known}))
    pool.usable = _under_ceilings(pool.document, {**census.usable, **usable})
    pool.families = frozenset(family for family, count in census.families.items() if count)


def is_known(pool: PoolState) -> bool:
    """Whether it is known what the pool has: a node has registered, or the document describes those it creates (R6)."""
    return bool(pool.nodes) or pool.document.burst is not None


def new_nodes(pool: PoolState) -> int:
    """How many nodes the pool may still create (R38)."""
    burst = pool.document.burst
    return max(0, burst.max_nodes - len(pool.nodes)) if burst is not None else 0


def known_to(pool: PoolState, policy: PolicyKey | None) -> Amounts:
    """Known capacity of a pool as far as it counts for a policy (R6, R21); for None all of it."""
    if policy is None or not has_owners(pool.document):
        return pool.known
    new = owner_of_new(pool.document) in reach_in(pool.document, policy)
    mine = census_of(pool).of(policy)
    if not mine and not new:
        return dict.fromkeys(pool.known, 0)
    sums = _sum(pool, mine)
    return _under_ceilings(pool.document, _with_new(pool, sums) if new else sums)


def capacity_of(pool: PoolState, key: str, policy: PolicyKey | None = None) -> int | None:
    """Known capacity of a key for a policy (R5): None if nothing is known to bound it, 0 for a key that no `capacity` names.

    Before anything is known of what nodes bring, only what the document declares bounds it (R6).
    """
    if is_hardware(key) and not is_known(pool):
        is_mine = policy is None or owner_of_new(pool.document) in reach_in(pool.document, policy)
        return pool.document.capacity.get(key) if is_mine else 0
    known = known_to(pool, policy)
    if key in known:
        return known[key]
    return None if key in (CPU, MEMORY, JOB) or model_of(key) else 0


def by_owner(pool: PoolState) -> dict[str, Amounts]:
    """What nodes bring, and what the pool may create, by owner (R21); no ceiling is applied."""
    nodes: dict[str, list[tuple[NodeKind, int]]] = {owner_of_new(pool.document): []}
    for kind, count in census_of(pool).kinds.items():
        nodes.setdefault(kind.owner, []).append((kind, count))
    return {
        owner: _with_new(pool, _sum(pool, theirs)) if owner == owner_of_new(pool.document) else _sum(pool, theirs)
        for owner, theirs in nodes.items()
    }


def is_short(pool: PoolState, key: str, policy: PolicyKey, asked: int, *, in_service: bool) -> bool:
    """Whether a policy may be granted less than that of a key now: of what nodes bring, no more than is idle on the nodes it may use.

    With `in_service` only nodes count that take new work: what is idle on a cordoned one is not free (R6). Before the amendment a node
    counted while it was healthy, and the sums alone in a pool without dedicated nodes.
    """
    if free_of(pool, key) < asked:  # so that a full pool needs no look at its nodes
        return True
    if not is_hardware(key) or not (in_service or has_owners(pool.document)):
        return False
    idle = 0
    for node in pool.nodes.values():
        if (node.grantable if in_service else node.healthy) and may_use(pool.document, node, policy):
            idle += _idle(node, key)
            if idle >= asked:
                return False
    return idle < asked


def sums_bind(pool: PoolState) -> bool:
    """Whether GPUs may be idle on nodes and yet not granted: under a ceiling, or while leases are on nodes that are away (R6)."""
    if GPU in pool.document.capacity or pool.models:
        return True
    left = pool.usable.get(GPU, 0) - max(pool.use.get(GPU, 0), pool.leased.get(GPU, 0))
    for node in pool.nodes.values():
        if node.healthy:
            left -= _idle(node, GPU)
            if left < 0:
                return True
    return left < 0


def _idle(node: NodeState, key: str) -> int:
    if is_gpu(key):
        if key != GPU and key != key_of_model(node.model):
            return 0
        if node.some_deny_units:
            return sum([device.idle for device in node.devices])
        return sum([units for device in node.devices if (units := device.free - device.nominated) > 0])
    return node.cpu_open if key == CPU else node.memory_open


def _sum(pool: PoolState, kinds: list[tuple[NodeKind, int]]) -> Amounts:
    total: Amounts = dict.fromkeys((*HARDWARE, *map(key_of_model, pool.models)), 0)
    for kind, count in kinds:
        add_to(total, times(kind.amounts, count))
        if kind.model in pool.models:
            total[key_of_model(kind.model)] += kind.amounts[GPU] * count
    return total


def _with_new(pool: PoolState, total: Amounts) -> Amounts:
    """What present nodes bring, and nodes that the pool may create; without keys whose amount on a created node is unknown."""
    burst, count = pool.document.burst, new_nodes(pool)
    if burst is None or not count:
        return total
    each = {GPU: burst.node.gpus * GPU_UNITS, CPU: burst.node.cpus * CPU_UNITS, MEMORY: burst.node.memory}
    if burst.node.gpu_model in pool.models:
        each[key_of_model(burst.node.gpu_model)] = each[GPU]
    add_to(total, times(each, count))
    return {key: units for key, units in total.items() if each.get(key) or is_gpu(key)}


def _under_ceilings(document: Pool, hardware: Amounts) -> Amounts:
    """What the document declares: a ceiling on what nodes bring, and all there is of every other key (R5)."""
    return hardware | {
        key: min(hardware[key], ceiling) if key in hardware else ceiling for key, ceiling in document.capacity.items()
    }
