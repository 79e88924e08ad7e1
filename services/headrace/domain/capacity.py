"""Taking and giving back: the one place where leases, nominations and yielding change what is free and what is used.

Every function has an inverse, so that a decider may try a grant on the state and undo it (`take` / `give_back`). The fold uses the
same functions; nobody else touches these numbers. Conservation is asserted: a device never holds more than it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.amounts import CPU, GPU, GPU_UNITS, JOB, MEMORY, add_to, take_from
from headrace.domain.scopes import scopes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.amounts import Amounts
    from headrace.contracts.facts.fact import DeviceShare, Place
    from headrace.domain.state import JobRecord, NodeState, PolicyState, PoolState, State


def take(state: State, job: JobRecord, pool: PoolState, place: Place) -> None:
    """A lease of `job` now holds `place`."""
    node = state.nodes[place.node]
    _take_units(node, place.devices, 1)
    node.cpu_free -= place.amounts.get(CPU, 0)
    node.memory_free -= place.amounts.get(MEMORY, 0)
    if node.pool is not None:
        node.pool.index.put(node)
    charge(state, job, pool, place.amounts)


def give_back(state: State, job: JobRecord, pool: PoolState, place: Place) -> None:
    """The inverse of `take`. A node that has vanished has nothing to give back to, its accounts still do."""
    node = state.nodes.get(place.node)
    if node is not None:
        _take_units(node, place.devices, -1)
        node.cpu_free += place.amounts.get(CPU, 0)
        node.memory_free += place.amounts.get(MEMORY, 0)
        if node.pool is not None:
            node.pool.index.put(node)
    discharge(state, job, pool, place.amounts)


def charge(state: State, job: JobRecord, pool: PoolState, amounts: Amounts) -> None:
    """Count `amounts` as leased in the pool and in every account of the job."""
    add_to(pool.leased, amounts)
    add_to(pool.use, amounts)
    state.mark(job.policy, pool.document.name)
    for scope in scopes_of(state, job.policy, pool.document.name):
        add_to(scope.leased, amounts)
        add_to(scope.use, amounts)
        if not job.preemptible:
            add_to(scope.firm, amounts)


def discharge(state: State, job: JobRecord, pool: PoolState, amounts: Amounts) -> None:
    """The inverse of `charge`."""
    take_from(pool.leased, amounts)
    take_from(pool.use, amounts)
    state.mark(job.policy, pool.document.name)
    for scope in scopes_of(state, job.policy, pool.document.name):
        take_from(scope.leased, amounts)
        take_from(scope.use, amounts)
        if not job.preemptible:
            take_from(scope.firm, amounts)


def yield_use(state: State, policy: PolicyState, pool: PoolState, amounts: Amounts, sign: int) -> None:
    """With sign 1: `amounts` make room for a nominated preemptor and count no more in tests (R17). With -1: they do again."""
    change = take_from if sign > 0 else add_to
    change(pool.use, amounts)
    state.mark(policy, pool.document.name)
    for scope in scopes_of(state, policy, pool.document.name):
        change(scope.use, amounts)


def nominate(state: State, policy: PolicyState, pool: PoolState, places: Iterable[Place], total: Amounts) -> None:
    """Keep `places` for a preemptor of `policy` (R27): nobody else is granted them, and they count as its use (R17)."""
    _keep(state, places, 1)
    add_to(pool.use, total)
    add_to(pool.nominated, total)
    state.mark(policy, pool.document.name)
    for scope in scopes_of(state, policy, pool.document.name):
        add_to(scope.use, total)


def lift(state: State, policy: PolicyState, pool: PoolState, places: Iterable[Place], total: Amounts) -> None:
    """The inverse of `nominate`."""
    _keep(state, places, -1)
    take_from(pool.use, total)
    take_from(pool.nominated, total)
    state.mark(policy, pool.document.name)
    for scope in scopes_of(state, policy, pool.document.name):
        take_from(scope.use, total)


def _keep(state: State, places: Iterable[Place], sign: int) -> None:
    for place in places:
        node = state.nodes.get(place.node)
        if node is None:
            continue
        names = {share.device: share.units for share in place.devices}
        for device in node.devices:
            device.nominated += sign * names.get(device.name, 0)
        node.cpu_nominated += sign * place.amounts.get(CPU, 0)
        node.memory_nominated += sign * place.amounts.get(MEMORY, 0)
        if node.pool is not None:
            node.pool.index.put(node)


def _take_units(node: NodeState, devices: tuple[DeviceShare, ...], sign: int) -> None:
    for share in devices:
        for device in node.devices:
            if device.name == share.device:
                device.free -= sign * share.units
                if not 0 <= device.free <= GPU_UNITS:
                    raise AssertionError(f"{node.name}/{device.name} would have {device.free} units free")
                break


def recount(pool: PoolState) -> None:
    """Work out known and usable capacity anew, after nodes or the document changed (R6)."""
    document = pool.document
    pool.governed = frozenset({GPU, *document.capacity})
    known: Amounts = {GPU: 0, CPU: 0, MEMORY: 0}
    usable: Amounts = {GPU: 0, CPU: 0, MEMORY: 0}
    for node in pool.nodes.values():
        has = {GPU: len(node.devices) * GPU_UNITS, CPU: node.cpu, MEMORY: node.memory}
        add_to(known, has)
        if node.healthy:
            add_to(usable, has)
    for key, ceiling in document.capacity.items():
        if key in (GPU, CPU, MEMORY):
            known[key] = min(known[key], ceiling)
            usable[key] = min(usable[key], ceiling)
        else:
            known[key] = usable[key] = ceiling
    pool.known, pool.usable = known, usable


def capacity_of(pool: PoolState, key: str) -> int | None:
    """Known capacity of a key (R5): None where nothing bounds it, 0 for a key that no `capacity` names."""
    if key in pool.known:
        return pool.known[key]
    return None if key == JOB else 0
