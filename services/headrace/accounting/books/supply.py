"""Supply for the books: nodes as they are, and what each pool has since when (R6). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.accounting.books.row_mapping import node_row
from headrace.accounting.books.rows import CapacityRow, NodeRow
from headrace.contracts import facts as f
from headrace.domain.model.nodes import NodeState
from headrace.domain.state.state import State

CHANGES_SUPPLY = frozenset(
    {
        f.NodeApprovedV1,
        f.NodeRegisteredV1,
        f.NodeStoppedV1,
        f.NodeLostV1,
        f.DeviceDrainedV1,
        f.DeviceReturnedV1,
        f.PoolAppliedV1,
        f.PoolDeletedV1,
        f.InstanceEndedV1,
        f.NodeRemovedV1,
    }
)
"""Facts after which a pool may have more or less than before."""


class Supply:
    """Nodes that have changed, and the last known supply of each pool."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[tuple[str, str], tuple[int, int]] = {}
        self._nodes: dict[str, NodeState] = {}

    def restore(self, rows: Iterable[CapacityRow]) -> None:
        """Continue from the stored supply."""
        self._known = {(row.pool, row.key): (row.known, row.usable) for row in rows}

    def node_changed(self, name: str) -> None:
        """Note that a node has changed."""
        node = self._state.nodes.get(name)
        if node is not None:
            self._nodes[name] = node

    def nodes_moved(self) -> None:
        """Note that nodes may have come into a pool or left it."""
        self._nodes.update(self._state.nodes)

    def take_nodes(self) -> list[NodeRow]:
        """The nodes that have changed since the last call."""
        changed, self._nodes = self._nodes, {}
        return [node_row(node) for node in changed.values()]

    def changes(self, sequence: int) -> Iterator[CapacityRow]:
        """The supply of each pool that differs from the last one."""
        supply = {
            (pool.document.name, key): (pool.known.get(key, 0), pool.usable.get(key, 0))
            for pool in self._state.pools.values()
            for key in pool.known
        }
        for place in sorted(supply.keys() | self._known.keys()):
            has = supply.get(place, (0, 0))
            if has != self._known.get(place):
                self._known[place] = has
                yield CapacityRow(*place, sequence, self._state.now, *has)
