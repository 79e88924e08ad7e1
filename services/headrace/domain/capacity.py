"""Taking and giving back: the one place where leases, nominations and yielding change what is free and what is used.

Every function has an inverse, so that a decider may try a grant on the state and undo it (`take` / `give_back`). The fold uses the
same functions; nobody else touches these numbers. Conservation is asserted: a device never holds more than it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.amounts import CPU, GPU, GPU_UNITS, JOB, MEMORY, add_to
from headrace.contracts.facts.fact import Place
from headrace.domain.meters import count
from headrace.domain.scopes import scopes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.amounts import Amounts
    from headrace.contracts.facts.fact import DeviceShare
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
        node.pool.index.hold(node, job.request.shape, place.amounts, 1)
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
            node.pool.index.hold(node, job.request.shape, place.amounts, -1)
    discharge(state, job, pool, place.amounts)


def held_by(lease: LeaseState) -> Place:
    """What a lease holds now: while it is suspended, neither its devices nor what is charged for them (R29)."""
    if not lease.suspended_at:
        return Place(node=lease.node, devices=lease.devices, amounts=lease.amounts)
    return Place(node=lease.node, amounts={key: value for key, value in lease.amounts.items() if key != GPU})


def gpu_part(lease: LeaseState) -> Place:
    """The devices of a lease and what is charged for them: what a suspension sets free."""
    return Place(node=lease.node, devices=lease.devices, amounts={GPU: lease.amounts.get(GPU, 0)})


def is_open(node: NodeState, devices: tuple[DeviceShare, ...]) -> bool:
    """Whether these units of these devices of the node are there, and could be granted now."""
    opens = {device.name: device.open for device in node.devices}
    return all(opens.get(share.device, -1) >= share.units for share in devices)


def freed_by(lease: LeaseState) -> LeaseState | Place:
    """What a lease sets free when its job has yielded: all that it holds, or, where a ladder suspends it, its devices only."""
    stop = lease.job.stop
    if stop is None or stop.then != "suspend":
        return held_by(lease) if lease.suspended_at else lease
    return gpu_part(lease) if not lease.suspended_at else Place(node=lease.node)


def tally(node: NodeState, sign: int) -> None:
    """Tell its pool's index of all that is held on the node, or with sign -1 of no such thing: before and after it becomes another."""
    if node.pool is not None:
        for lease in node.leases.values():
            node.pool.index.hold(node, lease.job.request.shape, held_by(lease).amounts, sign)


def charge(state: State, job: JobRecord, pool: PoolState, amounts: Amounts) -> None:
    """Count `amounts` as leased in the pool and in every account of the job."""
    _charge(state, job, pool, amounts, 1)


def discharge(state: State, job: JobRecord, pool: PoolState, amounts: Amounts) -> None:
    """The inverse of `charge`."""
    _charge(state, job, pool, amounts, -1)


def _charge(state: State, job: JobRecord, pool: PoolState, amounts: Amounts, sign: int) -> None:
    if job.policy.meters:
        count(job.policy, amounts, state.now, sign)
    scopes = scopes_of(state, job.policy, pool.document.name)
    uses = [pool.use, *[scope.use for scope in scopes]]
    if not job.preemptible:
        uses += [scope.firm for scope in scopes]
    _add(uses, amounts, sign)
    _mark(state, job)


def yield_use(state: State, job: JobRecord, pool: PoolState, amounts: Amounts, sign: int) -> None:
    """With sign 1: `amounts` make room for a nominated preemptor and count no more in tests (R17). With -1: they do again."""
    scopes = scopes_of(state, job.policy, pool.document.name)
    _add([pool.use, *[scope.use for scope in scopes]], amounts, -sign)
    _add([pool.apart, *[scope.apart for scope in scopes]], amounts, sign)
    _mark(state, job)


def nominate(state: State, preemption: Preemption) -> None:
    """Keep its places for the preemptor (R27): nobody else is granted them, and they count as its use (R17)."""
    _nominate(state, preemption, 1)


def lift(state: State, preemption: Preemption) -> None:
    """The inverse of `nominate`."""
    _nominate(state, preemption, -1)


def _nominate(state: State, preemption: Preemption, sign: int) -> None:
    pool, job, total = state.pools[preemption.pool], preemption.job, preemption.total
    _keep(state, preemption.places, sign)
    scopes = scopes_of(state, job.policy, preemption.pool)
    _add([pool.use, pool.nominated, *[scope.use for scope in scopes]], total, sign)
    _add([pool.apart, *[scope.apart for scope in scopes]], total, -sign)
    if not job.preemptible:
        _add([scope.firm for scope in scopes], total, sign)
    _mark(state, job)


def _mark(state: State, job: JobRecord) -> None:
    """For whoever watches: the accounts of the job's policy have changed."""
    if state.stale is not None:
        state.stale[job.policy] = None


def _add(totals: Iterable[Amounts], amounts: Amounts, sign: int) -> None:
    """Keys that reach zero go, so that equal states look equal."""
    for total in totals:
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
