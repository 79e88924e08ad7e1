"""What will be kept for those who wait too long (R16), while the future is played forward. Pure.

Kept are the places that are kept now, and places for jobs that will have waited for the pool's `backfill_for`, until enough are examined.
Kept units are lent to those who have ended before they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.backfill.backfill_placement import Occupant, occupant
from headrace.domain.backfill.candidate_nodes import UNKNOWN
from headrace.domain.backfill.hold_policy import ends_at, is_still_kept, keep_of, next_turn, places_to_keep
from headrace.domain.backfill.holds import HOLDS_MAX, withhold
from headrace.domain.model.preemption_state import Hold
from headrace.domain.placement.placement import find_places
from headrace.domain.state.quota import over_capacity
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.contracts.facts.fact import Place
    from headrace.domain.explain.expected_maintenance import ExpectedMaintenance
    from headrace.domain.model.devices import HeldDevices
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.requests import Request
    from headrace.domain.queueing.queue_projection import ProjectedEntry, QueueProjection
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


class Occupancy:
    """Who holds what on each node while time goes on: those who hold it now, but for those who have left, and those who came.

    `version` counts the changes.
    """

    def __init__(self) -> None:
        self.version = 0
        self._gone: set[str] = set()
        self._came: dict[str, dict[str, list[Occupant]]] = {}

    def __call__(self, node: NodeState) -> Iterable[Occupant]:
        """Those on a node."""
        gone, came = self._gone, self._came.get(node.name)
        stay = [occupant(lease) for lease in node.leases.values() if lease.job.key not in gone]
        return stay if not came else [*stay, *(one for those in came.values() for one in those)]

    def come(self, job: JobRecord, places: Iterable[Place], moment: int) -> None:
        """The job holds these places from now on."""
        known = moment + job.time_limit if job.time_limit is not None else None
        end = known if known is not None else UNKNOWN if job.preemptible else None
        self.version += 1
        for place in places:
            self._came.setdefault(place.node, {}).setdefault(job.key, []).append(Occupant(place, end, job, moment))

    def leave(self, job: JobRecord, places: Iterable[HeldDevices]) -> None:
        """It holds them no more."""
        self.version += 1
        self._gone.add(job.key)
        for place in places:
            self._came.get(place.node, {}).pop(job.key, None)


NODES_MAX = 1_000
"""Nodes looked at for places to keep, in one forecast: some 30 ms. After that nothing more is kept in it."""


class ExpectedHolds:
    """The holds of some pools. `effort` counts those who were looked at in line; `_nodes` the nodes that were for places to keep."""

    def __init__(
        self,
        state: State,
        pools: Mapping[str, PoolState],
        line: QueueProjection,
        on: Occupancy,
        maintenance: ExpectedMaintenance,
    ) -> None:
        self._maintenance = maintenance
        self.effort = self._nodes = 0
        self._looked_at = 0
        self._lent: dict[str, int] = {}
        self._lent_as = (-1, -1)
        self._state = state
        self._pools = pools
        self._line = line
        self._on = on
        self._holds = {name: {hold.job.key: hold for hold in state.holds.values() if hold.pool == name} for name in pools}
        self._out: dict[str, dict[str, Trial]] = {name: {} for name in pools}

    def __bool__(self) -> bool:
        """Whether anything is kept."""
        return any(self._holds.values())

    def in_order(self, name: str) -> list[tuple[Rank, str]]:
        """(rank, job) of those for whom something is kept in a pool, best first."""
        ranked = [(self._line.rank(name, hold.job), key) for key, hold in self._holds[name].items()]
        return sorted((rank, key) for rank, key in ranked if rank is not None)

    def show(self, name: str, those: Iterable[str]) -> None:
        """Put what is kept in a pool for these jobs out of reach, and nothing else."""
        shown, out = tuple(those), self._out[name]
        for key in [key for key in reversed(out) if key not in shown]:
            out.pop(key).undo()
        for key in shown:
            if key not in out:
                out[key] = withhold(Trial(self._state), self._pools[name], self._holds[name][key])

    def not_lent(self, name: str, stage: Sequence[str], job: JobRecord, moment: int) -> list[str]:
        """Of the jobs of a stage those from whose places a job is kept that would be granted its own at that moment."""
        end = ends_at(self._state, job, moment)
        return list(stage) if end is None else [key for key in stage if self._lent_until(name, key, moment) < end]

    def loans(self, name: str, stage: Sequence[str], moment: int) -> list[int]:
        """The moments up to which any of what these jobs keep is lent, ascending."""
        return sorted({until for key in stage if (until := self._lent_until(name, key, moment)) > moment})

    def lent_after(self, name: str, stage: Sequence[str], until: int, moment: int) -> list[str]:
        """Jobs of a stage whose places are kept from all jobs that do not end before `until`."""
        return [key for key in stage if self._lent_until(name, key, moment) < until]

    def _lent_until(self, name: str, key: str, moment: int) -> int:
        if self._lent_as != (self._on.version, moment):
            self._lent, self._lent_as = {}, (self._on.version, moment)
        if key not in self._lent:
            self._lent[key] = keep_of(self._state, self._holds[name][key], moment, self._on).lent_until
        return self._lent[key]

    def hide(self) -> None:
        """Nothing is out of reach."""
        for name in self._pools:
            self.show(name, ())

    def end(self, job: JobRecord) -> None:
        """It has started: nothing is kept for it any more."""
        for name, holds in self._holds.items():
            if job.key in holds:
                self.show(name, ())
                del holds[job.key]

    def update(self, requests: Mapping[str, Sequence[tuple[Request, int]]], moment: int) -> None:
        """Lift what has lapsed, and keep places for those who have waited long enough at that moment."""
        self.hide()
        for holds in self._holds.values():
            for key in [key for key, hold in holds.items() if self._has_lapsed(hold, moment)]:
                del holds[key]
        for name, pool in sorted(self._pools.items()):
            tried = set[str]()
            is_due = self._line.oldest + pool.document.backfill_for <= moment
            while is_due and len(self._holds[name]) < HOLDS_MAX and self._nodes < NODES_MAX:
                entry = self._next(name, requests[name], moment, tried)
                if entry is None:
                    break
                tried.add(entry.job.key)
                places = self._places(entry, pool, moment)
                self.hide()
                if places is not None:
                    self._lent.pop(entry.job.key, None)
                    self._holds[name][entry.job.key] = Hold(entry.job, name, places, moment)
        self._looked_at = moment

    def turns_end(self, moment: int) -> list[int]:
        """When what is kept now may end by time alone."""
        ends = (next_turn(self._state, hold, moment) for holds in self._holds.values() for hold in holds.values())
        return [end for end in ends if end is not None]

    def _has_lapsed(self, hold: Hold, moment: int) -> bool:
        if self._line.rank(hold.pool, hold.job) is None or any(place.node in hold.job.avoiding for place in hold.places):
            return True
        return not is_still_kept(self._state, hold, moment, self._on)

    def _next(self, name: str, requests: Sequence[tuple[Request, int]], moment: int, tried: set[str]) -> ProjectedEntry | None:
        """Who was due first and for whom nothing is kept anywhere; of those who were when it was looked last, the best-ranked."""
        backfill_for, best = self._pools[name].document.backfill_for, None
        for request, _ in requests:
            for entry in self._line.heads(name, request):
                self.effort += 1
                key, due = entry.job.key, max(self._looked_at, entry.job.pending_since + backfill_for)
                if due > moment or key in tried or any(key in holds for holds in self._holds.values()):
                    continue
                if best is None or (due, entry) < best:
                    best = due, entry
                if due == self._looked_at:
                    break
        return None if best is None else best[1]

    def _places(self, entry: ProjectedEntry, pool: PoolState, moment: int) -> tuple[Place, ...] | None:
        """What to keep for it, as it sees the pools; nothing for who finds room, or something to keep in an earlier pool of its order."""
        job, seen = entry.job, dict[str, list[str]]()
        for name, other in self._pools.items():
            rank = self._line.rank(name, job)
            if rank is None:
                continue
            stage = [key for theirs, key in self.in_order(name) if theirs < rank]
            self.show(name, self.not_lent(name, stage, job, moment))
            if over_capacity(other, job.request.sums) is None:
                with self._maintenance.seen_by(job, moment):
                    places = find_places(self._state, job, other)
                if places is not None:
                    return None
            seen[name] = stage
        profile = self._state.profile(job.tenant, job.profile)
        for name in profile.pools if profile is not None else ():
            if name not in seen or job.pending_since + self._pools[name].document.backfill_for > moment:
                continue
            self._nodes += len(self._pools[name].nodes)
            self.show(name, seen[name])
            with self._maintenance.seen_by(job, moment):
                places = places_to_keep(self._state, job, self._pools[name], moment, self._on)
            if self._pools[name] is pool or places is not None:
                return places if self._pools[name] is pool else None
        return None
