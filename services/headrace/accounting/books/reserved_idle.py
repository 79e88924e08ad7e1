"""Free units kept for jobs: nominated for a preemptor (R27) or one that moves (R29), or held back for backfill (R16). Pure.

R37 shows them as *kept* and does not charge them. Of a place as much is kept as is free: a victim is charged until it has left, and only
then is the rest of its place kept. So it is computed again, after a record, for every node with kept units and a change, in log time: it
never depends on what becomes known late. Keys that belong to a pool and not to a node, such as licences, are computed over the pool, and
shown on the nodes of the places for which they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headrace.accounting.books.rollups import RollupAccount, Rollups
from headrace.accounting.books.rows import KeptRow
from headrace.contracts import facts as f
from headrace.contracts.facts import Fact
from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.contracts.values.amounts import CPU, GPU, JOB, MEMORY, Amounts, is_gpu
from headrace.contracts.values.ids import array_of
from headrace.contracts.values.mig import open_starts
from headrace.domain.model.jobs import JobRecord
from headrace.domain.model.nodes import NodeState
from headrace.domain.state.state import State

OPENS = frozenset({f.PreemptionOrderedV1, f.MoveOrderedV1, f.HoldPlacedV1})
"""Facts from which on units may be kept for their job."""

ON_NODES = (GPU, CPU, MEMORY)
"""Keys of nodes, beside those of GPU models; every other one is the pool's."""

Cell = tuple[str, str, str]
"""(job, node, key)."""


@dataclass(slots=True, eq=False)
class _Keeps:
    """Places that are kept for a job, with its account; the earliest gets free units first."""

    order: tuple[int, str]
    account: RollupAccount
    places: tuple[Place, ...]


class _Stint(NamedTuple):
    since: int
    units: int
    account: RollupAccount


class ReservedIdle:
    """Kept units, updated with every record after the fold has read it, and with the nodes that changed. `account_of`: account of a job."""

    def __init__(self, state: State, sums: Rollups, account_of: Callable[[JobRecord], RollupAccount]) -> None:
        self._state = state
        self._sums = sums
        self._account_of = account_of
        self._open: dict[str, _Keeps] = {}
        self._on_node: dict[str, set[str]] = {}
        self._touched: set[str] = set()
        self._in_pool: dict[str, set[str]] = {}
        """Jobs for which units of the pool's keys are kept."""
        self._touched_pools: set[str] = set()
        self._stints: dict[Cell, _Stint] = {}

    def restore(self, rows: Iterable[KeptRow]) -> None:
        """Continue from the stored intervals that last; which job they are kept for is in the fold."""
        for row in rows:
            self._stints[row.job, row.node, row.key] = _Stint(row.since, row.units, RollupAccount(*row[6:], row.node))
        for job in {*self._state.holds, *(each.job.key for each in self._state.preemptions.values() if each.kept)}:
            self._update_places(job)
        self._touched.clear()
        self._touched_pools.clear()

    def touch(self, node: str, pool: str = "") -> None:
        """Note that the use of a node, and of its pool, or the node itself has changed."""
        if node in self._on_node:
            self._touched.add(node)
            for job in self._on_node[node]:
                self.touch_pool(self._open[job].account.pool)
        self.touch_pool(pool)

    def touch_pool(self, pool: str) -> None:
        """Note that a pool, or the use of it, has changed."""
        if pool in self._in_pool:
            self._touched_pools.add(pool)

    def changes(self, facts: Iterable[Fact]) -> Iterator[KeptRow]:
        """Intervals that are new, or have ended, after a record with these facts."""
        for fact in facts:
            if self._open or type(fact) in OPENS:
                job = getattr(fact, "job", "")
                if job in self._open or type(fact) in OPENS:
                    self._update_places(job)
                elif job in self._state.arrays:  # a fact about all elements that wait
                    for element in [key for key in self._open if array_of(key) == job]:
                        self._update_places(element)
        touched, self._touched = self._touched, set()
        for node in sorted(touched):
            known = [cell for cell in self._stints if cell[1] == node and _is_on_nodes(cell[2])]
            yield from self._count(dict(self._found(node)), known)
        pools, self._touched_pools = self._touched_pools, set()
        for pool in sorted(pools):
            stints = self._stints.items()
            known = [cell for cell, stint in stints if not _is_on_nodes(cell[2]) and stint.account.pool == pool]
            yield from self._count(self._found_in(pool), known)

    def _update_places(self, key: str) -> None:
        """Update the places that are kept for a job."""
        job, was = self._state.jobs.get(key), self._open.get(key)
        nomination, hold = job.nomination if job is not None else None, self._state.holds.get(key)
        places = nomination.places if nomination is not None else hold.places if hold is not None else ()
        if was is not None and was.places is places:
            return
        if was is not None:
            self._leave_pool(key, was.account.pool)
        for place in was.places if was is not None else ():
            self._touched.add(place.node)
            there = self._on_node.get(place.node, set())
            there.discard(key)
            if not there:
                self._on_node.pop(place.node, None)
        self._open.pop(key, None)
        if job is None or not places:
            return
        since = nomination.ordered_at if nomination is not None else hold.placed_at if hold is not None else 0
        pool = nomination.pool if nomination is not None else hold.pool if hold is not None else ""
        self._open[key] = _Keeps((since, key), self._account_of(job)._replace(pool=pool), places)
        for place in places:
            self._touched.add(place.node)
            self._on_node.setdefault(place.node, set()).add(key)
        if any(map(_of_the_pool, places)):
            self._in_pool.setdefault(pool, set()).add(key)
            self._touched_pools.add(pool)

    def _leave_pool(self, key: str, pool: str) -> None:
        there = self._in_pool.get(pool, set())
        if key in there:
            self._touched_pools.add(pool)
            there.discard(key)
        if not there:
            self._in_pool.pop(pool, None)

    def _count(self, found: dict[Cell, tuple[RollupAccount, int]], known: Iterable[Cell]) -> Iterator[KeptRow]:
        """Compare what is kept with what was `known`: at a difference one interval ends and one begins."""
        now = self._state.now
        for cell in sorted({*found, *known}):
            job, node, key = cell
            was = self._stints.get(cell)
            account, units = found.get(cell, (None, 0))
            if was is not None and (was.units, was.account) == (units, account):
                continue
            if was is not None:
                del self._stints[cell]
                self._sums.kept(was.account, key, was.units, was.since, now)
                yield KeptRow(job, node, key, was.since, now, was.units, *was.account[:7])
            if account is not None and units:
                self._stints[cell] = _Stint(now, units, account)
                yield KeptRow(job, node, key, now, None, units, *account[:7])

    def _found(self, name: str) -> Iterator[tuple[Cell, tuple[RollupAccount, int]]]:
        node = self._state.nodes.get(name)
        if node is None or not node.healthy:
            return
        left = {device.name: max(0, device.free) for device in node.devices}
        rest = {CPU: max(0, node.cpu_free), MEMORY: max(0, node.memory_free)}
        keeps = sorted((self._open[job] for job in self._on_node.get(name, ())), key=lambda each: each.order)
        for keep in keeps:
            units = dict.fromkeys((GPU, CPU, MEMORY), 0)
            for place in keep.places:
                if place.node != name:
                    continue
                of_gpus = [key for key in place.amounts if is_gpu(key)]
                for share in place.devices:
                    got = _free_of(node, share, left)
                    for key in of_gpus:
                        units[key] = units.get(key, 0) + got
                    if share.device in left and not share.mig:
                        left[share.device] -= got
                for key, free in rest.items():
                    got = min(place.amounts.get(key, 0), free)
                    units[key] += got
                    rest[key] = free - got
            account = keep.account._replace(node=name)
            yield from (((keep.order[1], name, key), (account, amount)) for key, amount in units.items() if amount)

    def _found_in(self, name: str) -> dict[Cell, tuple[RollupAccount, int]]:
        """Kept units of the pool's keys; the earliest gets free units first."""
        found: dict[Cell, tuple[RollupAccount, int]] = {}
        pool = self._state.pools.get(name)
        if pool is None:
            return found
        rest: dict[str, int] = {}
        for keep in sorted((self._open[job] for job in self._in_pool.get(name, ())), key=lambda each: each.order):
            for place in keep.places:
                node = self._state.nodes.get(place.node)
                if node is None or not node.healthy:
                    continue
                for key, amount in _of_the_pool(place).items():
                    free = rest.setdefault(key, max(0, pool.usable.get(key, 0) - pool.leased.get(key, 0)))
                    got = min(amount, free)
                    rest[key] = free - got
                    if got:
                        cell = (keep.order[1], place.node, key)
                        found[cell] = keep.account._replace(node=place.node), got + found.get(cell, (None, 0))[1]
        return found


def _of_the_pool(place: Place) -> Amounts:
    """The amounts of a place that belong to the pool and not to a node."""
    return {key: amount for key, amount in place.amounts.items() if not _is_on_nodes(key) and key != JOB}


def _is_on_nodes(key: str) -> bool:
    return key in ON_NODES or is_gpu(key)


def _free_of(node: NodeState, share: DeviceShare, left: dict[str, int]) -> int:
    """Free units of a share; a slice is free as a whole or not at all (R4)."""
    device = node.by_name.get(share.device)
    if device is None or device.unfit:
        return 0
    if share.mig:
        return share.units if device.mig and share.start in open_starts(device.family, device.slices, share.mig) else 0
    return min(share.units, left[device.name])
