"""Where a job would go if everything that may end there had ended (R16), so that units can be kept for it until it fits.

What may end is a lease of a job that is preemptible, has a time limit or is on its way out already; whatever else runs stays. Of several
choices the one is taken for which the least remains to be waited for: first by units that are not free yet, then by when the last of
them is known to be, then by node. Slices are waited for by geometry: a slice of a device is free when nothing lies in its run (R4).
Nothing in the state is changed.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, MEMORY, add_to, is_gpu, key_of_model
from headrace.contracts.values.mig import EMPTY, FAMILIES, open_placements, open_starts, put, run
from headrace.domain.backfill.candidate_nodes import UNKNOWN, Wait, offers, offers_among
from headrace.domain.model.devices import HeldDevices, change, counted
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord
from headrace.domain.placement.placement import may_hold
from headrace.domain.state.capacity import held_by
from headrace.domain.state.job_deadlines import limit_of, walking
from headrace.domain.state.topology import required_domains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.devices import Charges, DeviceState
    from headrace.domain.model.jobs import LeaseState
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.requests import Shape
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

    Occupancy = Callable[[NodeState], Iterable["Occupant"]]
    """Who holds what on a node."""

EVERYWHERE = -1
"""The run for requests without slices."""

_Merit = tuple[Wait, int, int, int]
"""What a slice waits for, less the placements it leaves open, the number of the device, less its start."""


class Occupant(NamedTuple):
    """What holds a place on a node, and when it is known to leave; `UNKNOWN`: some time; None: it is not to be counted on.

    `since`: when it was granted to `job`, later by as long as that was suspended.
    """

    place: HeldDevices
    end: int | None
    job: JobRecord
    since: int


def occupants(node: NodeState) -> Iterator[Occupant]:
    """Those that hold leases on the node now."""
    return map(occupant, node.leases.values())


def occupant(lease: LeaseState) -> Occupant:
    """The occupant that a lease is: its devices, its end if known, and its job."""
    job = lease.job
    return Occupant(held_by(lease), _end_of(lease) if may_end(lease) else None, job, lease.granted_at + job.paused)


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


def awaited_places(state: State, job: JobRecord, pool: PoolState, on: Occupancy = occupants) -> tuple[Place, ...] | None:
    """The places to keep for all replicas of `job`; None if it would not fit even then. `on`: jobs on a node."""
    request, is_now = job.request, on is occupants
    stays = None if is_now and _surely_fits_ceilings(pool, job) else Stays(pool, on)
    if stays is not None and not stays.allows(request.total, sliced=bool(request.shape.mig)):
        return None
    places = soonest_places(state if is_now else None, job, pool, on)
    if places is None or stays is None or not request.shape.mig:
        return places
    return places if stays.allows_slices(places) else None


def soonest_places(state: State | None, job: JobRecord, pool: PoolState, on: Occupancy) -> tuple[Place, ...] | None:
    """The places on nodes; the pool's ceilings are not looked at. `state`: None if others are on the nodes than its leases say.

    Of a gang that requires it all are in one topology domain: the one with the fewest units to wait for, then the earliest end, then by
    path (R40).
    """
    domains = required_domains(pool, job.request)
    if domains is None:
        found = _soonest(state, job, pool, on)
        return None if found is None else found[1]
    best: tuple[Wait, tuple[Place, ...]] | None = None
    for domain in domains:
        found = _soonest(state, job, pool, on, domain.nodes)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return None if best is None else best[1]


def _soonest(
    state: State | None, job: JobRecord, pool: PoolState, on: Occupancy, among: Sequence[str] | None = None
) -> tuple[Wait, tuple[Place, ...]] | None:
    """The places, on any nodes or `among` these, and what they wait for together; None if there are not enough."""
    request, nodes = job.request, _Best(state, job, pool, on, among)
    places: list[Place] = []
    units, last = 0, 0
    while len(places) < request.replicas:
        best = nodes.take()
        if best is None:
            return None
        name, prospect = best
        wait = prospect.wait or (0, 0)
        units, last = units + wait[0], max(last, wait[1])
        amounts = request.lease_amounts(len(places))
        places.append(Place(node=name, devices=prospect.take(amounts.get(GPU, 0)), amounts=amounts))
        nodes.add(name, prospect)
    return (units, last), tuple(places)


def _surely_fits_ceilings(pool: PoolState, job: JobRecord) -> bool:
    """Whether the job fits under the pool's ceilings even beside the most that could stay; if so it does not matter which jobs stay."""
    if job.request.shape.mig or pool.families:
        return False
    asked = ((key, amount) for key, amount in job.request.total.items() if amount and key in pool.governed)
    return all(
        pool.lasting.get(key, 0) + pool.nominated.get(key, 0) + amount <= pool.usable.get(key, 0) for key, amount in asked
    )


class _Best:
    """The nodes that make the job wait least; only nodes that might are examined."""

    def __init__(
        self, state: State | None, job: JobRecord, pool: PoolState, on: Occupancy, among: Sequence[str] | None
    ) -> None:
        self._job = job
        self._pool = pool
        self._on = on
        self._seen: list[tuple[Wait, str, Prospect]] = []
        shape = job.request.shape
        self._others = offers(state, pool, shape) if among is None else offers_among(pool, shape, among)
        self._next = next(self._others, None)

    def take(self) -> tuple[str, Prospect] | None:
        """The best node, which is removed; None: one more fits on no node, even if all jobs leave."""
        while self._next is not None and (not self._seen or self._next < self._seen[0][:2]):
            self._examine(self._next[1])
            self._next = next(self._others, None)
        return heapq.heappop(self._seen)[1:] if self._seen else None

    def _examine(self, name: str) -> None:
        node, shape = self._pool.nodes[name], self._job.request.shape
        if may_hold(self._pool, node, self._job):
            self.add(name, (_Sliced if shape.mig else Prospect)(node, shape, tuple(self._on(node))))

    def add(self, name: str, prospect: Prospect) -> None:
        """One more, or one that is another now."""
        if prospect.wait is not None:
            heapq.heappush(self._seen, (prospect.wait, name, prospect))


def still_awaited(pool: PoolState, places: Iterable[Place], on: Occupancy = occupants) -> bool:
    """Whether the kept places are still there, and nothing that stays has been put into them."""
    by_node: dict[str, list[Place]] = {}
    for place in places:
        by_node.setdefault(place.node, []).append(place)
    return all(name in pool.nodes and _would_be_free(pool.nodes[name], those, on) for name, those in by_node.items())


def _would_be_free(node: NodeState, places: list[Place], on: Occupancy) -> bool:
    if not node.grantable:
        return False
    leaving = _leaving(node, on)
    cpu, memory, units = _when_all_have_left(node, leaving)
    cut = _cut_when_all_have_left(node, leaving)
    for place in places:
        for share in place.devices:
            if not share.mig:
                units[share.device] = units.get(share.device, 0) - share.units
            elif share.device not in cut or not cut[share.device].could_give(share):
                return False
            else:
                cut[share.device].take(share, 1)
    return (
        sum(place.amounts.get(CPU, 0) for place in places) <= cpu
        and sum(place.amounts.get(MEMORY, 0) for place in places) <= memory
        and all(units[share.device] >= 0 for place in places for share in place.devices if not share.mig)
    )


def _leaving(node: NodeState, on: Occupancy) -> list[HeldDevices]:
    """What is to come free on the node. Of leases as they are, when does not have to be worked out."""
    if on is occupants:
        return [held_by(lease) for lease in node.leases.values() if may_end(lease)]
    return [one.place for one in on(node) if one.end is not None]


def _when_all_have_left(node: NodeState, leaving: Iterable[HeldDevices]) -> tuple[int, int, dict[str, int]]:
    """The cpu, memory and units of each device that would be open on the node; on one that has shrunk, more may be held than there is."""
    cpu, memory = node.cpu_free - node.cpu_nominated, node.memory_free - node.memory_nominated
    units = {device.name: 0 if device.mig or device.unfit else device.free - device.nominated for device in node.devices}
    for place in leaving:
        cpu += place.amounts.get(CPU, 0)
        memory += place.amounts.get(MEMORY, 0)
        for share in place.devices:
            if not share.mig:
                units[share.device] = units.get(share.device, 0) + share.units
    return max(0, cpu), max(0, memory), units


def _cut_when_all_have_left(node: NodeState, leaving: Iterable[HeldDevices]) -> dict[str, DeviceState]:
    """The devices in MIG mode, by name, as they would be."""
    there = {device.name: device.twin() for device in node.devices if device.mig}
    for place in leaving if there else ():
        for share in place.devices:
            if share.device in there:
                there[share.device].take(share, -1)
    return there


class Stays:
    """What is to stay in a pool, and what is nominated there, as the pool counts it (R4)."""

    def __init__(self, pool: PoolState, on: Occupancy) -> None:
        self._pool = pool
        self._amounts: Amounts = dict(pool.nominated)
        self._cut: Charges = dict(pool.cut.nominated)
        for node in pool.nodes.values():
            for one in on(node):
                if one.end is None:
                    add_to(self._amounts, counted(self._cut, one.place, 1))

    def allows(self, total: Amounts, *, sliced: bool) -> bool:
        """Whether so much more fits under the pool's ceilings; how slices count there depends on where they go."""
        asked = {
            key: amount
            for key, amount in total.items()
            if amount and key in self._pool.governed and not (sliced and is_gpu(key))
        }
        return all(self._fits(key, amount) for key, amount in asked.items())

    def allows_slices(self, places: Iterable[Place]) -> bool:
        """The same of GPUs, for slices in these places."""
        taken = tuple(places)
        return all(
            self._fits(key, change(self._cut, taken, key=key))
            for key in (GPU, *map(key_of_model, self._pool.models))
            if any(key in place.amounts for place in taken)
        )

    def _fits(self, key: str, amount: int) -> bool:
        return self._amounts.get(key, 0) + amount <= self._pool.usable.get(key, 0)


class Prospect:
    """One node, as it is and as it would be. `wait`: what one more replica would have to wait for; None: it would not fit."""

    __slots__ = ("_cpu", "_ends", "_last", "_memory", "_names", "_now", "_picked", "_shape", "_then", "wait")

    def __init__(self, node: NodeState, shape: Shape, on: tuple[Occupant, ...]) -> None:
        self._shape = shape
        cpu, memory, units = _when_all_have_left(node, [one.place for one in on if one.end is not None])
        self._cpu = [node.cpu_open, cpu]
        self._memory = [node.memory_open, memory]
        self._last = max((one.end for one in on if one.end is not None), default=0)
        self.wait: Wait | None = None
        self._see(node, units, on)
        self._compute_wait()

    def _see(self, node: NodeState, units: dict[str, int], on: tuple[Occupant, ...]) -> None:
        """Note the devices as they are, as they would be, and when the last on each ends."""
        ends: dict[str, int] = {}
        for place, end, *_ in on:
            for share in place.devices if end is not None else ():
                ends[share.device] = max(end or 0, ends.get(share.device, 0))
        self._names = [device.name for device in node.devices]
        self._now = [device.open for device in node.devices]
        self._then = [units[name] for name in self._names]
        self._ends = [ends.get(name, 0) for name in self._names]
        self._picked: list[int] = []

    def _compute_wait(self) -> None:
        """What one more replica would wait for on the devices that it would take, and for cpu and memory."""
        shape, self.wait = self._shape, None
        if self._cpu[1] < shape.cpu or self._memory[1] < shape.memory:
            return
        wait = self._choose()
        if wait is not None:
            short = self._cpu[0] < shape.cpu or self._memory[0] < shape.memory
            self.wait = wait[0], max(wait[1], self._last) if short else wait[1]

    def _choose(self) -> Wait | None:
        """Which devices: what is free first, then what is free soonest."""
        shape = self._shape
        each = GPU_UNITS if shape.whole else shape.fraction
        count = shape.whole or (1 if shape.fraction else 0)
        fitting = sorted(
            (max(0, each - self._now[number]), self._until(number, each), self._then[number], number)
            for number in range(len(self._names))
            if self._then[number] >= each
        )
        if len(fitting) < count:
            return None
        chosen = fitting[:count]
        self._picked = sorted(number for *_, number in chosen)
        return sum(missing for missing, *_ in chosen), max((end for _, end, _, _ in chosen), default=0)

    def _until(self, number: int, each: int) -> int:
        return 0 if self._now[number] >= each else self._ends[number]

    def take(self, units: int) -> tuple[DeviceShare, ...]:
        """Put one replica here; `units` are what it is charged."""
        taken = self._take(units)
        for host, need in ((self._cpu, self._shape.cpu), (self._memory, self._shape.memory)):
            host[0], host[1] = max(0, host[0] - need), host[1] - need
        self._compute_wait()
        return taken

    def _take(self, _units: int) -> tuple[DeviceShare, ...]:
        each = GPU_UNITS if self._shape.whole else self._shape.fraction
        for number in self._picked:
            self._now[number] = max(0, self._now[number] - each)
            self._then[number] -= each
        return tuple(DeviceShare(device=self._names[number], units=each) for number in self._picked)


class _Sliced(Prospect):
    """The same for a slice (R4)."""

    __slots__ = ("_best", "_layouts", "_lying", "_there")

    def _see(self, node: NodeState, _units: dict[str, int], on: tuple[Occupant, ...]) -> None:
        """Note the devices as they would be, the layouts as they are, and what will leave each: (the run it lies in, when)."""
        there = _cut_when_all_have_left(node, [one.place for one in on if one.end is not None])
        self._there = [device for device in there.values() if device.layout is not None]
        self._layouts = {device.name: device.layout for device in node.devices}
        self._lying: dict[str, list[tuple[int, int]]] = {}
        for place, end, *_ in on:
            for share in place.devices if end is not None else ():
                device = there.get(share.device)
                if device is not None and end is not None:
                    lies = run(device.family, share.start, share.mig) if share.mig else EVERYWHERE
                    self._lying.setdefault(share.device, []).append((lies, end))
        self._best: _Merit | None = None

    def _choose(self) -> Wait | None:
        """Which device and start: where the least has to leave, and soonest; of equal ones what leaves the most open (R20)."""
        self._best = min((merit for number in range(len(self._there)) for merit in self._merits(number)), default=None)
        return None if self._best is None else self._best[0]

    def _merits(self, number: int) -> Iterator[_Merit]:
        device, name = self._there[number], self._shape.mig
        layout, now = device.layout, self._layouts[device.name]
        for start in open_starts(device.family, layout, name) if layout is not None else ():
            wait = 0, 0
            if now is None or start not in open_starts(device.family, now, name):
                wait = self._wait_at(device, run(device.family, start, name))
            yield wait, -open_placements(device.family, put(layout or EMPTY, start, name)), number, -start

    def _wait_at(self, device: DeviceState, wanted: int) -> Wait:
        """Jobs that a slice in this run waits for: those in it, or, if it is empty, all of the device."""
        lying = self._lying.get(device.name, [])
        blocking = [one for one in lying if one[0] & wanted] or lying
        taken = 0
        for lies, _ in blocking:
            taken |= lies & wanted
        units = GPU_UNITS * (taken or wanted).bit_count() // FAMILIES[device.family].memory
        return units, max((end for _, end in blocking), default=0)

    def _take(self, units: int) -> tuple[DeviceShare, ...]:
        if self._best is None:
            return ()
        _, _, number, start = self._best
        device = self._there[number]
        share = DeviceShare(device=device.name, units=units, mig=self._shape.mig, start=-start)
        device.take(share, 1)
        now = self._layouts[device.name]
        self._layouts[device.name] = None if now is None else put(now, share.start, share.mig)
        return (share,)
