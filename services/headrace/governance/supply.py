"""What pools have and who gets there: reached pools, known capacity (R6), and that no node belongs to two of them."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.contracts.amounts import CPU, GPU, GPU_UNITS, MEMORY
from headrace.contracts.documents import Policy
from headrace.domain.capacity import capacity_of
from headrace.domain.state import NodeState, PoolState, State
from headrace.governance.findings import Findings
from headrace.governance.objects import Name, Placed

_HARDWARE = (GPU, CPU, MEMORY)


def pools_reached(after: State, policy: Policy) -> tuple[str, ...]:
    """The existing pools that the policy's profiles lead to, each once."""
    reached: dict[str, None] = {}
    for link in policy.profiles:
        profile = after.profile(policy.tenant, link.name)
        reached |= dict.fromkeys(name for name in (profile.pools if profile else ()) if name in after.pools)
    return tuple(reached)


def most(pool: PoolState, key: str) -> int | None:
    """Known capacity (R6): all registered nodes and those that may be created, under the declared ceiling. None: no bound is known."""
    declared = pool.document.capacity.get(key)
    if key not in _HARDWARE:
        return capacity_of(pool, key) if declared is None else declared
    hardware = _hardware(pool, key)
    if hardware is None or declared is None:
        return declared if hardware is None else hardware
    return min(hardware, declared)


def _hardware(pool: PoolState, key: str) -> int | None:
    burst = pool.document.burst
    if not pool.nodes and burst is None:
        return None
    has = sum(_of_node(node, key) for node in pool.nodes.values())
    if burst is not None:
        each = {GPU: burst.node.gpus * GPU_UNITS, CPU: burst.node.cpus, MEMORY: burst.node.memory}[key]
        has += each * max(0, burst.max_nodes - len(pool.nodes))
    return has


def _of_node(node: NodeState, key: str) -> int:
    return {GPU: len(node.devices) * GPU_UNITS, CPU: node.cpu, MEMORY: node.memory}[key]


def check_selectors(state: State, after: State, changed: Iterable[Placed], findings: Findings) -> None:
    """A node belongs to one pool: a new or changed selector must not pick nodes that another pool's picks as well."""
    new = {name.name for name, _, _ in changed if name.kind == "pool" and _selector_changed(state, after, name.name)}
    if not new:
        return
    told: set[frozenset[str]] = set()
    for pool in sorted(new):
        mine = after.pools[pool].document.selector
        for other, theirs in after.pools.items():
            selector = theirs.document.selector
            if other == pool or not (mine.items() <= selector.items() or selector.items() <= mine.items()):
                continue
            if frozenset((pool, other)) not in told:
                told.add(frozenset((pool, other)))
                inner = other if mine.items() <= selector.items() else pool
                _tell(findings, pool, other, f"every node of pool {inner}")
    for node in sorted(after.nodes.values(), key=lambda node: node.name):
        picked = [name for name, pool in after.pools.items() if pool.document.selector.items() <= node.labels.items()]
        for pool in new.intersection(picked):
            for other in picked:
                if other != pool and frozenset((pool, other)) not in told:
                    told.add(frozenset((pool, other)))
                    _tell(findings, pool, other, f"node {node.name}")


def _selector_changed(state: State, after: State, pool: str) -> bool:
    before = state.pools.get(pool)
    return before is None or before.document.selector != after.pools[pool].document.selector


def _tell(findings: Findings, pool: str, other: str, what: str) -> None:
    message = f"{what} would belong to pools {pool} and {other}; a node belongs to one: add a label that tells them apart"
    findings.error(findings.where(Name("pool", "", pool), "selector"), message)
