"""The classes of the nodes of one tag, and for each shape the order in which they are good for it.

Strategy: *which* shapes fit anywhere is kept exactly, as the union of the sets of shapes that nodes take. Nodes are counted by set, and
there are few sets, because most nodes of a busy pool are full and most of an idle one are empty. *Where* a shape goes best is worked out
only when it is asked for: the line of a shape sorts the classes that fit it, and reads from a log which classes came into being since it
was last asked. A class that has emptied stays in the lines, and is as good as new when a node comes back (a trial undone costs no
sorting); a line drops it when it would be the answer. Classes, log and lines are cut back when they grow much longer than what is there.
Nothing here depends on what happened before, but the time it takes.
"""

from __future__ import annotations

import heapq
from bisect import insort
from typing import TYPE_CHECKING

from headrace.domain.indexes.expected_use import Amount
from headrace.domain.indexes.node_classes import ClassKey, NodeClass, Rating, SectionTag, Shapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.indexes.fragmentation import Fragmentation

SLACK = 4_096
"""Classes, log and lines may be this much longer than what is in use before they are cut back."""


class Seat:
    """A node's section, what it has when it is empty, and the class it stands in."""

    __slots__ = ("group", "has", "name", "section")

    def __init__(self, section: Section, name: str, has: Amount) -> None:
        self.has = has
        self.section = section
        self.name = name
        self.group: NodeClass | None = None


class _Line:
    """The classes that fit one shape, by how good they are. `position`: how much of the log, from its start, it has taken in."""

    __slots__ = ("classes", "heap", "length", "position")

    def __init__(self, position: int) -> None:
        self.heap: list[Rating] = []
        self.classes: dict[Rating, list[NodeClass]] = {}
        self.position = position
        self.length = 0

    def push(self, rating: Rating, group: NodeClass) -> None:
        alike = self.classes.get(rating)
        if alike is None:
            self.classes[rating] = [group]
            heapq.heappush(self.heap, rating)
        else:
            alike.append(group)
        self.length += 1


class Section:
    """The nodes of one tag. `shapes` is the index's own list of registered shapes, which grows.

    `feasible`: the bits of the shapes that some node here takes now.
    """

    __slots__ = ("_classes", "_log", "_mix", "_occupied", "_shapes", "_taking", "feasible", "lines", "supply", "tag")

    def __init__(self, tag: SectionTag, shapes: Shapes, mix: Fragmentation) -> None:
        self.tag = tag
        self._mix = mix
        self._shapes = shapes
        self._classes: dict[ClassKey, NodeClass] = {}
        self._occupied = 0
        self._log: list[NodeClass] = []
        self.lines: dict[int, _Line] = {}
        self._taking: dict[int, int] = {}  # set of shapes to the number of nodes that take these
        self.feasible = 0
        self.supply = Amount(0, 0)

    @property
    def is_empty(self) -> bool:
        """Whether no node is here."""
        return not self._taking

    def enter(self, name: str, has: Amount) -> Seat:
        """A seat for a node that comes in; it takes nothing before its first `move`."""
        self._count(0)
        self.supply = Amount(self.supply.gpu + has.gpu, self.supply.cpu + has.cpu)
        return Seat(self, name, has)

    def move(self, seat: Seat, key: ClassKey) -> None:
        """The node looks like this now."""
        before, took = seat.group, 0
        if before is not None:
            if before.key == key:
                return
            took = before.mask
            self._vacate(before, seat.name)
        group = self._classes.get(key)
        if group is None:
            group = self._make(key)
        if not group.names:
            self._occupy(group)
            group.names.append(seat.name)
        else:
            insort(group.names, seat.name)
        seat.group = group
        if took != group.mask:
            self._count(group.mask)
            self._discount(took)

    def leave(self, seat: Seat) -> None:
        """Remove the node from its bucket."""
        took = 0
        if seat.group is not None:
            took = seat.group.mask
            self._vacate(seat.group, seat.name)
            seat.group = None
        self._discount(took)
        self.supply = Amount(self.supply.gpu - seat.has.gpu, self.supply.cpu - seat.has.cpu)

    def learn(self) -> None:
        """A shape was registered: see who fits it."""
        for group in self.classes():
            took = group.mask
            group.learn(self._shapes)
            self._count(group.mask, len(group.names))
            self._discount(took, len(group.names))

    def weigh(self, mix: Fragmentation) -> None:
        """Another mix is in force: all lines begin anew."""
        self._mix = mix
        for number in list(self.lines):
            self._end_line(number)
        for group in self._classes.values():
            group.forget()

    def classes(self) -> Iterator[NodeClass]:
        """Those that nodes stand in now."""
        return (group for group in self._classes.values() if group.names)

    def best(self, number: int) -> tuple[Rating, str] | None:
        """The best node for the shape, and how good it is; of nodes equally good the smallest name. None if it fits nowhere."""
        line, bit = self._line(number), 1 << number
        while line.heap:
            rating = line.heap[0]
            alike = line.classes[rating]
            if len(alike) == 1 and (names := alike[0].names):
                return rating, names[0]
            live = [group for group in alike if group.names]
            if 2 * len(live) < len(alike):
                line.length -= len(alike) - len(live)
                for group in alike:
                    if not group.names:
                        _drop(group, bit)
                line.classes[rating] = live
            if live:
                return rating, live[0].names[0] if len(live) == 1 else min(group.names[0] for group in live)
            heapq.heappop(line.heap)
            del line.classes[rating]
        return None

    def _line(self, number: int) -> _Line:
        """The shape's line, with all classes that came into being since it was last asked for."""
        line = self.lines.get(number)
        if line is None or line.length > 2 * self._occupied + SLACK:
            return self._start_line(number)
        if line.position < len(self._log):
            shape, bit = self._shapes.all[number], 1 << number
            for group in self._log[line.position :]:
                if not group.names:
                    group.listed = False
                elif group.mask & bit and not group.lined & bit:
                    group.lined |= bit
                    line.push(group.rating(number, shape, self._mix), group)
            line.position = len(self._log)
        return line

    def _start_line(self, number: int) -> _Line:
        self._end_line(number)
        line = self.lines[number] = _Line(len(self._log))
        shape, bit = self._shapes.all[number], 1 << number
        for group in self._classes.values():
            if not group.names:
                group.listed = False
            elif group.mask & bit:
                group.lined |= bit
                line.push(group.rating(number, shape, self._mix), group)
        return line

    def _end_line(self, number: int) -> None:
        line, bit = self.lines.pop(number, None), 1 << number
        for alike in line.classes.values() if line is not None else ():
            for group in alike:
                _drop(group, bit)

    def _make(self, key: ClassKey) -> NodeClass:
        if len(self._classes) > 2 * self._occupied + SLACK:
            self._classes = {key: group for key, group in self._classes.items() if group.names}
        group = self._classes[key] = NodeClass(self.tag, key)
        return group

    def _occupy(self, group: NodeClass) -> None:
        self._occupied += 1
        if group.known < len(self._shapes.all):
            group.learn(self._shapes)
        if not group.listed:
            if len(self._log) > 2 * self._occupied + SLACK:
                self._cut_log()
            group.listed = True
            self._log.append(group)

    def _vacate(self, group: NodeClass, name: str) -> None:
        if len(group.names) == 1:
            group.names.clear()
            self._occupied -= 1
        else:
            group.leave(name)

    def _cut_log(self) -> None:
        """Forget the older half, and with it the lines that have not been asked for since."""
        half = len(self._log) // 2
        for number in [number for number, line in self.lines.items() if line.position < half]:
            self._end_line(number)
        for line in self.lines.values():
            line.position -= half
        del self._log[:half]

    def _count(self, mask: int, nodes: int = 1) -> None:
        """That many more nodes take these shapes."""
        self._taking[mask] = self._taking.get(mask, 0) + nodes
        self.feasible |= mask

    def _discount(self, mask: int, nodes: int = 1) -> None:
        """That many fewer nodes take these shapes."""
        left = self._taking[mask] - nodes
        if left:
            self._taking[mask] = left
            return
        del self._taking[mask]
        for other in self._taking:
            mask &= ~other
            if not mask:
                return
        self.feasible &= ~mask


def _drop(group: NodeClass, bit: int) -> None:
    """The class is in the line of this shape no more; it goes to the log again when a node comes back."""
    group.lined &= ~bit
    if not group.names:
        group.listed = False
