"""Places that surely come free for a job that waits (R16): what lies on them ends by a known time, or the job may take it.

What surely ends is a lease with a time limit, one whose ladder has been ordered, and one that the waiting job may preempt (R23, R24).
Nothing says when any other lease ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import CPU, GPU_UNITS, MEMORY, add_to
from headrace.contracts.values.mig import run
from headrace.domain.backfill.backfill_placement import EVERYWHERE, Stays, occupants, soonest_places, still_awaited
from headrace.domain.backfill.candidate_nodes import UNKNOWN
from headrace.domain.model.job_states import JobState
from headrace.domain.model.maintenance import run_and_grace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.contracts.facts.fact import DeviceShare, Place
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.backfill.backfill_placement import Occupancy, Occupant
    from headrace.domain.model.devices import HeldDevices
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

    Takes = Mapping[PolicyState, tuple[str, ...]]
    """Policies from which a job may take, and the keys on which they are above their reservation."""


class Surely:
    """The occupants of nodes, of whom only such are counted on to end as surely do."""

    __slots__ = ("_on", "_takes")

    def __init__(self, on: Occupancy, takes: Takes) -> None:
        self._on = on
        self._takes = takes

    def __call__(self, node: NodeState) -> Iterable[Occupant]:
        """Those on a node."""
        takes = self._takes
        return [
            one if one.end is None or surely_ends(one.job, one.place, takes) else one._replace(end=None)
            for one in self._on(node)
        ]


def surely_ends(job: JobRecord, place: HeldDevices, takes: Takes) -> bool:
    """Whether what a job holds ends by its time limit or ladder, or may be taken by the job that waits."""
    if job.time_limit is not None or job.state is JobState.STOPPING:
        return True
    if not takes or not job.preemptible or job.state is JobState.SUSPENDED:
        return False
    return any(place.amounts.get(key) for key in takes.get(job.policy, ()))


def surely_awaited_places(
    state: State, job: JobRecord, pool: PoolState, takes: Takes, on: Occupancy = occupants
) -> tuple[Place, ...] | None:
    """Where all replicas of `job` could start when all that surely ends has ended; None: nowhere. `on`: who is on a node."""
    is_now = on is occupants
    if is_now and not state.ends.moments and not takes:
        return None  # for a job that has no room now
    places = soonest_places(state if is_now else None, job, pool, Surely(on, takes))
    return places if places is not None and sums_suffice(job, pool, places, takes, on) else None


def surely_awaited(job: JobRecord, pool: PoolState, places: tuple[Place, ...], takes: Takes, on: Occupancy = occupants) -> bool:
    """Whether the job could start at these places when all that surely ends has ended."""
    return still_awaited(pool, places, Surely(on, takes)) and sums_suffice(job, pool, places, takes, on)


def sums_suffice(job: JobRecord, pool: PoolState, places: tuple[Place, ...], takes: Takes, on: Occupancy = occupants) -> bool:
    """Whether the pool's ceilings leave room for the job at these places when all that surely ends has ended.

    Mostly what ends on the nodes of the places is enough; else every node is looked at.
    """
    request, sliced, surely = job.request, bool(job.request.shape.mig), Surely(on, takes)
    if not sliced:
        ending: Amounts = {}
        for name in {place.node for place in places}:
            for one in surely(pool.nodes[name]) if name in pool.nodes else ():
                if one.end is not None:
                    add_to(ending, one.place.amounts)
        if all(
            amount + _held(pool, key) <= pool.usable.get(key, 0) + ending.get(key, 0)
            for key, amount in request.total.items()
            if key in pool.governed
        ):
            return True
    stays = Stays(pool, surely)
    return stays.allows(request.total, sliced=sliced) and (not sliced or stays.allows_slices(places))


def _held(pool: PoolState, key: str) -> int:
    """What leases and nominations take of a key; a lease that makes room for a nomination counts as well, because both are there."""
    return pool.use.get(key, 0) + pool.leased_minus_use.get(key, 0) + pool.nominated.get(key, 0)


def free_at(state: State, places: Iterable[Place], takes: Takes, on: Occupancy = occupants) -> int | None:
    """When places on nodes are free if every lease lasts for its time limit and grace; None: nothing says so, 0: they are free.

    What the job may take is free. Only leases are looked at, not what is nominated or kept. Counted from the grant and not from the real
    start, so that no lease granted before then, whose limit and grace end by then, makes it later.
    """
    by_node: dict[str, list[Place]] = {}
    for place in places:
        by_node.setdefault(place.node, []).append(place)
    last = 0
    for name, those in by_node.items():
        node = state.nodes.get(name)
        end = None if node is None else _free_on(node, those, takes, on)
        if end is None:
            return None
        last = max(last, end)
    return last


def _free_on(node: NodeState, places: list[Place], takes: Takes, on: Occupancy) -> int | None:
    held = [(one.place, _ended_by(one, takes)) for one in on(node)]
    moments = [
        _enough(
            ((place.amounts.get(key, 0), end) for place, end in held),
            capacity - sum(place.amounts.get(key, 0) for place in places),
        )
        for key, capacity in ((CPU, node.cpu), (MEMORY, node.memory))
    ]
    wanted: dict[str, list[DeviceShare]] = {}
    for place in places:
        for share in place.devices:
            wanted.setdefault(share.device, []).append(share)
    for name, shares in wanted.items():
        lying = [(share, end) for place, end in held for share in place.devices if share.device == name]
        moments.append(_device_free(node, name, shares, lying))
    return None if None in moments else max(moment for moment in moments if moment is not None)


def _device_free(
    node: NodeState, name: str, wanted: list[DeviceShare], lying: list[tuple[DeviceShare, int | None]]
) -> int | None:
    """When these shares of a device are free: units when enough have ended, a slice when nothing lies in its run (R4)."""
    if not wanted[0].mig:
        return _enough(((share.units, end) for share, end in lying), GPU_UNITS - sum(share.units for share in wanted))
    family = next((device.family for device in node.devices if device.name == name), "")
    runs = 0
    for share in wanted:
        runs |= run(family, share.start, share.mig)
    ends = [end for share, end in lying if (run(family, share.start, share.mig) if share.mig else EVERYWHERE) & runs]
    return None if None in ends else max((end for end in ends if end is not None), default=0)


def _enough(held: Iterable[tuple[int, int | None]], leaves: int) -> int | None:
    """When no more than `leaves` is held, the first to end first; None: nothing says when."""
    amounts = [(units, end) for units, end in held if units]
    beyond = sum(units for units, _ in amounts) - leaves
    if beyond <= 0:
        return 0
    for end, units in sorted((end, units) for units, end in amounts if end is not None):
        beyond -= units
        if beyond <= 0:
            return end
    return None


def _ended_by(one: Occupant, takes: Takes) -> int | None:
    """When a lease has ended by its ladder, or by its time limit and the grace after it; None: nothing says when."""
    job = one.job
    if one.end is None or job.state is JobState.SUSPENDED:
        return None
    if job.state is JobState.STOPPING:
        return None if one.end == UNKNOWN else one.end
    if job.time_limit is not None:
        return one.since + run_and_grace(job, job.time_limit)
    return 0 if surely_ends(job, one.place, takes) else None
