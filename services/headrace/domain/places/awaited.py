"""Where a job would go if everything that may end there had ended (R16), so that units can be kept for it until it fits.

What may end is a lease of a job that is preemptible, has a time limit or is on its way out already; whatever else runs stays. Of several
choices the one is taken for which the least remains to be waited for: first by units that are not free yet, then by when the last of
them is known to be, then by node. Nothing in the state is changed.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from headrace.contracts.amounts import CPU, GPU_UNITS, MEMORY, add_to
from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.domain.capacity import held_by
from headrace.domain.phases import limit_of, walking
from headrace.domain.places.placement import may_hold
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.amounts import Amounts
    from headrace.domain.requests import Shape
    from headrace.domain.state import JobRecord, LeaseState, NodeState, PoolState

UNKNOWN = 2**62
"""The end of what may end at any time, or never: after all that are known."""

Wait = tuple[int, int]
"""Units of GPU that are not free yet, and when the last of them is known to be (log time; 0: all are free)."""


def may_end(lease: LeaseState) -> bool:
    """Whether the lease is to be counted on to end some time."""
    job = lease.job
    if job.state is JobState.STOPPING:
        return not lease.overdue
    return job.preemptible or job.time_limit is not None


def _end_of(lease: LeaseState) -> int:
    job = lease.job
    if job.state is JobState.STOPPING and job.stop is not None and lease in walking(job):
        return job.stop_at + job.stop.callback_grace + job.stop.term_grace
    limit = limit_of(job)
    return UNKNOWN if limit is None else limit


def awaited_places(job: JobRecord, pool: PoolState) -> tuple[Place, ...] | None:
    """The places to keep for all replicas of `job`; None where it would not fit even then. Slices of devices are not waited for."""
    request = job.request
    if request.shape.mig or not _sums_would_fit(pool, request.total):
        return None
    offers: list[tuple[Wait, str, _Prospect]] = []
    for node in pool.nodes.values():
        if may_hold(node, job):
            prospect = _Prospect(node, request.shape)
            if prospect.wait is not None:
                offers.append((prospect.wait, node.name, prospect))
    heapq.heapify(offers)
    places: list[Place] = []
    while offers and len(places) < request.replicas:
        _, name, prospect = heapq.heappop(offers)
        places.append(Place(node=name, devices=prospect.take(), amounts=request.lease_amounts(len(places))))
        if prospect.wait is not None:
            heapq.heappush(offers, (prospect.wait, name, prospect))
    return tuple(places) if len(places) == request.replicas else None


def still_awaited(pool: PoolState, places: Iterable[Place]) -> bool:
    """Whether the kept places are still there, and nothing that stays has been put into them."""
    by_node: dict[str, list[Place]] = {}
    for place in places:
        by_node.setdefault(place.node, []).append(place)
    return all(name in pool.nodes and _would_be_free(pool.nodes[name], those) for name, those in by_node.items())


def _would_be_free(node: NodeState, places: list[Place]) -> bool:
    if not node.grantable:
        return False
    cpu, memory, units = _when_all_have_ended(node)
    kept: Amounts = {}
    for place in places:
        cpu -= place.amounts.get(CPU, 0)
        memory -= place.amounts.get(MEMORY, 0)
        add_to(kept, {share.device: share.units for share in place.devices})
    return cpu >= 0 and memory >= 0 and all(units.get(device, 0) >= asked for device, asked in kept.items())


def _when_all_have_ended(node: NodeState) -> tuple[int, int, dict[str, int]]:
    """cpu, memory and units of each device that would be open on the node."""
    cpu, memory = node.cpu_free - node.cpu_nominated, node.memory_free - node.memory_nominated
    units = {device.name: 0 if device.mig or device.unfit else device.free - device.nominated for device in node.devices}
    for lease in node.leases.values():
        if may_end(lease):
            held = held_by(lease)
            cpu += held.amounts.get(CPU, 0)
            memory += held.amounts.get(MEMORY, 0)
            for share in held.devices:
                if not share.mig:
                    units[share.device] = units.get(share.device, 0) + share.units
    return cpu, memory, units


def _sums_would_fit(pool: PoolState, total: Amounts) -> bool:
    """Whether the pool's ceilings leave room beside what stays, and beside what is nominated."""
    stays: Amounts = dict(pool.nominated)
    for node in pool.nodes.values():
        for lease in node.leases.values():
            if not may_end(lease):
                add_to(stays, held_by(lease).amounts)
    return all(
        stays.get(key, 0) + amount <= pool.usable.get(key, 0)
        for key, amount in total.items()
        if amount and key in pool.governed
    )


class _Prospect:
    """One node, as it is and as it would be. `wait`: what one more replica would have to wait for; None: it would not fit."""

    __slots__ = ("_cpu", "_ends", "_last", "_memory", "_names", "_now", "_picked", "_shape", "_then", "wait")

    def __init__(self, node: NodeState, shape: Shape) -> None:
        self._shape = shape
        self._names = [device.name for device in node.devices]
        self._now = [device.open for device in node.devices]
        cpu, memory, units = _when_all_have_ended(node)
        self._then = [units[name] for name in self._names]
        self._cpu = [node.cpu_free - node.cpu_nominated, cpu]
        self._memory = [node.memory_free - node.memory_nominated, memory]
        ends: dict[str, int] = {}
        self._last = 0
        for lease in node.leases.values():
            if may_end(lease):
                end = _end_of(lease)
                self._last = max(self._last, end)
                for share in held_by(lease).devices:
                    ends[share.device] = max(end, ends.get(share.device, 0))
        self._ends = [ends.get(name, 0) for name in self._names]
        self._picked: list[int] = []
        self.wait: Wait | None = None
        self._look()

    def _look(self) -> None:
        """Which devices one more replica would take: what is free first, then what is free soonest."""
        shape, self.wait = self._shape, None
        if self._cpu[1] < shape.cpu or self._memory[1] < shape.memory:
            return
        each = GPU_UNITS if shape.whole else shape.fraction
        count = shape.whole or (1 if shape.fraction else 0)
        fitting = sorted(
            (max(0, each - self._now[number]), self._until(number, each), self._then[number], number)
            for number in range(len(self._names))
            if self._then[number] >= each
        )
        if len(fitting) < count:
            return
        chosen = fitting[:count]
        self._picked = sorted(number for *_, number in chosen)
        until = max((end for _, end, _, _ in chosen), default=0)
        if self._cpu[0] < shape.cpu or self._memory[0] < shape.memory:
            until = max(until, self._last)
        self.wait = sum(missing for missing, *_ in chosen), until

    def _until(self, number: int, each: int) -> int:
        return 0 if self._now[number] >= each else self._ends[number]

    def take(self) -> tuple[DeviceShare, ...]:
        """Put one replica here."""
        shape = self._shape
        each = GPU_UNITS if shape.whole else shape.fraction
        taken = tuple(DeviceShare(device=self._names[number], units=each) for number in self._picked)
        for number in self._picked:
            self._now[number] = max(0, self._now[number] - each)
            self._then[number] -= each
        for host, need in ((self._cpu, shape.cpu), (self._memory, shape.memory)):
            host[0], host[1] = max(0, host[0] - need), host[1] - need
        self._look()
        return taken
