"""Finding a node for one replica without looking at every node.

Strategy: nodes that look alike (same free amounts) form a *class*. For each shape a heap holds the classes that fit it, best first,
filled lazily from a log of classes that came into being; a class whose last node left is dropped when it comes to the top. So a look
costs the classes that are new since the last look with that shape, never all nodes, and an empty heap means: fits nowhere.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from headrace.contracts.amounts import GPU_UNITS

if TYPE_CHECKING:
    from headrace.domain.requests import Shape
    from headrace.domain.state import NodeState

_NORM = 4096  # steps in which the free share of a node is measured
_LOG_SLACK = 4_096  # the log is rewritten when it is this much longer than the live classes


Score = tuple[int, int, tuple[int, ...], int, int, str, int]
"""What classes are compared by. No two have the same, so the choice never depends on the order in which they came into being."""


class NodeClass:
    """Nodes with the same free amounts: `opens` are the devices' open units, ascending."""

    __slots__ = ("cpu", "cpu_total", "free_share", "heap", "memory", "model", "names", "opens", "whole")

    def __init__(self, model: str, cpu: int, memory: int, opens: tuple[int, ...], cpu_total: int) -> None:
        self.model = model
        self.cpu = cpu
        self.cpu_total = cpu_total
        self.memory = memory
        self.opens = opens
        self.whole = opens.count(GPU_UNITS)
        gpu_share = sum(opens) * _NORM // (len(opens) * GPU_UNITS) if opens else 0
        self.free_share = gpu_share + (cpu * _NORM // cpu_total if cpu_total else 0)
        self.names: set[str] = set()
        self.heap: list[str] = []

    def first(self) -> str:
        """The node with the smallest name."""
        while self.heap[0] not in self.names:
            heapq.heappop(self.heap)
        return self.heap[0]

    def fits(self, shape: Shape) -> bool:
        """Whether one replica of `shape` can go to a node of this class (R3)."""
        if self.cpu < shape.cpu or self.memory < shape.memory or self.whole < shape.whole:
            return False
        if shape.fraction and (not self.opens or self.opens[-1] < shape.fraction):
            return False
        return not shape.models or self.model in shape.models or not (shape.whole or shape.fraction)

    def score(self, shape: Shape) -> Score:
        """Smaller is better (R20): the node with the least free share, then the fullest device; the rest only breaks ties."""
        device = next((units for units in self.opens if units >= shape.fraction), 0) if shape.fraction else 0
        return self.free_share, device, self.opens, self.cpu, self.memory, self.model, self.cpu_total


class NodeIndex:
    """The classes of one pool."""

    __slots__ = ("_classes", "_heaps", "_log")

    def __init__(self) -> None:
        self._classes: dict[tuple[object, ...], NodeClass] = {}
        self._log: list[NodeClass] = []
        self._heaps: dict[Shape, tuple[list[tuple[Score, int, NodeClass]], list[int]]] = {}

    def put(self, node: NodeState) -> None:
        """Note that the node's free amounts, or whether it may be used, have changed."""
        if not node.grantable:
            self.remove(node)
            return
        opens = tuple(sorted([max(0, device.free - device.nominated) for device in node.devices]))
        cpu, memory = node.cpu_free - node.cpu_nominated, node.memory_free - node.memory_nominated
        key = (node.model, cpu, memory, opens, node.cpu)
        if key == node.place:
            return
        self.remove(node)
        group = self._classes.get(key)
        if group is None:
            group = self._classes[key] = NodeClass(node.model, cpu, memory, opens, node.cpu)
        if not group.names:
            self._log.append(group)
        group.names.add(node.name)
        heapq.heappush(group.heap, node.name)
        node.place = key

    def remove(self, node: NodeState) -> None:
        """Forget the node."""
        if node.place is None:
            return
        group = self._classes[node.place]
        group.names.discard(node.name)
        node.place = None
        if not group.names:
            group.heap.clear()
            if len(self._log) > 2 * len(self._classes) + _LOG_SLACK:
                self._rewrite()

    def find(self, shape: Shape) -> str | None:
        """The name of the best node for one replica; None where no node can take it now."""
        heap, position = self._heaps.get(shape) or self._heaps.setdefault(shape, ([], [0]))
        for number in range(position[0], len(self._log)):
            group = self._log[number]
            if group.names and group.fits(shape):
                heapq.heappush(heap, (group.score(shape), number, group))
        position[0] = len(self._log)
        while heap and not heap[0][2].names:
            heapq.heappop(heap)
        return heap[0][2].first() if heap else None

    def _rewrite(self) -> None:
        self._classes = {key: group for key, group in self._classes.items() if group.names}
        self._log = list(self._classes.values())
        self._heaps.clear()
