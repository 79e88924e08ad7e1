"""Finding a node for one replica without looking at every node (R20), for one pool.

Nodes are kept in *sections* by what keeps a job out of, or sends it to, many of them at once (GPU model, dedication), and within a section
in *classes* of nodes that look alike. All of it is an aid and no truth: whatever happened before, the answers are those of a look at
every node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.domain.indexes.expected_use import Amount
from headrace.domain.indexes.fragmentation import Fragmentation
from headrace.domain.indexes.gpu_model_balance import Steering, site_of
from headrace.domain.indexes.node_classes import ClassKey, NodeClass, SectionTag, Shapes
from headrace.domain.indexes.shape_buckets import Seat, Section
from headrace.domain.model.dedication import COMMON, owner_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from headrace.contracts.documents.model import Pool
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.indexes.expected_use import Site
    from headrace.domain.indexes.slice_packing import SliceMix
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.requests import Shape


class NodeIndex:
    """The nodes of one pool on which something may be granted.

    `document`: the pool's own, which says whose its nodes are (R21); None: they are common. `has_spot`: one of them is, or was, a spot
    instance. Before that, a shape that may not run on those is the same as one that may. `steers`: jobs are sent to one kind of node
    rather than another, so that what nodes hold has to be counted (`hold`).
    """

    __slots__ = (
        "_mix",
        "_moved",
        "_numbers",
        "_seats",
        "_sections",
        "_shapes",
        "_supply",
        "_touched",
        "document",
        "has_spot",
        "steering",
        "steers",
    )

    def __init__(self, document: Pool | None = None) -> None:
        self.document = document
        self.has_spot = False
        self.steers = False
        self._mix = Fragmentation()
        self.steering = Steering()
        self._supply: dict[Site, Amount] | None = None
        self._shapes = Shapes()
        self._numbers: dict[Shape, int] = {}
        self._sections: dict[SectionTag, Section] = {}
        self._seats: dict[str, Seat] = {}
        self._moved: dict[str, NodeState] = {}
        self._touched: dict[str, NodeState] = {}

    def put(self, node: NodeState) -> None:
        """Note that the node's free amounts, its kind, or whether it may be used, have changed.

        It is brought up to date at the next question: what has changed back by then, or changed twice, costs little.
        """
        self._moved[node.name] = node
        if node.levels.spot and not self.has_spot:
            self.has_spot = True
            self._numbers = {shape: number for shape, number in self._numbers.items() if not shape.steady}

    def touch(self, node: NodeState) -> None:
        """Note that of the node nothing but what is free on it has changed."""
        self._touched[node.name] = node

    def _refresh(self) -> None:
        """Look at the nodes that have changed."""
        if self._moved:
            for node in self._moved.values():
                self._put(node)
            self._moved.clear()
        for name, node in self._touched.items():
            seat = self._seats.get(name)
            if seat is not None:
                seat.section.move(seat, _key(node))
        self._touched.clear()

    def _put(self, node: NodeState) -> None:
        if not node.grantable:
            self._remove(node)
            return
        seat, has, owner = self._seats.get(node.name), Amount(len(node.devices) * GPU_UNITS, node.cpu), self._owner(node)
        apart = (node.model, owner, node.levels)
        if seat is None or seat.has != has or (seat.section.tag.site.model, *seat.section.tag[1:]) != apart:
            self._remove(node)
            tag = SectionTag(site_of(node), owner, node.levels)
            section = self._sections.get(tag)
            if section is None:
                section = self._sections[tag] = Section(tag, self._shapes, self._mix)
            seat = self._seats[node.name] = section.enter(node.name, has)
            self._supply = None
        seat.section.move(seat, _key(node))

    def _owner(self, node: NodeState) -> str:
        return owner_of(self.document, node.labels) if self.document is not None else COMMON

    def remove(self, node: NodeState) -> None:
        """Forget the node and its shapes."""
        self._moved.pop(node.name, None)
        self._touched.pop(node.name, None)
        self._remove(node)

    def _remove(self, node: NodeState) -> None:
        seat = self._seats.pop(node.name, None)
        if seat is not None:
            seat.section.leave(seat)
            self._supply = None
            if seat.section.is_empty:
                del self._sections[seat.section.tag]

    def number(self, shape: Shape) -> int:
        """Which bit of `feasible` is the shape's (`1 << number`), until the first spot instance comes. A new shape is registered."""
        number = self._numbers.get(shape)
        if number is None and shape.steady and not self.has_spot:
            number = self._numbers[shape] = self.number(shape._replace(steady=False))
        elif number is None:
            number = self._numbers[shape] = len(self._shapes.all)
            self._shapes.all.append(shape)
            for section in self._sections.values():
                section.learn()
        return number

    def feasible(self, owners: Collection[str] | None = None) -> int:
        """Bits of the registered shapes with a replica that some node can take now; nodes of these owners only (R21), if given. Exact."""
        if self._touched or self._moved:
            self._refresh()
        mask = 0
        for section in self._sections.values():
            if owners is None or section.tag.owner in owners:
                mask |= section.feasible
        return mask

    def classes(self, shape: Shape) -> Iterator[NodeClass]:
        """The classes of nodes that the shape suits by model and isolation, whatever is free there."""
        if self._touched or self._moved:
            self._refresh()
        for section in self._sections.values():
            yield from (group for group in section.classes() if group.suits(shape))

    def class_of(self, name: str) -> NodeClass | None:
        """The class of a node, as of the last question about classes; None: the node is not here."""
        seat = self._seats.get(name)
        return seat.group if seat is not None else None

    def weigh(self, mix: Sequence[tuple[Shape, int]], *, amended: bool) -> None:
        """From now on places are compared for this mix of requests, each with its weight, and by R20 as it was `amended` or before that.

        Where that begins to steer, what nodes hold already has to be counted (`capacity.weigh`).
        """
        self._mix = Fragmentation(mix, amended=amended)
        self.steering.weigh(mix, amended=amended)
        self.steers = self.steering.is_on
        for section in self._sections.values():
            section.weigh(self._mix)

    @property
    def slices(self) -> SliceMix | None:
        """How slices are compared; None: by placements lost alone."""
        return self._mix.slices

    def device(self, name: str, shape: Shape) -> int:
        """What is open on the device that a fraction takes on this node, which has been found for it."""
        group = self._seats[name].group
        if group is None:
            raise AssertionError(f"{name} has no place in the index")
        _, _, device = group.rating(self.number(shape), shape, self._mix)
        return int(device)

    def find(self, shape: Shape, owners: Sequence[str] = (COMMON,)) -> str | None:
        """The name of the best node for one replica (R20), of the first of these owners that has one (R21); None: no node takes it now."""
        if self._touched or self._moved:
            self._refresh()
        number = self.number(shape)
        taking = [section for section in self._sections.values() if section.feasible >> number & 1]
        for owner in owners:
            sections = [section for section in taking if section.tag.owner == owner]
            if sections:
                break
        else:
            return None
        if len(sections) == 1:
            best = sections[0].best(number)
            return None if best is None else best[1]
        found = [best for section in self._steered(shape, sections) if (best := section.best(number)) is not None]
        return min(found)[1] if found else None

    def replicas(self, shape: Shape, owners: Collection[str] = (COMMON,)) -> dict[str, int]:
        """How many replicas each node takes now, of those that take one; nodes of these owners only (R21)."""
        number, found = self.number(shape), {}
        if self._touched or self._moved:
            self._refresh()
        for section in self._sections.values():
            if section.feasible >> number & 1 and section.tag.owner in owners:
                for group in section.classes():
                    if group.mask >> number & 1:
                        found.update(dict.fromkeys(group.names, group.replicas(shape)))
        return found

    def find_among(self, shape: Shape, owners: Sequence[str], names: Iterable[str]) -> str | None:
        """As `find`, on these nodes alone."""
        number = self.number(shape)
        if self._touched or self._moved:
            self._refresh()
        seats = [seat for name in names if (seat := self._seats.get(name)) is not None]
        groups = [(seat, group) for seat in seats if (group := seat.group) is not None and group.mask >> number & 1]
        for owner in owners:
            mine = [(seat, group) for seat, group in groups if group.tag.owner == owner]
            if mine:
                steered = set(self._steered(shape, list(dict.fromkeys(seat.section for seat, _ in mine))))
                return min(
                    (group.rating(number, shape, self._mix), seat.name) for seat, group in mine if seat.section in steered
                )[1]
        return None

    def _steered(self, shape: Shape, sections: list[Section]) -> list[Section]:
        """Of the sections that take the shape now, those it should go to."""
        if self._supply is None:
            self._supply = {}
            for section in self._sections.values():
                there = self._supply.get(section.tag.site, Amount(0, 0))
                self._supply[section.tag.site] = Amount(
                    *(one + other for one, other in zip(there, section.supply, strict=True))
                )
        sites = self.steering.choose(shape, [section.tag.site for section in sections], self._supply)
        return [section for section in sections if section.tag.site in sites]

    def hold(self, node: NodeState, shape: Shape, amounts: Amounts, sign: int) -> None:
        """A replica holds these amounts on the node now, or with sign -1 no more: for steering, which compares that with its plan."""
        self.steering.hold(node, shape, amounts, sign)


def _key(node: NodeState) -> ClassKey:
    if node.some_deny_units:
        return _mixed_key(node)
    opens = [device.free - device.nominated for device in node.devices]
    opens.sort()
    if opens and opens[0] < 0:  # of a device that came back smaller, more is kept than is free
        opens = [max(0, units) for units in opens]
    return ClassKey(node.cpu_open, node.memory_open, tuple(opens), ())


def _mixed_key(node: NodeState) -> ClassKey:
    """Of a node some of whose devices are, or were, in MIG mode, or are unfit."""
    opens = sorted(device.open for device in node.devices if not device.mig)
    mig = sorted((device.family, layout) for device in node.devices if (layout := device.layout) is not None)
    return ClassKey(node.cpu_open, node.memory_open, tuple(opens), tuple(mig))
