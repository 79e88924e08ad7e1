"""Where a preemptor would go once certain jobs have left (R26: sufficient means that its replicas place, not that sums fit).

Whatever is on its way out already counts as gone; what is nominated for others counts as taken. Nothing in the state is changed.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from headrace.contracts.amounts import CPU, MEMORY, add_to
from headrace.contracts.facts.fact import Place
from headrace.domain.placement import pick_devices
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.contracts.amounts import Amounts
    from headrace.contracts.facts.fact import DeviceShare
    from headrace.domain.requests import Shape
    from headrace.domain.state import JobRecord, LeaseState, NodeState, PoolState, State


def places_without(
    state: State, job: JobRecord, pool: PoolState, gone: Iterable[JobRecord], nodes: Sequence[NodeState]
) -> tuple[Place, ...] | None:
    """A place on one of `nodes`, tried in their order, for every replica of `job` once the jobs in `gone` have left; None: no."""
    leaving: dict[str, list[LeaseState]] = {node.name: leaving_anyway(node) for node in nodes}
    for victim in gone:
        for lease in victim.leases.values():
            leaving.setdefault(lease.node, []).append(lease)
    if not _sums_fit(state, job, pool, chain.from_iterable(leaving.values())):
        return None
    request = job.request
    vacated = [_Vacated(node, leaving[node.name]) for node in nodes]
    places: list[Place] = []
    for rank in range(request.replicas):
        amounts = request.lease_amounts(rank)
        place = next((place for node in vacated if (place := node.hold(request.shape, amounts)) is not None), None)
        if place is None:
            return None
        places.append(place)
    return tuple(places)


def leaving_anyway(node: NodeState) -> list[LeaseState]:
    """Leases under a ladder, for whatever cause, that will be gone in time: first to be counted on (R25)."""
    return [lease for lease in node.leases.values() if lease.job.state is JobState.STOPPING and not lease.overdue]


def _sums_fit(state: State, job: JobRecord, pool: PoolState, leaving: Iterable[LeaseState]) -> bool:
    """Ceilings and custom keys of the pool, and the limit of the tenant there, which belong to no node.

    What yields to a nominated preemptor is out of these accounts already (R17), and cannot free anything twice.
    """
    share = state.shares.get((job.tenant, pool.document.name))
    freed: Amounts = {}
    freed_of_tenant: Amounts = {}
    for lease in leaving:
        if lease.pool == pool.document.name and not lease.job.yields_to:
            add_to(freed, lease.amounts)
            if lease.job.tenant == job.tenant:
                add_to(freed_of_tenant, lease.amounts)
    for key, asked in job.request.total.items():
        if not asked or key not in pool.governed:
            continue
        if pool.use.get(key, 0) - freed.get(key, 0) + asked > pool.usable.get(key, 0):
            return False
        ceiling = share.limit.get(key) if share is not None else None
        if share is not None and ceiling is not None and share.use.get(key, 0) - freed_of_tenant.get(key, 0) + asked > ceiling:
            return False
    return True


class _Vacated:
    """A copy of what a node could give once some of its leases have gone."""

    __slots__ = ("_cpu", "_memory", "_node", "_opens")

    def __init__(self, node: NodeState, leaving: Iterable[LeaseState]) -> None:
        self._node = node
        self._cpu = node.cpu_free - node.cpu_nominated
        self._memory = node.memory_free - node.memory_nominated
        free = {device.name: device.free for device in node.devices}
        for lease in leaving:
            self._cpu += lease.amounts.get(CPU, 0)
            self._memory += lease.amounts.get(MEMORY, 0)
            for share in lease.devices:
                free[share.device] = free.get(share.device, 0) + share.units
        self._opens = [max(0, free[device.name] - device.nominated) for device in node.devices]

    def hold(self, shape: Shape, amounts: Amounts) -> Place | None:
        """Put one replica here; None where it does not fit."""
        if self._cpu < shape.cpu or self._memory < shape.memory:
            return None
        devices = pick_devices(self._node, self._opens, shape)
        if devices is None:
            return None
        self._cpu -= shape.cpu
        self._memory -= shape.memory
        self._take(devices)
        return Place(node=self._node.name, devices=devices, amounts=amounts)

    def _take(self, devices: tuple[DeviceShare, ...]) -> None:
        units = {share.device: share.units for share in devices}
        for number, device in enumerate(self._node.devices):
            self._opens[number] -= units.get(device.name, 0)
