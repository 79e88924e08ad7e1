"""Deciders whose every decision is held to leave the state as it is.

`Whole` reads every field of every object that the state reaches, indexes and aids included, but for `MEMOS`: each of those is worked out
when it is first asked for, and is the same for every caller. Order in tables is left out, because no decision depends on it
(`test_determinism`), and a trial that is undone may leave another.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from operator import attrgetter
from types import GetSetDescriptorType, MemberDescriptorType, NoneType
from typing import Any, Protocol

from headrace.contracts.facts.writers import ADMISSION
from headrace.domain.indexes.fragmentation import Fragmentation
from headrace.domain.indexes.gpu_model_balance import Steering
from headrace.domain.indexes.node_classes import Shapes
from headrace.domain.indexes.node_index import NodeIndex
from headrace.domain.indexes.pending import JobGroup, Pending
from headrace.domain.indexes.running_index import GrantBlock, RunningIndex
from headrace.domain.model.deadlines import Deadlines
from headrace.domain.model.jobs import PolicyState
from headrace.domain.model.nodes import NodeState
from headrace.domain.state.state import State
from headrace.simulate.world import World

MEMOS: dict[type, frozenset[str]] = {
    State: frozenset({"job_ids"}),  # made at the first look for an id, then kept by the fold
    Pending: frozenset({"changes"}),  # the reader's own: what it has to look at again
    JobGroup: frozenset({"_places", "heap", "lines"}),  # entries of jobs that have left go when they come to the front
    Deadlines: frozenset({"_heap"}),  # the same
    PolicyState: frozenset({"share_base", "totals"}),
    NodeState: frozenset({"by_name"}),
    GrantBlock: frozenset({"_span"}),
    RunningIndex: frozenset({"_buckets", "_places", "_put"}),
    NodeIndex: frozenset(
        {"_moved", "_numbers", "_seats", "_sections", "_supply", "_touched"}
    ),  # looks at nodes when it is asked
    Shapes: frozenset({"_counted", "_of_tag", "_slices", "_steps", "all"}),  # shapes that were asked about
    Fragmentation: frozenset({"_by_cpu", "_by_memory", "_models", "_ways", "slices"}),
    Steering: frozenset({"_cells", "_planned"}),
}
"""Class to the fields that are worked out when they are first asked for."""

ANSWERS: dict[type, Callable[[Any], Any]] = {RunningIndex: lambda index: index.by_pool, JobGroup: lambda group: group.places()}
"""Class to what its memos answer, which is compared in their place: a decision may not change what was worked out before it."""

EMPTY: dict[Any, Any] = {}


class Kinds(dict[type, str]):
    """How the values of each class are read: found at the first, because there are millions."""

    def __missing__(self, kind: type) -> str:
        plain = issubclass(kind, (NoneType, bool, int, str, bytes, Enum))
        kinds = {"table": dict, "set": (set, frozenset), "row": (list, tuple, deque, array)}
        self[kind] = "plain" if plain else next((name for name, of in kinds.items() if issubclass(kind, of)), "object")
        return self[kind]


KINDS = Kinds()


@cache
def stored(kind: type) -> tuple[str, ...]:
    """The fields of a class, machine code or not, without memos."""
    found: dict[str, None] = {}
    for base in kind.__mro__:
        slots = (name for name, what in vars(base).items() if isinstance(what, (MemberDescriptorType, GetSetDescriptorType)))
        found |= dict.fromkeys(getattr(base, "__mypyc_attrs__", slots))
    return tuple(name for name in found if not name.startswith("__") and name not in MEMOS.get(kind, ()))


@cache
def reader(kind: type) -> Callable[[Any], Iterable[Any]]:
    """What reads the values of the fields of a class, in the order of `compared`."""
    names = stored(kind)
    if kind is Steering:
        return lambda thing: [nonzero(thing.held) if name == "held" else getattr(thing, name) for name in names]
    if kind in ANSWERS:
        answer = ANSWERS[kind]
        return lambda thing: [*(getattr(thing, name) for name in names), answer(thing)]
    if len(names) < 2:
        return lambda thing: [getattr(thing, name) for name in names]
    return attrgetter(*names)


def nonzero(cells: dict[Any, list[int]]) -> dict[Any, list[int]]:
    """A cell that holds 0 says what one says that is not there."""
    return {key: cell for key, cell in cells.items() if cell != [0]}


def compared(kind: type) -> tuple[str, ...]:
    """The names of the values that are compared of a class."""
    return (*stored(kind), "answer") if kind in ANSWERS else stored(kind)


class Whole:
    """Every object of a state by its identity, with its fields by value; where they hold objects, by the identity of those."""

    def __init__(self, state: State) -> None:
        self.objects: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        self._seen: set[int] = set()
        self._ahead: list[Any] = []
        self._see(state)
        while self._ahead:
            thing = self._ahead.pop()
            self.objects[id(thing)] = (thing, self._values(reader(type(thing))(thing)))

    def _see(self, thing: Any) -> tuple[str, int]:
        number = id(thing)
        if number not in self._seen:
            self._seen.add(number)
            self._ahead.append(thing)
        return "object", number

    def _values(self, values: Iterable[Any]) -> tuple[Any, ...]:
        kinds, read = KINDS, self._value
        return tuple([value if kinds[type(value)] == "plain" else read(value) for value in values])

    def _value(self, value: Any) -> Any:
        kind = KINDS[type(value)]
        if kind == "table":
            return dict(zip(self._values(value), self._values(value.values()), strict=True)) if value else EMPTY
        if kind == "row":
            return type(value).__name__, self._values(value)
        if kind == "set":
            return frozenset(self._values(value))
        return self._see(value)

    def since(self, before: Whole) -> list[str]:
        """Where it is not as it was before: a line for each field, `Class.field: before -> after`."""
        known = before.objects
        lines = [f"{type(thing).__name__} is new" for number, (thing, _) in self.objects.items() if number not in known]
        lines += [f"{type(thing).__name__} is gone" for number, (thing, _) in known.items() if number not in self.objects]
        for number in self.objects.keys() & known.keys():
            (thing, now), was = self.objects[number], known[number][1]
            if now != was:
                fields = zip(compared(type(thing)), was, now, strict=True)
                lines += [f"{type(thing).__name__}.{name}: {old} -> {new}" for name, old, new in fields if old != new]
        return sorted(lines)


class Decides(Protocol):
    """A decider of a world, or of a service."""

    def decide(self, now: int) -> Any:
        """What to state now."""

    def next_wakeup(self) -> int | None:
        """When it has to be asked again."""


def fail(line: str) -> None:
    """A changed state fails the test."""
    raise AssertionError(line)


class Comparing:
    """What a state was before one or more decisions, and who decided since; `report` is called with each field that has changed meanwhile.

    Those who state nothing need not be told apart while it holds: the state is read again at the latest before anything else changes it.
    """

    def __init__(self, state: State, report: Callable[[str], None] = fail) -> None:
        self._state, self._report = state, report
        self._at = -1, -1
        self._before: Whole | None = None
        self._deciders: dict[str, None] = {}

    def begin(self, by: str, now: int) -> None:
        """Someone decides. The state is not read again if no record was folded, and no time has passed, since it was read."""
        self._state.pass_time(now)
        if self._before is None or self._at != (self._state.sequence, now):
            self._before, self._at = Whole(self._state), (self._state.sequence, now)
        self._deciders[by] = None

    def end(self) -> None:
        """Hold the state against what it was, if there was a decision since."""
        if not self._deciders:
            return
        assert self._before is not None
        after = Whole(self._state)
        for line in after.since(self._before):
            self._report(f"a decision of {' or '.join(self._deciders)} changed the state: {line}")
        self._before = after
        self._deciders.clear()


class Unchanged:
    """A decider over a state. `report` is called with each field that its decisions change.

    `comparing`: shared by the deciders of a state. Who lets them decide ends it before anything else changes the state (`hold_unchanged`).
    """

    def __init__(
        self, by: str, decider: Decides, state: State, report: Callable[[str], None] = fail, comparing: Comparing | None = None
    ) -> None:
        self.by, self.decider = by, decider
        self.asked = 0
        self._is_alone = comparing is None
        self._comparing = Comparing(state, report) if comparing is None else comparing

    def decide(self, now: int) -> Any:
        self.asked += 1
        self._comparing.begin(self.by, now)
        decided = self.decider.decide(now)
        moment = self.next_wakeup()
        if self._is_alone or decided:
            self._comparing.end()
        assert self.next_wakeup() == moment
        return decided

    def next_wakeup(self) -> int | None:
        return self.decider.next_wakeup()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.decider, name)


def hold_unchanged(world: World) -> list[Unchanged]:
    """Put all deciders of the world under watch."""
    comparing = Comparing(world.state)
    held = {by: Unchanged(by, decider, world.state, comparing=comparing) for by, decider in world.deciders.items()}
    world.deciders |= held
    world.admission = Unchanged(ADMISSION, world.admission, world.state, comparing=comparing)
    append, run_until_stable = world.append, world.run_until_stable

    def appended(by: str, facts: Iterable[Any]) -> bool:
        stated = tuple(facts)
        if stated:
            comparing.end()
        return append(by, stated)

    def run() -> None:
        run_until_stable()
        comparing.end()

    world.append, world.run_until_stable = appended, run  # type: ignore[method-assign]
    return [world.admission, *held.values()]
