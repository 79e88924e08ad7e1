"""Which nodes a look for places to be kept (R16) has to see, and which not: what a node would make wait for, at the least.

Strategy: nodes that look alike need at least the same units to come free, whatever runs on them; so classes of nodes are *opened* in the
order of these units, the least first. Within a class, nodes with a known end come first, by the earliest end; on the others the end is
unknown, so they are alike but for their names. The caller takes nodes for as long as the next might be better than the best so far.
"""

from __future__ import annotations

import heapq
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import GPU_UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.domain.indexes.node_classes import NodeClass
    from headrace.domain.model.requests import Shape
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

UNKNOWN = 2**62
"""The end of what may end at any time, or never: after all that are known."""

Wait = tuple[int, int]
"""Units of GPU that are not free yet, and when the last of them is known to be (log time; 0: all are free)."""

Offer = tuple[Wait, str]
"""A node, and what it makes wait for at the least."""


def offers(state: State | None, pool: PoolState, shape: Shape) -> Iterator[Offer]:
    """The nodes of a pool that suit a shape by model and isolation, ascending: what comes is never better than what came.

    Without a `state` nothing is known of who ends when.
    """
    levels: dict[int, list[NodeClass]] = {}
    for group in pool.index.classes(shape):
        levels.setdefault(_least(group.key.opens, shape), []).append(group)
    for units, groups in sorted(levels.items()):
        ready = [group for group in groups if state is None or _may_be_ready(group, units, shape)]
        for name in heapq.merge(*(group.names for group in ready)):
            yield (units, 0), name
        if state is not None and len(ready) < len(groups):
            yield from _by_end(state, pool, units, set(groups).difference(ready))


def offers_among(pool: PoolState, shape: Shape, names: Iterable[str]) -> Iterator[Offer]:
    """The same of these nodes alone, which are so few that it is not looked up who ends there when."""
    pool.index.feasible(())  # brings the classes up to date
    there = ((name, pool.index.class_of(name)) for name in names)
    suiting = [(_least(group.key.opens, shape), name) for name, group in there if group is not None and group.suits(shape)]
    return (((units, 0), name) for units, name in sorted(suiting))


def _by_end(state: State, pool: PoolState, units: int, groups: set[NodeClass]) -> Iterator[Offer]:
    """The nodes of these classes; on each of them a job has to end."""
    seen: set[str] = set()
    for end, those in groupby(state.ends.ascending(), key=itemgetter(0)):
        names = {
            lease.node
            for _, key in those
            for lease in state.jobs[key].leases.values()
            if lease.pool == pool.document.name and pool.index.class_of(lease.node) in groups
        }
        for name in sorted(names - seen):
            yield (units, end), name
        seen |= names
    for name in heapq.merge(*(group.names for group in groups)):
        if name not in seen:
            yield (units, UNKNOWN), name


def _may_be_ready(group: NodeClass, units: int, shape: Shape) -> bool:
    """Whether a replica may start there without waiting."""
    return not units and (bool(shape.mig) or (group.key.cpu >= shape.cpu and group.key.memory >= shape.memory))


def _least(opens: tuple[int, ...], shape: Shape) -> int:
    """Least number of units that have to come free on a node with these units open on each device."""
    if shape.mig or not opens:
        return 0
    if shape.fraction:
        return max(0, shape.fraction - opens[-1])
    return sum(GPU_UNITS - units for units in opens[len(opens) - shape.whole :]) if shape.whole <= len(opens) else 0
