"""Where a job goes (R3, R18, R20): one place for each replica, all on nodes that can hold them now, or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.amounts import GPU_UNITS
from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.domain import capacity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.domain.requests import Request, Shape
    from headrace.domain.state import JobRecord, NodeState, PoolState, State


def find_places(state: State, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
    """A place for every replica, best first (R20), or None. Accounts and ceilings are not looked at here.

    Nodes that the job avoids (R36) are put out of the index meanwhile.
    """
    avoided = [node for name in job.avoiding if (node := pool.nodes.get(name)) is not None]
    for node in avoided:
        pool.index.remove(node)
    places = _find_places(state, job, pool)
    for node in avoided:
        pool.index.put(node)
    return places


def _find_places(state: State, job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
    request = job.request
    if request.replicas == 1:
        place = _find_place(state, pool, request, 0)
        return None if place is None else (place,)
    places: list[Place] = []
    for rank in range(request.replicas):
        place = _find_place(state, pool, request, rank)
        if place is None:
            break
        capacity.take(state, job, pool, place)
        places.append(place)
    for place in reversed(places):
        capacity.give_back(state, job, pool, place)
    return tuple(places) if len(places) == request.replicas else None


def _find_place(state: State, pool: PoolState, request: Request, rank: int) -> Place | None:
    name = pool.index.find(request.shape)
    if name is None:
        return None
    node = state.nodes[name]
    opens = [device.open for device in node.devices]
    shape = request.shape
    devices = pick_devices(node, opens, shape, pool.index.device(name, shape) if shape.fraction else 0)
    if devices is None:
        raise AssertionError(f"the index says that {request.shape} fits on {name}, the devices do not")
    return Place(node=name, devices=devices, amounts=request.lease_amounts(rank))


def pick_devices(node: NodeState, opens: Sequence[int], shape: Shape, least: int = 0) -> tuple[DeviceShare, ...] | None:
    """The devices one replica takes, given the open units of each (R3): free ones for whole GPUs, for a fraction the fullest that fits.

    `least`: what that one has open at least.
    """
    if shape.whole:
        free = [number for number, units in enumerate(opens) if units == GPU_UNITS][: shape.whole]
        if len(free) < shape.whole:
            return None
        return tuple(DeviceShare(device=node.devices[number].name, units=GPU_UNITS) for number in free)
    if shape.fraction:
        fitting = [(units, number) for number, units in enumerate(opens) if units >= max(least, shape.fraction)]
        if not fitting:
            return None
        return (DeviceShare(device=node.devices[min(fitting)[1]].name, units=shape.fraction),)
    return ()


def model_allowed(node: NodeState, shape: Shape) -> bool:
    """Whether the node's GPU model is one that the profile names, if it names any."""
    return not shape.models or node.model in shape.models or not (shape.whole or shape.fraction)


def may_hold(node: NodeState, job: JobRecord) -> bool:
    """Whether a replica of the job may go to the node at all: it is in service, of a model that will do, and not avoided (R36)."""
    return node.grantable and model_allowed(node, job.request.shape) and node.name not in job.avoiding


def replicas_if_empty(pool: PoolState, shape: Shape) -> int:
    """How many replicas the pool's known nodes could hold if all of them were empty (R13)."""
    return sum(_replicas_on_empty(node, shape) for node in pool.nodes.values())


def _replicas_on_empty(node: NodeState, shape: Shape) -> int:
    if not model_allowed(node, shape):
        return 0
    bounds = []
    if shape.whole:
        bounds.append(len(node.devices) // shape.whole)
    if shape.fraction:
        bounds.append(len(node.devices) * (GPU_UNITS // shape.fraction))
    if shape.cpu:
        bounds.append(node.cpu // shape.cpu)
    if shape.memory:
        bounds.append(node.memory // shape.memory)
    return min(bounds) if bounds else 1_000_000
