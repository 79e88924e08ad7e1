"""Taking and giving back: the one place where leases, nominations and yielding change what is free and what is used.

Every function has an inverse, so that a decider may try a grant on the state and undo it (`take` / `give_back`). The fold uses the
same functions; nobody else touches these numbers. Conservation is asserted: a device never holds more than it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.amounts import CPU, GPU_UNITS, MEMORY
from headrace.domain.devices import counted
from headrace.domain.scopes import scopes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.amounts import Amounts
    from headrace.contracts.facts.fact import DeviceShare, Place
    from headrace.domain.state import JobRecord, LeaseState, NodeState, PoolState, State
    from headrace.domain.takings import Preemption


def take(state: State, job: JobRecord, pool: PoolState, place: Place) -> None:
    """A lease of `job` now holds `place`."""
    node = state.nodes[place.node]
    _take_units(node, place.devices, 1)
    node.cpu_free -= place.amounts.get(CPU, 0)
    node.memory_free -= place.amounts.get(MEMORY, 0)
    if node.pool is not None:
        node.pool.index.put(node)
    _charge(state, job, pool, place, 1)


def give_back(state: State, job: JobRecord, pool: PoolState, place: Place) -> None:
    """The inverse of `take`. A node that has vanished has nothing to give back to, its accounts still do."""
    node = state.nodes.get(place.node)
    if node is not None:
        _take_units(node, place.devices, -1)
        node.cpu_free += place.amounts.get(CPU, 0)
        node.memory_free += place.amounts.get(MEMORY, 0)
        if node.pool is not None:
            node.pool.index.put(node)
    _charge(state, job, pool, place, -1)


def _charge(state: State, job: JobRecord, pool: PoolState, place: Place, sign: int) -> None:
    """Count the place as leased, or no more, in the pool and in every account of the job."""
    amounts = place.amounts
    _add(pool.leased, counted(pool.cut.leased, place.node, place.devices, amounts, sign), sign)
    _add(pool.use, counted(pool.cut.use, place.node, place.devices, amounts, sign), sign)
    state.mark(job.policy, pool.document.name)
    for scope in scopes_of(state, job.policy, pool.document.name):
        _add(scope.leased, amounts, sign)
        _add(scope.use, amounts, sign)
        if not job.preemptible:
            _add(scope.firm, amounts, sign)


def yield_use(state: State, job: JobRecord, pool: PoolState, held: Place | LeaseState, sign: int) -> None:
    """With sign 1: what is held makes room for a nominated preemptor and counts no more in tests (R17). With -1: it does again."""
    amounts = held.amounts
    _add(pool.use, counted(pool.cut.use, held.node, held.devices, amounts, -sign), -sign)
    state.mark(job.policy, pool.document.name)
    for scope in scopes_of(state, job.policy, pool.document.name):
        _add(scope.use, amounts, -sign)


def nominate(state: State, preemption: Preemption) -> None:
    """Keep its places for the preemptor (R27): nobody else is granted them, and they count as its use (R17)."""
    _nominate(state, preemption, 1)


def lift(state: State, preemption: Preemption) -> None:
    """The inverse of `nominate`."""
    _nominate(state, preemption, -1)


def _nominate(state: State, preemption: Preemption, sign: int) -> None:
    pool, job, total = state.pools[preemption.pool], preemption.job, preemption.total
    _keep(state, preemption.places, sign)
    for place in preemption.places:
        _add(pool.use, counted(pool.cut.use, place.node, place.devices, place.amounts, sign), sign)
        _add(pool.nominated, counted(pool.cut.nominated, place.node, place.devices, place.amounts, sign), sign)
    state.mark(job.policy, preemption.pool)
    for scope in scopes_of(state, job.policy, preemption.pool):
        _add(scope.use, total, sign)
        if not job.preemptible:
            _add(scope.firm, total, sign)


def _add(total: Amounts, amounts: Amounts, sign: int) -> None:
    """Keys that reach zero go, so that equal states look equal."""
    for key, value in amounts.items():
        after = total.get(key, 0) + sign * value
        if after:
            total[key] = after
        else:
            total.pop(key, None)


def _keep(state: State, places: Iterable[Place], sign: int) -> None:
    for place in places:
        node = state.nodes.get(place.node)
        if node is None:
            continue
        shares = {share.device: share for share in place.devices}
        for device in node.devices:
            if device.name in shares:
                device.keep(shares[device.name], sign)
        node.cpu_nominated += sign * place.amounts.get(CPU, 0)
        node.memory_nominated += sign * place.amounts.get(MEMORY, 0)
        if node.pool is not None:
            node.pool.index.put(node)


def _take_units(node: NodeState, devices: tuple[DeviceShare, ...], sign: int) -> None:
    for share in devices:
        for device in node.devices:
            if device.name == share.device:
                device.take(share, sign)
                if not 0 <= device.free <= GPU_UNITS:
                    raise AssertionError(f"{node.name}/{device.name} would have {device.free} units free")
                break
