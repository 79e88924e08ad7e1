"""Where a preemptor would go once certain jobs have left (R26: sufficient means that its replicas place, not that sums fit).

Whatever is on its way out already counts as gone; what is nominated for others counts as taken. Nothing in the state is changed.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from headrace.contracts.amounts import CPU, GPU, MEMORY, add_to
from headrace.contracts.facts.fact import Place
from headrace.contracts.mig import EMPTY, put
from headrace.domain.devices import change
from headrace.domain.placement import pick_devices, pick_slice
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.contracts.amounts import Amounts
    from headrace.contracts.facts.fact import DeviceShare
    from headrace.contracts.mig import Layout
    from headrace.domain.requests import Request
    from headrace.domain.state import JobRecord, LeaseState, NodeState, PoolState, State


def places_without(
    state: State, job: JobRecord, pool: PoolState, gone: Iterable[JobRecord], nodes: Sequence[NodeState]
) -> tuple[Place, ...] | None:
    """A place on one of `nodes`, tried in their order, for every replica of `job` once the jobs in `gone` have left; None: no."""
    leaving: dict[str, list[LeaseState]] = {node.name: leaving_anyway(node) for node in nodes}
    for victim in gone:
        for lease in victim.leases.values():
            leaving.setdefault(lease.node, []).append(lease)
    going = list(chain.from_iterable(leaving.values()))
    if not _sums_fit(state, job, pool, going):
        return None
    request = job.request
    vacated = [_Vacated(node, leaving[node.name]) for node in nodes]
    places: list[Place] = []
    for rank in range(request.replicas):
        amounts = request.lease_amounts(rank)
        place = next((place for node in vacated if (place := node.hold(request, amounts)) is not None), None)
        if place is None:
            return None
        places.append(place)
    return tuple(places) if not request.shape.mig or _slices_count(pool, places, going) else None


def leaving_anyway(node: NodeState) -> list[LeaseState]:
    """Leases under a ladder, for whatever cause, that will be gone in time: first to be counted on (R25)."""
    return [lease for lease in node.leases.values() if lease.job.state is JobState.STOPPING and not lease.overdue]


def _slices_count(pool: PoolState, places: Sequence[Place], leaving: Iterable[LeaseState]) -> bool:
    """Whether the pool has what slices in these places count there, which depends on what else lies on the devices (R4, R6)."""
    going = [lease for lease in leaving if lease.pool == pool.document.name and not lease.job.yields_to]
    return pool.use.get(GPU, 0) + change(pool.cut.use, places, going) <= pool.usable.get(GPU, 0)


def _sums_fit(state: State, job: JobRecord, pool: PoolState, leaving: Sequence[LeaseState]) -> bool:
    """Ceilings and custom keys of the pool, and the limit of the tenant there, which belong to no node.

    What yields to a nominated preemptor is out of these accounts already (R17), and cannot free anything twice.
    """
    share = state.shares.get((job.tenant, pool.document.name))
    freed: Amounts = {}
    freed_of_tenant: Amounts = {}
    going = [lease for lease in leaving if lease.pool == pool.document.name and not lease.job.yields_to]
    for lease in going:
        add_to(freed, lease.amounts)
        if lease.job.tenant == job.tenant:
            add_to(freed_of_tenant, lease.amounts)
    freed[GPU] = -change(pool.cut.use, (), going)
    for key, asked in job.request.total.items():
        if not asked or key not in pool.governed:
            continue
        left = pool.usable.get(key, 0) - pool.use.get(key, 0) + freed.get(key, 0)
        if job.request.sums.get(key, 0) > left:
            return False
        ceiling = share.limit.get(key) if share is not None else None
        if share is not None and ceiling is not None and share.use.get(key, 0) - freed_of_tenant.get(key, 0) + asked > ceiling:
            return False
    return True


class _Vacated:
    """A copy of what a node could give once some of its leases have gone."""

    __slots__ = ("_cpu", "_layouts", "_memory", "_node", "_opens")

    def __init__(self, node: NodeState, leaving: Iterable[LeaseState]) -> None:
        self._node = node
        self._cpu = node.cpu_free - node.cpu_nominated
        self._memory = node.memory_free - node.memory_nominated
        going = list(leaving)
        for lease in going:
            self._cpu += lease.amounts.get(CPU, 0)
            self._memory += lease.amounts.get(MEMORY, 0)
        shares = [share for lease in going for share in lease.devices]
        if node.has_mig:
            self._vacate_slices(shares)
            return
        free = {device.name: device.free for device in node.devices}
        for share in shares:
            free[share.device] = free.get(share.device, 0) + share.units
        self._opens = [max(0, free[device.name] - device.nominated) for device in node.devices]
        self._layouts: list[Layout | None] = []

    def _vacate_slices(self, shares: Iterable[DeviceShare]) -> None:
        devices = {device.name: replace(device) for device in self._node.devices}
        for share in shares:
            if share.device in devices:
                devices[share.device].take(share, -1)
        self._opens = [device.open for device in devices.values()]
        self._layouts = [device.layout for device in devices.values()]

    def hold(self, request: Request, amounts: Amounts) -> Place | None:
        """Put one replica here; None where it does not fit."""
        shape = request.shape
        if self._cpu < shape.cpu or self._memory < shape.memory:
            return None
        if shape.mig:
            devices = pick_slice(self._node, self._layouts, request) if self._layouts else None
        else:
            devices = pick_devices(self._node, self._opens, shape)
        if devices is None:
            return None
        self._cpu -= shape.cpu
        self._memory -= shape.memory
        self._take(devices)
        return Place(node=self._node.name, devices=devices, amounts=amounts)

    def _take(self, devices: tuple[DeviceShare, ...]) -> None:
        shares = {share.device: share for share in devices}
        for number, device in enumerate(self._node.devices):
            share = shares.get(device.name)
            if share is not None and share.mig:
                self._layouts[number] = put(self._layouts[number] or EMPTY, share.start, share.mig)
            elif share is not None:
                self._opens[number] -= share.units
