"""A copy of the objects of a state, class by class and field by field; values that cannot change are shared."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, TypeVar

import msgspec

from headrace.domain.model.derived import Nothing
from headrace.domain.snapshots import state_schema

T = TypeVar("T")


class Copier:
    """One copy. `_twins` has the copy of each object by the id of its original, which the state keeps alive meanwhile."""

    def __init__(self) -> None:
        self._twins: dict[int, Any] = {}
        self._new: dict[type, list[Any]] = {}

    def copy(self, whole: T) -> T:
        """A copy of an object, and of all that it points at."""
        twin: T = self._value(whole)
        while self._new:
            kind, originals = self._new.popitem()
            self._fill(kind, originals, [self._twins[id(original)] for original in originals])
        return twin

    def _fill(self, kind: type, originals: list[Any], twins: list[Any]) -> None:
        truth = state_schema.field_names(kind)
        values = {
            name: self._column(state_schema.values_of(originals, kind, name)) if name in truth or make is None else make()
            for name, make in state_schema.defaults(kind)
        }
        state_schema.fill(twins, kind, values)

    def _column(self, values: list[Any]) -> list[Any]:
        kinds = set(map(type, values))
        if kinds <= _FIXED:
            return values
        if len(kinds) > 1:
            return list(map(self._value, values))
        (kind,) = kinds
        if kind is dict:
            return list(map(self._table, values))
        if kind in _CONTAINERS:
            return [kind(self._column(list(value))) if value else kind() for value in values]
        return self._twins_of(values, state_schema.known(kind))

    def _value(self, value: Any) -> Any:
        return self._column([value])[0]

    def _table(self, table: dict[Any, Any]) -> dict[Any, Any]:
        if not table:
            return {}
        keys = table if _FIXED.issuperset(map(type, table)) else self._column(list(table))
        return dict(zip(keys, self._column(list(table.values())), strict=True))

    def _twins_of(self, originals: list[Any], kind: type) -> list[Any]:
        twins = self._twins
        fresh = list({id(original): original for original in originals if id(original) not in twins}.values())
        if fresh:
            twins.update(zip(map(id, fresh), state_schema.hollow(kind, len(fresh)), strict=True))
            self._new.setdefault(kind, []).extend(fresh)
        return list(map(twins.__getitem__, map(id, originals)))


_CONTAINERS = frozenset({list, tuple, deque, set, frozenset})
_FIXED = state_schema.ATOMS | {
    Nothing,
    *(
        kind
        for kind in state_schema.CLASSES.values()
        if issubclass(kind, (msgspec.Struct, Enum)) or state_schema.is_named_tuple(kind)
    ),
}
"""What cannot change, or is never changed: facts' structs are frozen, and their dictionaries are never written."""
