"""Units kept for a job that has waited too long for room (R16): what is kept counts only for jobs ranked below it.

The fold knows who keeps which places, and takes nothing out of any account for it (R37). A question about what is free for a job puts the
units that are kept from it out of reach meanwhile, and back again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import CPU, GPU, MEMORY
from headrace.domain.backfill.hold_policy import is_lent_to
from headrace.domain.placement.placement import find_places
from headrace.domain.queueing.queue_position import GroupRanks
from headrace.domain.queueing.ranking import is_fair, is_inside, rank
from headrace.domain.state.quota import over_capacity
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts.fact import DeviceShare
    from headrace.domain.model.devices import DeviceState
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


HOLDS_MAX = 8
"""Jobs for which units are kept in one pool at a time: it bounds what a look costs, and how much may lie idle (R16)."""


def withhold(trial: Trial, pool: PoolState, hold: Hold) -> Trial:
    """Put what a hold keeps out of reach on trial, and return the trial: its places, and as much of the pool's sums as is free of them now.

    What leases still hold of the places comes free there and then; in the sums it is not kept before that. It counts as if it were
    leased, so that a grant that is made meanwhile, on the same device even, may stay when this ends.
    """
    free = _free_of(trial.state, hold)
    trial.keep(hold.places)
    for place in free:
        trial.count(pool, place)
    return trial


def _free_of(state: State, hold: Hold) -> list[Place]:
    """What of the kept places is free now: of what belongs to nodes that which is open there, all of the rest."""
    free: list[Place] = []
    there: dict[str, _Open] = {}
    for place in hold.places:
        node = state.nodes.get(place.node)
        opens = there.get(place.node)
        if opens is None:
            opens = there[place.node] = _Open(node)
        free.append(opens.take(place))
    return free


class _Open:
    """What is open on a node, less what was taken of it; of one that is gone nothing is."""

    def __init__(self, node: NodeState | None) -> None:
        self._there = {device.name: device for device in node.devices} if node is not None else {}
        self._touched: dict[str, DeviceState] = {}
        self._host = {CPU: 0, MEMORY: 0}
        if node is not None:
            self._host = {CPU: node.cpu_open, MEMORY: node.memory_open}

    def take(self, place: Place) -> Place:
        """As much of the place as is open."""
        amounts = dict(place.amounts)
        for key, left in self._host.items():
            if key in amounts:
                amounts[key] = min(amounts[key], max(0, left))
                self._host[key] = left - amounts[key]
        shares = tuple(share for share in map(self._take, place.devices) if share.units)
        if GPU in amounts:
            amounts[GPU] = sum(share.units for share in shares)
        return Place(node=place.node, devices=shares, amounts=amounts)

    def _take(self, share: DeviceShare) -> DeviceShare:
        """Of a slice all of it or nothing."""
        if share.device not in self._there:
            return msgspec.structs.replace(share, units=0)
        device = self._touched.get(share.device)
        if device is None:
            device = self._touched[share.device] = self._there[share.device].twin()
        units = (share.units if device.could_give(share) else 0) if share.mig else min(share.units, device.open)
        part = share if units == share.units else msgspec.structs.replace(share, units=units)
        if units:
            device.take(part, 1)
        return part


def rank_in_line(state: State, job: JobRecord, pool: PoolState) -> Rank | None:
    """What a job that stands in line is ordered by in a pool (R15), be it the head of its group or not; None: it does not.

    One that is not there, and only asked about, stands where it would.
    """
    is_there = state.jobs.get(job.key) is job
    group = state.pending.group_of(job) if is_there else state.pending.group_for(job)
    if group is None:
        return None
    place = GroupRanks(state, pool).place(group, job) if is_fair(job.policy) else None
    return rank(state, group, job, pool, inside=is_inside(state, group, pool), place=place)


def holds_before(state: State, job: JobRecord, pool: PoolState, now: int) -> list[Hold]:
    """The holds in the pool of jobs that rank before `job` there, and that are not lent to it: what they keep is kept from it. Best first.

    From one that stands in no line nothing is kept: it has its own places (R27), or cannot start anyway.
    """
    name = pool.document.name
    here = [hold for hold in state.holds.values() if hold.pool == name and hold.job is not job]
    mine = rank_in_line(state, job, pool) if here else None
    ranked = [(theirs, hold) for hold in here if (theirs := rank_in_line(state, hold.job, pool)) is not None]
    before = [hold for theirs, hold in sorted(ranked, key=lambda pair: pair[0]) if mine is not None and theirs < mine]
    return [hold for hold in before if not is_lent_to(state, hold, job, now)]


@contextmanager
def as_seen_by(state: State, job: JobRecord, pool: PoolState, now: int) -> Iterator[None]:
    """Meanwhile what is kept from `job` in the pool is not free (R18)."""
    with Trial(state) as trial:
        for hold in holds_before(state, job, pool, now) if state.holds else ():
            withhold(trial, pool, hold)
        yield


def fits_now(state: State, job: JobRecord, pool: PoolState, now: int) -> bool:
    """Whether all its replicas could be placed in what is free for it now (R3, R6, R16). Limits are not looked at."""
    with as_seen_by(state, job, pool, now):
        return fits_without_holds(state, job, pool)


def fits_without_holds(state: State, job: JobRecord, pool: PoolState) -> bool:
    """The same if nothing were kept for others."""
    return over_capacity(pool, job.request.sums) is None and find_places(state, job, pool) is not None
