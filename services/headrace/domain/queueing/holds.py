"""Units kept for a job that has waited too long for room (R16): what is kept counts for those ranked below it, and for nobody else.

The fold knows who keeps which places, and takes nothing out of any account for it (R37). Whoever asks what is free for a job puts what is
kept from it out of reach meanwhile, and back again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.contracts.amounts import CPU, GPU, MEMORY
from headrace.domain import capacity
from headrace.domain.places.placement import find_places
from headrace.domain.queueing.ranking import is_inside, rank
from headrace.domain.scopes import over_capacity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.amounts import Amounts
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state import JobRecord, PoolState, State
    from headrace.domain.takings import Hold


class OutOfReach:
    """What a hold keeps, put out of reach until `end`: its places, and as much of the pool's sums as is free of them now.

    What leases still hold of the places comes free there and then; of the sums it is nobody's to keep before that.
    """

    __slots__ = ("_hold", "_pool", "_state", "_sums")

    def __init__(self, state: State, pool: PoolState, hold: Hold) -> None:
        self._state = state
        self._pool = pool
        self._hold = hold
        self._sums = _free_of(state, hold)
        capacity.keep(state, hold.places, 1)
        capacity.add([pool.use], self._sums, 1)

    def end(self) -> None:
        """Everything is as it was."""
        capacity.keep(self._state, self._hold.places, -1)
        capacity.add([self._pool.use], self._sums, -1)


def _free_of(state: State, hold: Hold) -> Amounts:
    """What of the kept amounts is free now: of what belongs to nodes that which is open there, all of the rest."""
    total: Amounts = {}
    left: dict[str, dict[str, int]] = {}
    for place in hold.places:
        opens = left.get(place.node)
        if opens is None:
            opens = left[place.node] = _open_on(state, place.node)
        asked = {**{f"{GPU}/{share.device}": share.units for share in place.devices}, **place.amounts}
        asked.pop(GPU, None)
        for key, amount in asked.items():
            free = min(amount, opens.get(key, 0)) if key in (CPU, MEMORY) or key.startswith(f"{GPU}/") else amount
            opens[key] = opens.get(key, 0) - free
            name = key.partition("/")[0] if key.startswith(f"{GPU}/") else key
            total[name] = total.get(name, 0) + free
    return {key: amount for key, amount in total.items() if amount}


def _open_on(state: State, name: str) -> Amounts:
    """cpu, memory, and the units of each device as `gpu/<device>`, that are open on a node."""
    node = state.nodes.get(name)
    if node is None:
        return {}
    opens = {f"{GPU}/{device.name}": device.open for device in node.devices}
    cpu, memory = node.cpu_free - node.cpu_nominated, node.memory_free - node.memory_nominated
    return {**opens, CPU: max(0, cpu), MEMORY: max(0, memory)}


def rank_in_line(state: State, job: JobRecord, pool: PoolState) -> Rank | None:
    """What a job that stands in line is ordered by in a pool (R15), be it the head of its group or not; None: it does not.

    One that is not there, and only asked about, stands where it would.
    """
    is_there = state.jobs.get(job.key) is job
    group = state.pending.group_of(job) if is_there else state.pending.group_for(job)
    return None if group is None else rank(state, group, job, pool, inside=is_inside(state, group, pool))


def holds_before(state: State, job: JobRecord, pool: PoolState) -> list[Hold]:
    """The holds in the pool of jobs that rank before `job` there: what they keep is kept from it. Best first.

    From one that stands in no line nothing is kept: it has its own places (R27), or cannot start anyway.
    """
    name = pool.document.name
    here = [hold for hold in state.holds.values() if hold.pool == name and hold.job is not job]
    mine = rank_in_line(state, job, pool) if here else None
    ranked = [(theirs, hold) for hold in here if (theirs := rank_in_line(state, hold.job, pool)) is not None]
    return [hold for theirs, hold in sorted(ranked, key=lambda pair: pair[0]) if mine is not None and theirs < mine]


@contextmanager
def as_seen_by(state: State, job: JobRecord, pool: PoolState) -> Iterator[None]:
    """Meanwhile what is kept from `job` in the pool is not free (R18)."""
    kept = [OutOfReach(state, pool, hold) for hold in holds_before(state, job, pool)] if state.holds else []
    try:
        yield
    finally:
        for out in reversed(kept):
            out.end()


def has_room(state: State, job: JobRecord, pool: PoolState) -> bool:
    """Whether all its replicas could be placed in what is free for it now (R3, R6, R16). Limits are not looked at."""
    with as_seen_by(state, job, pool):
        return has_room_beside_holds(state, job, pool)


def has_room_beside_holds(state: State, job: JobRecord, pool: PoolState) -> bool:
    """The same if nothing were kept for others."""
    return over_capacity(pool, job.request.sums) is None and find_places(state, job, pool) is not None
