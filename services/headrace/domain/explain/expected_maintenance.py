"""Maintenance while the future is played forward (R41): nodes leave service and come back, on trial. Pure.

Simpler than what will really happen: jobs that run on a node when its maintenance begins go on, instead of being stopped and waiting
again; and of jobs that ask for the same in one queue a later one never goes before one that is too long for the time that is left.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from headrace.domain.indexes.pending import avoided
from headrace.domain.model.maintenance import Maintenance, PoolMaintenance, turn_of_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State
    from headrace.domain.state.trial import Trial

TURNS_MAX = 16
"""Times that windows are looked at in one forecast; after that none begins or ends any more."""


class ExpectedMaintenance:
    """The maintenance of some pools, tried in `trial`."""

    def __init__(self, state: State, trial: Trial, pools: Mapping[str, PoolState]) -> None:
        self._state = state
        self._trial = trial
        self._pools = pools
        self._turns = 0
        drains = {
            name: one for name, one in state.maintenance.drains.items() if any(name in pool.nodes for pool in pools.values())
        }
        windows = {name: one for name, one in state.maintenance.pools.items() if name in pools}
        self._there = Maintenance(drains, windows, {name for name in pools if pools[name].document.maintenance})

    def __bool__(self) -> bool:
        return bool(self._there or self._there.planned)

    def drains(self) -> list[tuple[str, int]]:
        """The nodes whose drain is scheduled, and when it begins."""
        return [(name, drain.begins) for name, drain in self._there.drains.items()]

    def windows(self) -> list[str]:
        """The pools that have windows."""
        return sorted(self._there.planned)

    def drain(self, name: str) -> None:
        """The node takes no jobs from now on."""
        self._there.drains.pop(name, None)
        node = self._state.nodes[name]
        cordoned, node.cordoned = node.cordoned, node.cordoned or "drained"
        self._put(node)
        self._trial.note(partial(self._restore, node, "cordoned", cordoned))

    def turn(self, name: str, moment: int) -> int | None:
        """What the windows of a pool say from that moment on counts; returns when it may be something else."""
        pool = self._pools[name]
        self._turns += 1
        turn = turn_of_windows(pool.document.maintenance, self._state.terms.calendars, moment)
        self._there.pools.pop(name, None)
        if turn.begins:
            self._there.pools[name] = PoolMaintenance(turn.begins, turn.ends, turn.begun, turn.reason)
        under_way = self._there.under_way(name)
        for node in pool.nodes.values():
            if (node.maintenance is None) != (under_way is None):
                before, node.maintenance = node.maintenance, under_way
                self._put(node)
                self._trial.note(partial(self._restore, node, "maintenance", before))
        return turn.until if self._turns < TURNS_MAX else None

    def _restore(self, node: NodeState, field: str, value: object) -> None:
        setattr(node, field, value)
        self._put(node)

    def _put(self, node: NodeState) -> None:
        pool = self._state.pool_of(node)
        if pool is not None:
            pool.index.put(node)

    def may_start(self, job: JobRecord, pool: str, moment: int) -> bool:
        """Whether the job would end before the pool's maintenance begins, if it started at that moment."""
        return pool not in self._there.outlasted(job, moment)[1]

    @contextmanager
    def seen_by(self, job: JobRecord, moment: int) -> Iterator[None]:
        """Meanwhile the job is kept from the nodes and pools that it would outlast if it started at that moment, and from no others."""
        before = job.avoiding, job.outlasts
        if self:
            nodes, pools = self._there.outlasted(job, moment)
            job.avoiding, job.outlasts = tuple(sorted({*avoided(job, moment), *nodes})), pools
        try:
            yield
        finally:
            job.avoiding, job.outlasts = before
