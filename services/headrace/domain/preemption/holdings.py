"""What a job holds, taken out of the state on trial and put back, so that one may ask what would be without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.domain.model.jobs import JobRecord
from headrace.domain.state import capacity
from headrace.domain.state.pools import PoolState

if TYPE_CHECKING:
    from headrace.domain.model.devices import HeldDevices
    from headrace.domain.model.jobs import Preemption
    from headrace.domain.state.state import State


class JobHolding(NamedTuple):
    """What one job holds in a pool: the places of its leases, or what is kept for it. `yields`: of which places the use yields (R17)."""

    job: JobRecord
    pool: PoolState
    places: tuple[HeldDevices, ...]
    kept: Preemption | None = None
    yields: tuple[HeldDevices, ...] = ()


def holding_of(state: State, job: JobRecord) -> JobHolding | None:
    """What the leases of a job hold, all in one pool (R18); None: it has none, or its pool is gone."""
    first = next(iter(job.leases.values()), None)
    pool = state.pools.get(first.pool) if first is not None else None
    if pool is None:
        return None
    leases = job.leases.values()
    # What is suspended is charged with the little that it keeps, whatever becomes of the rest of its gang (R29).
    yielding = [lease for lease in leases if lease.yields]
    return JobHolding(job, pool, tuple(map(capacity.held_by, leases)), yields=tuple(map(capacity.held_by, yielding)))


def let_go(state: State, holding: JobHolding) -> None:
    """As the fold would release it; use that yields is out of the accounts already (R17)."""
    job, pool, places, kept, yields = holding
    if kept is not None:
        capacity.lift(state, kept)
        return
    for place in places:
        capacity.give_back(state, job, pool, place)
    for place in yields:
        capacity.yield_use(state, job, pool, place, -1)


def hold(state: State, holding: JobHolding) -> None:
    """The inverse of `let_go`."""
    job, pool, places, kept, yields = holding
    if kept is not None:
        capacity.nominate(state, kept)
        return
    for place in reversed(yields):
        capacity.yield_use(state, job, pool, place, 1)
    for place in reversed(places):
        capacity.take(state, job, pool, place)
