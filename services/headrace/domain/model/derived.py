"""What a field of the state may be besides truth: derived data, which can be made again, and the shared empty table."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

AID = MappingProxyType({"aid": True})
"""Marks a field as no truth but an aid to finding it fast: snapshots and copies leave it out, and begin with its default."""


class Nothing(dict[Any, Any]):
    """The empty table that all objects without entries share, because a million waiting jobs hold no leases. Writing in it is an error."""

    __slots__ = ()

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError("this empty table is shared: give the object one of its own first")

    update = __setitem__  # type: ignore[assignment]
    setdefault = __setitem__  # type: ignore[assignment]
    __ior__ = __setitem__  # type: ignore[assignment]


NOTHING = Nothing()


def nothing() -> Nothing:
    """The default of tables that are mostly empty."""
    return NOTHING
