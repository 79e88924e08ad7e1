"""What-if: changes tried on the state, and taken back.

Strategy: a trial notes the inverse of each change, and `undo` applies the inverses, the last one first. So a question about a possible
change uses the state itself, with its indexes, and the rules need no second form for it. Two ways to ask stay separate, and properties
hold them equal to a trial: `PlacementAfterPreemption` counts what thousands of victims would leave without a change for each of them, and
`copy_of` makes a state that facts are folded into, which has no inverse.

Counts of what is taken only add up, so trials may end in another order than that in which they began.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from headrace.domain.model.jobs import JobRecord
from headrace.domain.state import capacity
from headrace.domain.state.pools import PoolState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from headrace.contracts.facts.fact import Place
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.devices import HeldDevices
    from headrace.domain.model.jobs import Preemption
    from headrace.domain.model.requests import Request
    from headrace.domain.state.state import State


class JobHolding(NamedTuple):
    """What one job holds in a pool: the places of its leases, or what is kept for it. `yields`: the places whose use yields (R17)."""

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


class Trial:
    """A journal of changes to one state. As a context manager it undoes them at the end."""

    __slots__ = ("_inverses", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self._inverses: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.undo()

    @property
    def mark(self) -> int:
        """How far the journal is, for `undo`."""
        return len(self._inverses)

    def undo(self, mark: int = 0) -> None:
        """Take back every change, the last one first, or those since the mark."""
        inverses = self._inverses
        for _ in range(len(inverses) - mark):
            inverses.pop()()

    def note(self, inverse: Callable[[], object]) -> None:
        """Another change was made; `inverse` takes it back."""
        self._inverses.append(inverse)

    def take(self, job: JobRecord, pool: PoolState, place: HeldDevices, charged: Amounts | None = None) -> None:
        """A lease of the job holds the place. `charged`: what of its amounts is counted, which may leave out what nothing bounds.

        None: all of them.
        """
        counted = place.amounts if charged is None else charged
        capacity.take_for_trial(self.state, job, pool, place, counted, 1)
        self._inverses.append(lambda: capacity.take_for_trial(self.state, job, pool, place, counted, -1))

    def release(self, holding: JobHolding) -> None:
        """The job releases what it holds, as the fold would have it; use that yields is out of the accounts already (R17)."""
        _move(self.state, holding, -1)
        self._inverses.append(lambda: _move(self.state, holding, 1))

    def hold(self, holding: JobHolding) -> None:
        """The inverse of `release`."""
        _move(self.state, holding, 1)
        self._inverses.append(lambda: _move(self.state, holding, -1))

    def nominate(self, preemption: Preemption) -> None:
        """Its places are kept for the preemptor (R27)."""
        capacity.nominate(self.state, preemption)
        self._inverses.append(lambda: capacity.lift(self.state, preemption))

    def lift(self, preemption: Preemption) -> None:
        """Its places are not kept any more."""
        capacity.lift(self.state, preemption)
        self._inverses.append(lambda: capacity.nominate(self.state, preemption))

    def yield_use(self, job: JobRecord, pool: PoolState, held: HeldDevices) -> None:
        """What is held makes room for a preemptor, and counts no more in tests (R17)."""
        capacity.yield_use(self.state, job, pool, held, 1)
        self._inverses.append(lambda: capacity.yield_use(self.state, job, pool, held, -1))

    def avoid(self, job: JobRecord, nodes: tuple[str, ...]) -> None:
        """The job is kept away from these nodes, by name, and from no others."""
        before, job.avoiding = job.avoiding, nodes
        self._inverses.append(lambda: setattr(job, "avoiding", before))

    def choose(self, job: JobRecord, request: Request) -> None:
        """The job asks for another of the requests that it may be given (R42), and so does its group, if it stands in line."""
        if job.request is not request:
            group, before = self.state.pending.group_of(job), job.request
            _choose(job, group, request)
            self._inverses.append(partial(_choose, job, group, before))

    def keep(self, places: Iterable[Place]) -> None:
        """The places are out of reach on their nodes. No account changes."""
        kept = tuple(places)
        capacity.keep(self.state, kept, 1)
        self._inverses.append(lambda: capacity.keep(self.state, kept, -1))

    def count(self, pool: PoolState, held: HeldDevices) -> None:
        """The pool counts what is held as leased, by any holder."""
        capacity.count_place(pool, held, use=1, leased=1)
        self._inverses.append(lambda: capacity.count_place(pool, held, use=-1, leased=-1))


def _choose(job: JobRecord, group: JobGroup | None, request: Request) -> None:
    job.request = request
    if group is not None:
        group.request = request


def _move(state: State, holding: JobHolding, sign: int) -> None:
    """The job holds that, or with sign -1 no more."""
    job, pool, places, kept, yields = holding
    if kept is not None:
        (capacity.nominate if sign > 0 else capacity.lift)(state, kept)
        return
    for place in places:
        (capacity.take if sign > 0 else capacity.give_back)(state, job, pool, place)
    for place in yields:
        capacity.yield_use(state, job, pool, place, sign)
