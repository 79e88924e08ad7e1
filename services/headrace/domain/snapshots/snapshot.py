"""The whole state as bytes and back, and a copy of it: so no service has to read the ledger from its start, and any may look ahead.

Layout: a line that says what it is, the digest of what follows, and then, packed with zlib, the names of all classes and their fields,
and the objects of each class as columns (`columns`). A field that this release does not know is dropped, one that is missing takes its
default, and aids are made again (`graph`). Equal states give equal bytes.

`SCHEMA` says what a state is made of, and what facts mean to it. One of another schema is as good as none, unless `ALSO_READ` says that
it differs in nothing but what defaults make good: what a fold never gathered, no reader can add.
"""

from __future__ import annotations

import zlib
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.contracts.facts.levels import LEVEL
from headrace.domain.snapshots import state_schema
from headrace.domain.snapshots.columnar_codec import ColumnReader, ColumnWriter
from headrace.domain.snapshots.state_copy import Copier
from headrace.domain.state.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable

MAGIC = b"headrace snapshot 1\n"
FOLD = 3
"""Raised whenever a fact comes to mean something else to the fold, or a field holds something of another kind."""
_DIGEST = 32
_LEVEL = 1  # of zlib: half the time of its default, for a twentieth more bytes


def _shape() -> str:
    """A digest of all classes that may stand in a state, and of their fields."""
    lines = sorted(f"{name} {' '.join(sorted(state_schema.field_names(kind)))}" for name, kind in state_schema.CLASSES.items())
    return sha256("\n".join(lines).encode()).hexdigest()[:12]


SCHEMA = f"{FOLD}.{_shape()}"
ALSO_READ: frozenset[str] = frozenset()
"""Schemas of earlier releases whose snapshots this one reads as its own."""


def readable(schema: str) -> bool:
    """Whether a snapshot of that schema is one that this release may begin with."""
    return schema == SCHEMA or schema in ALSO_READ


class SnapshotError(ValueError):
    """The bytes are not a snapshot that can be trusted and read; the text says why."""


def dump(state: State) -> bytes:
    """The state as bytes. The state is left as it is; `UnknownSort` if it holds a class that is not declared."""
    writer = ColumnWriter()
    whole = writer.column([state])
    batches = list(writer.batches())
    classes = [(state_schema.name_of(kind), state_schema.field_names(kind)) for kind in writer.kinds]
    packed = zlib.compress(msgspec.msgpack.encode([classes, whole, batches]), _LEVEL)
    return MAGIC + sha256(packed).digest() + packed


def load(data: bytes) -> State:
    """The state that was dumped. `SnapshotError` for anything else."""
    if not data.startswith(MAGIC[:-2]):
        raise SnapshotError("these bytes are not a snapshot of Headrace")
    if not data.startswith(MAGIC):
        raise SnapshotError("the snapshot was written by another release, in a form that this one cannot read")
    body = data[len(MAGIC) + _DIGEST :]
    if sha256(body).digest() != data[len(MAGIC) : len(MAGIC) + _DIGEST]:
        raise SnapshotError("the snapshot is damaged or cut short: its digest is not that of its content")
    try:
        classes, whole, batches = msgspec.msgpack.decode(zlib.decompress(body))
        state = _read(ColumnReader(classes), whole, batches)
    except (ArithmeticError, LookupError, TypeError, ValueError, zlib.error) as error:
        raise SnapshotError(f"the snapshot cannot be read by this release: {error}") from error
    state_schema.rebuild(state)
    return state


def _read(reader: ColumnReader, whole: list[Any], batches: list[Any]) -> State:
    for number, count, _ in batches:
        kind = reader.kinds[number]
        reader.objects[number] += [None] * count if kind is None else state_schema.hollow(kind, count)
    filled = [0] * len(reader.kinds)
    for number, count, columns in batches:
        kind = reader.kinds[number]
        if kind is not None:
            objects = list(islice(reader.objects[number], filled[number], filled[number] + count))
            _fill(reader, objects, kind, dict(zip(reader.names[number], columns, strict=True)))
        filled[number] += count
    (state,) = reader.column(whole, 1)
    if not isinstance(state, State):
        raise TypeError("it holds no state")
    if state.terms.level > LEVEL:
        raise ValueError(f"it was taken at level {state.terms.level} of the facts, and this release reads up to {LEVEL}")
    return state


def _fill(reader: ColumnReader, objects: list[Any], kind: type, columns: dict[str, list[Any]]) -> None:
    truth = state_schema.field_names(kind)
    values: dict[str, Iterable[Any]] = {}
    for name, make in state_schema.defaults(kind):
        default = state_schema.stands(objects[0], name)
        if name in columns and name in truth:
            if not _is(reader.one_for_all(columns[name]), default):
                values[name] = reader.values(columns[name], len(objects))
        elif default is not state_schema.UNSAID:
            continue
        elif make is not None:
            values[name] = make()
        else:
            raise ValueError(f"it says nothing of {state_schema.name_of(kind)}.{name}, which has no default")
    state_schema.fill(objects, kind, values)


def _is(stored: object, default: object) -> bool:
    """Whether every object has that already; `False` is not 0."""
    return stored is not state_schema.UNSAID and type(stored) is type(default) and stored == default


def copy_of(state: State) -> State:
    """A state that says the same and shares no object with it: what happens to the one is not seen in the other.

    It stays apart from `Trial`, because facts are folded into the copy, and a fact has no inverse. A property holds a trial of grants equal
    to their fold in a copy (`tests/properties/test_trials.py`).
    """
    copied = Copier().copy(state)
    state_schema.rebuild(copied)
    return copied
