"""The classes of the nodes of one tag, and for each shape the order in which they are good for it.

Strategy: *which* shapes fit anywhere is kept exactly, by a tree over the nodes whose root is the union of what each can take; a change
walks up until nothing changes. *Where* a shape goes best is worked out only when it is asked for: the line of a shape sorts the classes
that fit it, and reads from a log which classes came into being since it was last asked. A class that has emptied stays in the lines, and
is as good as new when a node comes back (a trial undone costs no sorting); a line drops it when it would be the answer. Classes, log and
lines are cut back when they grow much longer than what is there. Nothing here depends on what happened before, but the time it takes.
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
    """A node's leaf in the tree, what it has when it is empty, and the class it stands in."""

    __slots__ = ("group", "has", "leaf", "name", "section")

    def __init__(self, section: Section, name: str, leaf: int, has: Amount) -> None:
        self.has = has
        self.section = section
        self.name = name
        self.leaf = leaf
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
    """The nodes of one tag. `shapes` is the index's own list of registered shapes, which grows."""

    __slots__ = ("_classes", "_lines", "_log", "_mix", "_occupied", "_seats", "_shapes", "_spare", "_tree", "supply", "tag")

    def __init__(self, tag: SectionTag, shapes: Shapes, mix: Fragmentation) -> None:
        self.tag = tag
        self._mix = mix
        self._shapes = shapes
        self._classes: dict[ClassKey, NodeClass] = {}
        self._occupied = 0
        self._log: list[NodeClass] = []
        self._lines: dict[int, _Line] = {}
        self._seats: list[Seat | None] = []
        self._spare: list[int] = []
        self._tree = [0, 0]
        self.supply = Amount(0, 0)

    @property
    def feasible(self) -> int:
        """The bits of the shapes that some node here takes now."""
        return self._tree[1]

    @property
    def is_empty(self) -> bool:
        """Whether no node is here."""
        return len(self._spare) == len(self._seats)

    def enter(self, name: str, has: Amount) -> Seat:
        """A seat for a node that comes in; it takes nothing before its first `move`."""
        if not self._spare:
            self._spare.append(len(self._seats))
            self._seats.append(None)
            if len(self._seats) > len(self._tree) // 2:
                self._plant()
        seat = Seat(self, name, self._spare.pop(), has)
        self._seats[seat.leaf] = seat
        self.supply = Amount(self.supply.gpu + has.gpu, self.supply.cpu + has.cpu)
        return seat

    def move(self, seat: Seat, key: ClassKey) -> None:
        """The node looks like this now."""
        if seat.group is not None:
            if seat.group.key == key:
                return
            self._vacate(seat.group, seat.name)
        group = self._classes.get(key)
        if group is None:
            group = self._make(key)
        if not group.names:
            self._occupy(group)
            group.names.append(seat.name)
        else:
            insort(group.names, seat.name)
        seat.group = group
        if self._tree[seat.leaf + len(self._tree) // 2] != group.mask:
            self._set_leaf(seat.leaf, group.mask)

    def leave(self, seat: Seat) -> None:
        """Remove the node from its bucket."""
        if seat.group is not None:
            self._vacate(seat.group, seat.name)
            seat.group = None
        self._set_leaf(seat.leaf, 0)
        self._seats[seat.leaf] = None
        self.supply = Amount(self.supply.gpu - seat.has.gpu, self.supply.cpu - seat.has.cpu)
        self._spare.append(seat.leaf)

    def learn(self) -> None:
        """A shape was registered: see who fits it."""
        for group in self._classes.values():
            if group.names:
                group.learn(self._shapes)
        self._plant()

    def weigh(self, mix: Fragmentation) -> None:
        """Another mix is in force: all lines begin anew."""
        self._mix = mix
        for number in list(self._lines):
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
        line = self._lines.get(number)
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
        line = self._lines[number] = _Line(len(self._log))
        shape, bit = self._shapes.all[number], 1 << number
        for group in self._classes.values():
            if not group.names:
                group.listed = False
            elif group.mask & bit:
                group.lined |= bit
                line.push(group.rating(number, shape, self._mix), group)
        return line

    def _end_line(self, number: int) -> None:
        line, bit = self._lines.pop(number, None), 1 << number
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
        for number in [number for number, line in self._lines.items() if line.position < half]:
            self._end_line(number)
        for line in self._lines.values():
            line.position -= half
        del self._log[:half]

    def _set_leaf(self, leaf: int, mask: int) -> None:
        tree = self._tree
        at = leaf + len(tree) // 2
        while at and tree[at] != mask:
            tree[at] = mask
            mask |= tree[at ^ 1]
            at >>= 1

    def _plant(self) -> None:
        """Build the tree again, with at least one leaf for each seat."""
        size = max(1, len(self._tree) // 2)
        while size < len(self._seats):
            size *= 2
        leaves = [seat.group.mask if seat is not None and seat.group is not None else 0 for seat in self._seats]
        tree = [0] * size + leaves + [0] * (size - len(leaves))
        for at in range(size - 1, 0, -1):
            tree[at] = tree[2 * at] | tree[2 * at + 1]
        self._tree = tree


def _drop(group: NodeClass, bit: int) -> None:
    """The class is in the line of this shape no more; it goes to the log again when a node comes back."""
    group.lined &= ~bit
    if not group.names:
        group.listed = False
