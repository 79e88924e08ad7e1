"""Many values of one kind as one column of plain arrays, and back: how a snapshot is laid out.

A column is `[form, ...]`: what all values have in common is stored once, and what is left is again columns, down to arrays of integers and
of text. So a million jobs are some forty arrays, which pack well and are read without looking at single jobs. Whole numbers are written
as differences where that makes them smaller; words that repeat are written once.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from itertools import accumulate, chain, islice, repeat
from itertools import count as numbers_from
from operator import attrgetter, itemgetter, sub
from typing import TYPE_CHECKING, Any

from headrace.domain.model.derived import NOTHING, Nothing
from headrace.domain.snapshots import state_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NONE, SAME, PLAIN, STEPS, CHOICE, ENUM, REFS, RECORD, TUPLE, RUNS, TABLE, EMPTY, MIXED = range(13)
"""The forms of a column; the numbers stand in snapshots and keep their meaning."""

_LOOKED_AT = 1_000
"""Values by which many are judged."""

_CONTAINERS: tuple[type, ...] = (list, tuple, deque, set, frozenset)


class ColumnWriter:
    """Turns values into columns; collects the objects that they point at, class by class, each once."""

    def __init__(self) -> None:
        self.kinds: list[type] = []
        self._number_of: dict[type, int] = {}
        self._objects: dict[type, list[Any]] = {}
        self._places: dict[int, int] = {}
        self._written: dict[type, int] = {}

    def batches(self) -> Iterator[list[Any]]:
        """`[class, how many, columns]` of all objects pointed at, and of those that they point at, to the end."""
        while True:
            kind = next((kind for kind, found in self._objects.items() if len(found) > self._written.get(kind, 0)), None)
            if kind is None:
                return
            objects = self._objects[kind][self._written.get(kind, 0) :]
            self._written[kind] = len(self._objects[kind])
            columns = [self.column(state_schema.values_of(objects, kind, name)) for name in state_schema.field_names(kind)]
            yield [self._number(kind), len(objects), columns]

    def column(self, values: list[Any]) -> list[Any]:
        """The values as one column; `UnknownSort` for a class that is not declared."""
        kinds = dict.fromkeys(map(type, values))
        if len(kinds) != 1:
            return self._mixed(values, list(kinds))
        (kind,) = kinds
        if kind in state_schema.ATOMS:
            return _atoms(values, kind)
        if kind in _CONTAINERS:
            return self._sequences(values, kind)
        if kind is dict:
            return self._tables(values)
        if kind is Nothing:
            return [EMPTY]
        return self._declared(values, state_schema.known(kind))

    def _declared(self, values: list[Any], kind: type) -> list[Any]:
        if state_schema.is_object(kind):
            return [REFS, self._number(kind), _integers(self._pointers(values, kind))]
        if issubclass(kind, Enum):
            return [ENUM, self._number(kind), self.column(list(map(attrgetter("_value_"), values)))]
        names = state_schema.field_names(kind)
        return [RECORD, self._number(kind), [self.column(list(map(attrgetter(name), values))) for name in names]]

    def _pointers(self, values: list[Any], kind: type) -> list[int]:
        places, objects = self._places, self._objects.setdefault(kind, [])
        pointers = list(map(id, values))
        new = dict(zip(pointers, values, strict=True))
        for known in places.keys() & new.keys():
            del new[known]
        places.update(zip(new, numbers_from(len(objects))))
        objects += new.values()
        return list(map(places.__getitem__, pointers))

    def _sequences(self, values: list[Any], kind: type) -> list[Any]:
        if kind in (set, frozenset):
            values = list(map(sorted, values))
        lengths = list(map(len, values))
        width = lengths[0]
        if kind is tuple and lengths.count(width) == len(lengths):
            return [TUPLE, [self.column(list(map(itemgetter(place), values))) for place in range(width)]]
        return [RUNS, _CONTAINERS.index(kind), _integers(lengths), self.column(list(chain.from_iterable(values)))]

    def _tables(self, values: list[dict[Any, Any]]) -> list[Any]:
        """Amounts, labels, charges are sorted: a trial that is undone may leave them in another order. Tables of objects are as folded."""
        keys, children = list(chain.from_iterable(values)), list(chain.from_iterable(map(dict.values, values)))
        if state_schema.ATOMS.issuperset(map(type, children)) and _are_names(keys):
            items = list(chain.from_iterable(map(sorted, map(dict.items, values))))
            keys, children = list(map(itemgetter(0), items)), list(map(itemgetter(1), items))
        return [TABLE, _integers(list(map(len, values))), self.column(keys), self.column(children)]

    def _mixed(self, values: list[Any], kinds: list[type]) -> list[Any]:
        kinds.sort(key=state_schema.name_of)
        which = {kind: number for number, kind in enumerate(kinds)}
        parts: list[list[Any]] = [[] for _ in kinds]
        for value in values:
            parts[which[type(value)]].append(value)
        return [MIXED, _integers([which[type(value)] for value in values]), list(map(self.column, parts))]

    def _number(self, kind: type) -> int:
        number = self._number_of.get(kind)
        if number is None:
            number = self._number_of[kind] = len(self.kinds)
            self.kinds.append(kind)
        return number


def _are_names(keys: list[Any]) -> bool:
    """Whether all are strings, or all of them tuples of strings."""
    kinds = set(map(type, keys))
    return kinds == {str} or (kinds == {tuple} and set(map(type, chain.from_iterable(keys))) == {str})


def _atoms(values: list[Any], kind: type) -> list[Any]:
    if kind is type(None):
        return [NONE]
    if values.count(values[0]) == len(values):
        return [SAME, values[0]]
    if kind is int:
        return _integers(values)
    some = values[:: max(1, len(values) // _LOOKED_AT)]
    # Ids, digests: no need to look at all of a million to see that they differ.
    if 2 * len(set(some)) > len(some) >= _LOOKED_AT:
        return [PLAIN, values]
    distinct = dict(zip(dict.fromkeys(values), numbers_from()))
    if 4 * len(distinct) <= len(values):
        return [CHOICE, list(distinct), _integers(list(map(distinct.__getitem__, values)))]
    return [PLAIN, values]


def _integers(values: list[int]) -> list[Any]:
    if values and values.count(values[0]) == len(values):
        return [SAME, values[0]]
    steps = [*values[:1], *map(sub, values[1:], values)]
    return [STEPS, steps] if sum(map(abs, steps)) < sum(map(abs, values)) else [PLAIN, values]


class ColumnReader:
    """The inverse of `ColumnWriter`. `objects` are the objects of each class, made but perhaps still empty; None: a class unknown here."""

    def __init__(self, header: list[tuple[str, list[str]]]) -> None:
        self.kinds = [state_schema.CLASSES.get(name) for name, _ in header]
        self.names = [names for _, names in header]
        self.objects: list[list[Any]] = [[] for _ in header]
        self._forms: list[Callable[..., Iterable[Any]]] = [
            self._none, self._same, self._plain, self._steps, self._choice, self._enum, self._refs, self._record, self._tuple,
            self._runs, self._table, self._empty, self._mixed,
        ]  # fmt: skip

    def column(self, column: list[Any], count: int) -> list[Any]:
        """The values of a column of `count`."""
        return list(self.values(column, count))

    def values(self, column: list[Any], count: int) -> Iterable[Any]:
        """The same to be gone through once: most columns then never stand in memory."""
        values: Iterable[Any] = self._forms[column[0]](count, *column[1:])
        return values

    def one_for_all(self, column: list[Any]) -> Any:
        """What all values of a column are, where that is stored once; else `state_schema.UNSAID`."""
        form = column[0]
        if form == SAME:
            return column[1]
        if form == TUPLE and not column[1]:
            return ()
        return {NONE: None, EMPTY: NOTHING}.get(form, state_schema.UNSAID)

    def _none(self, count: int) -> Iterable[Any]:
        return repeat(None, count)

    def _same(self, count: int, value: Any) -> Iterable[Any]:
        return repeat(value, count)

    def _plain(self, count: int, values: list[Any]) -> Iterable[Any]:  # noqa: ARG002  # an array knows its length
        return values

    def _steps(self, count: int, steps: list[int]) -> Iterable[Any]:  # noqa: ARG002
        return accumulate(steps)

    def _choice(self, count: int, distinct: list[Any], which: list[Any]) -> Iterable[Any]:
        return map(distinct.__getitem__, self.values(which, count))

    def _enum(self, count: int, number: int, values: list[Any]) -> Iterable[Any]:
        kind = self.kinds[number]
        if kind is None:
            return repeat(None, count)
        written = self.column(values, count)
        members = {value: kind(value) for value in set(written)}
        return map(members.__getitem__, written)

    def _refs(self, count: int, number: int, places: list[Any]) -> Iterable[Any]:
        return map(self.objects[number].__getitem__, self.values(places, count))

    def _record(self, count: int, number: int, columns: list[Any]) -> Iterable[Any]:
        kind = self.kinds[number]
        if kind is None:
            return repeat(None, count)
        here = state_schema.field_names(kind)
        given = {
            name: self.column(column, count) for name, column in zip(self.names[number], columns, strict=True) if name in here
        }
        if not given:
            return (kind() for _ in range(count))
        return (kind(**dict(zip(given, row, strict=True))) for row in zip(*given.values(), strict=True))

    def _tuple(self, count: int, columns: list[Any]) -> Iterable[Any]:
        if not columns:
            return repeat((), count)
        return zip(*(self.values(column, count) for column in columns), strict=True)

    def _runs(self, count: int, kind: int, lengths: list[Any], flat: list[Any]) -> Iterable[Any]:
        spans, make = self.column(lengths, count), _CONTAINERS[kind]
        values = iter(self.values(flat, sum(spans)))
        return [make(islice(values, span)) if span else make() for span in spans]

    def _table(self, count: int, lengths: list[Any], keys: list[Any], children: list[Any]) -> Iterable[Any]:
        spans = self.column(lengths, count)
        total = sum(spans)
        items = zip(self.values(keys, total), self.values(children, total), strict=True)
        return [dict(islice(items, span)) if span else {} for span in spans]

    def _empty(self, count: int) -> Iterable[Any]:
        return repeat(NOTHING, count)

    def _mixed(self, count: int, which: list[Any], parts: list[Any]) -> Iterable[Any]:
        places = self.column(which, count)
        values = [iter(self.values(part, places.count(number))) for number, part in enumerate(parts)]
        return (next(values[place]) for place in places)
