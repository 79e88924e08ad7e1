"""Where a job goes (R3, R18, R20): one place for each replica, all on nodes that can hold them now, or nowhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.contracts.values.amounts import CPU_UNITS, GPU, GPU_UNITS, key_of_model
from headrace.contracts.values.mig import best_start, family_of, most_of, placements_lost
from headrace.domain.model.dedication import may_use, owner_of_new, reach_in
from headrace.domain.model.devices import change
from headrace.domain.model.topology import fullest
from headrace.domain.placement.offers import SPOT, offers_of
from headrace.domain.state.supply import census_of, new_nodes
from headrace.domain.state.topology import domains_by_fit, topology_of
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from headrace.contracts.values.mig import Layout
    from headrace.domain.indexes.slice_packing import SliceMix
    from headrace.domain.model.census import NodeKind
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.requests import Request, Shape
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

MANY = 1_000_000
"""Replicas where nothing bounds them."""


def find_places(state: State, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
    """A place for every replica, best first (R20), or None. Accounts and ceilings are not looked at here, but for what slices count.

    Nodes that the job avoids (R36) or would outlast (R41) are put out of the index meanwhile.
    """
    if job.outlasts and pool.document.name in job.outlasts:
        return None
    places = _find_beside(state, job, pool) if job.avoiding else _find_places(state, job, pool)
    return None if places is None or (job.request.shape.mig and not _sums_hold(pool, places)) else places


def _find_beside(state: State, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
    with Trial(state) as trial:
        for name in job.avoiding:
            if (node := pool.nodes.get(name)) is not None:
                pool.index.remove(node)
                trial.note(partial(pool.index.put, node))
        return _find_places(state, job, pool)


def _sums_hold(pool: PoolState, places: tuple[Place, ...]) -> bool:
    """Whether the pool has what slices in these places count there, which depends on what else lies on the devices (R4, R6)."""
    return all(_sum_holds(pool, places, key) for key in (GPU, *map(key_of_model, pool.models)))


def _sum_holds(pool: PoolState, places: tuple[Place, ...], key: str) -> bool:
    leased = pool.leased.get(key, 0) + change(pool.cut.leased, places, key=key)
    use = pool.use.get(key, 0) + change(pool.cut.use, places, key=key)
    return max(leased, use) <= pool.usable.get(key, 0) or key not in places[0].amounts


def _find_places(state: State, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
    request, owners = job.request, reach_in(pool.document, job.policy.key)
    if request.replicas == 1:
        place = _find_place(state, pool, request, 0, owners)
        return None if place is None else (place,)
    if request.topology is not None:
        places = _find_together(state, job, pool, owners)
        if places is not None or request.required:
            return places
    return _find_all(state, job, pool, owners)


def _find_together(state: State, job: JobRecord, pool: PoolState, owners: Sequence[str]) -> tuple[Place, ...] | None:
    """Places in one topology domain (R40)."""
    for domain in domains_by_fit(pool, job.request, pool.index.replicas(job.request.shape, owners)):
        places = _find_all(state, job, pool, owners, domain.nodes)
        if places is not None:
            return places
    return None


def _find_all(
    state: State, job: JobRecord, pool: PoolState, owners: Sequence[str], among: Sequence[str] | None = None
) -> tuple[Place, ...] | None:
    """Places for a gang, on any nodes of the pool, or `among` these."""
    request, places = job.request, list[Place]()
    with Trial(state) as trial:
        for rank in range(request.replicas):
            place = _find_place(state, pool, request, rank, owners, among)
            if place is None:
                break
            trial.take(job, pool, place)
            places.append(place)
    return tuple(places) if len(places) == request.replicas else None


def _find_place(
    state: State, pool: PoolState, request: Request, rank: int, owners: Sequence[str], among: Sequence[str] | None = None
) -> Place | None:
    index, shape = pool.index, request.shape
    name = index.find(shape, owners) if among is None else index.find_among(shape, owners, among)
    if name is None:
        return None
    devices = pick_now(pool, state.nodes[name], request, index.device(name, shape) if shape.fraction else 0)
    if devices is None:
        raise AssertionError(f"the index says that {request.shape} fits on {name}, the devices do not")
    return Place(node=name, devices=devices, amounts=request.lease_amounts(rank))


def pick_now(pool: PoolState, node: NodeState, request: Request, least: int = 0) -> tuple[DeviceShare, ...] | None:
    """The devices one replica takes of a node as it is now; None if none are left for it. Host amounts are not checked."""
    if request.shape.mig:
        layouts = [device.layout for device in node.devices]
        return pick_slice(pool.index.slices, node, layouts, request.shape.mig, request.amounts.get(GPU, 0))
    return pick_devices(node, opens_of(node), request.shape, least)


def opens_of(node: NodeState) -> list[int]:
    """Units of each device that any job may be granted now; a device that is cut or unfit gives none."""
    if node.some_deny_units:
        return [device.open for device in node.devices]
    return [device.free - device.nominated for device in node.devices]


def pick_devices(node: NodeState, opens: Sequence[int], shape: Shape, least: int = 0) -> tuple[DeviceShare, ...] | None:
    """The devices one replica takes, given the open units of each (R3): free ones for whole GPUs, for a fraction the fullest that fits.

    `least`: what that one has open at least.
    """
    if shape.whole:
        free = [number for number, units in enumerate(opens) if units == GPU_UNITS]
        if len(free) < shape.whole:
            return None
        free = _linked(node, free, shape.whole) if node.has_nvlink else free[: shape.whole]
        return tuple(DeviceShare(device=node.devices[number].name, units=GPU_UNITS) for number in free)
    if shape.fraction:
        least = max(least, shape.fraction)
        fitting = [(units, number) for number, units in enumerate(opens) if units >= least]
        if not fitting:
            return None
        return (DeviceShare(device=node.devices[min(fitting)[1]].name, units=shape.fraction),)
    return ()


def _linked(node: NodeState, free: Sequence[int], count: int) -> list[int]:
    """As many of the free devices, in one group of NVLink if one has enough: of several the one with the fewest; else in the fewest groups.

    A device that is in no group is one by itself (R40).
    """
    groups: dict[str, list[int]] = {}
    for number in free:
        groups.setdefault(node.devices[number].nvlink or f"device {number}", []).append(number)
    fitting = [(len(numbers), numbers) for numbers in groups.values() if len(numbers) >= count]
    if fitting:
        return min(fitting)[1][:count]
    largest_first = sorted(groups.values(), key=lambda numbers: (-len(numbers), numbers))
    return sorted([number for numbers in largest_first for number in numbers][:count])


def pick_slice(
    mix: SliceMix | None, node: NodeState, layouts: Sequence[Layout | None], name: str, units: int
) -> tuple[DeviceShare, ...] | None:
    """The slice one replica takes and its charge, given what lies on each device; None in `layouts`: it takes no slices (R4).

    `mix`: how slices are compared in the pool; None: as before the rules were amended.

    Of the devices on which it fits, the one where it costs the least of what else could be placed, then the fullest, then the first (R20).
    """
    if mix is None:
        return _pick_slice_formerly(node, layouts, name, units)
    best: tuple[tuple[int, int, int], DeviceShare] | None = None
    for number, (device, layout) in enumerate(zip(node.devices, layouts, strict=True)):
        cut = mix.cut(node.model, device.family, layout, name) if layout is not None else None
        if cut is None:
            continue
        merit = (cut.loss, cut.idle, number)
        if best is None or merit < best[0]:
            best = (merit, DeviceShare(device=device.name, units=units, mig=name, start=cut.start))
    return None if best is None else (best[1],)


def _pick_slice_formerly(
    node: NodeState, layouts: Sequence[Layout | None], name: str, units: int
) -> tuple[DeviceShare, ...] | None:
    """The same before the rules were amended: the device that loses the fewest open placements, then the fullest, then the first."""
    best: tuple[tuple[int, int, int], DeviceShare] | None = None
    for number, (device, layout) in enumerate(zip(node.devices, layouts, strict=True)):
        start = best_start(device.family, layout, name) if layout is not None else None
        cost = placements_lost(device.family, layout, name) if layout is not None else None
        if start is None or cost is None:
            continue
        merit = (*cost, number)
        if best is None or merit < best[0]:
            best = (merit, DeviceShare(device=device.name, units=units, mig=name, start=start))
    return None if best is None else (best[1],)


def may_hold(pool: PoolState, node: NodeState, job: JobRecord) -> bool:
    """Whether a replica of the job may go to the node at all: it is in service, suits the job, and is not avoided (R36, R41)."""
    if node.name in job.avoiding or pool.document.name in job.outlasts:
        return False
    return node.grantable and suits(pool, node, job)


def suits(pool: PoolState, node: NodeState, job: JobRecord) -> bool:
    """Whether the node is one for the job: by its model, by how it isolates, by its owner (R21), and by whether it is taken back (R38)."""
    shape = job.request.shape
    return may_use(pool.document, node, job.policy.key) and model_allowed(node.model, shape) and shape.runs_on(node.levels)


def model_allowed(model: str, shape: Shape) -> bool:
    """Whether a node's GPU model is one that the profile names, if it names any."""
    return not shape.models or model in shape.models or not shape.needs_device


def replicas_if_empty(pool: PoolState, shape: Shape, policy: tuple[str, str]) -> int:
    """How many replicas the known nodes that a policy may use could hold if all of them were empty (R13, R21)."""
    kinds = census_of(pool).of(policy)
    there = sum(count * _replicas_on_empty(kind, shape) for kind, count in kinds)
    return there + _replicas_on_new(pool, shape, policy, new_nodes(pool))


def replicas_if_replaced(pool: PoolState, shape: Shape, policy: tuple[str, str], instances: Container[str]) -> int:
    """The same once the pool's instances have left, and made way for new ones (R38): those that are there may be spot instances."""
    if pool.document.burst is None:
        return 0
    census = census_of(pool)
    kinds = {kind: _replicas_on_empty(kind, shape) for kind, _ in census.of(policy)}
    stay = {name: brought.kind for name, brought in census.nodes.items() if name not in instances}
    there = sum(kinds.get(kind, 0) for kind in stay.values())
    return there + _replicas_on_new(pool, shape, policy, max(0, pool.document.burst.max_nodes - len(stay)))


def replicas_together_if_empty(pool: PoolState, request: Request, policy: tuple[str, str]) -> int:
    """The same of the one topology domain, of the level that the request requires, that could hold most (R40).

    Where a node will stand that the pool may still create is not known.
    """
    census, level = census_of(pool), request.required
    kinds = {kind: _replicas_on_empty(kind, request.shape) for kind, _ in census.of(policy)}
    counts = {name: kinds[brought.kind] for name, brought in census.nodes.items() if brought.kind in kinds}
    return fullest(topology_of(pool).counted(level, counts))[0]


def _replicas_on_empty(kind: NodeKind, shape: Shape) -> int:
    if not model_allowed(kind.model, shape) or not shape.runs_on(kind.levels):
        return 0
    devices = sum(most_of(one, shape.mig) for one in kind.families) if shape.mig else _by_devices(kind.whole, shape)
    return min(devices, *_by_host(kind.cpu, kind.memory, shape))


def _replicas_on_new(pool: PoolState, shape: Shape, policy: tuple[str, str], count: int) -> int:
    """What nodes could hold that the pool creates (R6): amounts that their description leaves out count as sufficient."""
    burst = pool.document.burst
    if burst is None or not count or owner_of_new(pool.document) not in reach_in(pool.document, policy):
        return 0
    if shape.steady and all(offer.market == SPOT for offer in offers_of(burst)):
        return 0
    node = burst.node
    if not model_allowed(node.gpu_model, shape) or (shape.needs_device and node.mig != bool(shape.mig)):
        return 0
    host = _by_host(node.cpus * CPU_UNITS or shape.cpu * MANY, node.memory or shape.memory * MANY, shape)
    devices = node.gpus * most_of(family_of(node.gpu_model), shape.mig) if shape.mig else _by_devices(node.gpus, shape)
    return count * min(devices, *host)


def _by_devices(devices: int, shape: Shape) -> int:
    if shape.whole:
        return devices // shape.whole
    return devices * (GPU_UNITS // shape.fraction) if shape.fraction else MANY


def _by_host(cpu: int, memory: int, shape: Shape) -> tuple[int, int]:
    return cpu // shape.cpu if shape.cpu else MANY, memory // shape.memory if shape.memory else MANY
