"""The forms of values in documents: each form reads what a person wrote, and writes it again.

Strategy: one table of forms per kind of document (in `reader`) serves both directions, so that reader and writer agree. A form raises on
what it cannot read; the collection around it notes the error with its path and continues, so that one pass finds all errors. Scenario
files are read with the same forms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import msgspec

from headrace.contracts.documents.tree import DocumentError, DocumentErrors, Path, Tree

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Complaint = tuple[Path, str]
"""An error that a check finds in a value that could be read: the path inside it, and the message."""


class FormError(ValueError):
    """The text is not of this form. Without a message: the errors are noted already, further in."""


class Reading:
    """One pass over one tree, and every error found so far."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.errors: list[DocumentError] = []

    def note(self, at: Path, error: ValueError | str) -> None:
        """Note an error at `at`."""
        if str(error):
            self.errors.append(self.tree.error(at, str(error)))


class Form(ABC, Generic[T]):
    """How one sort of value is written."""

    @abstractmethod
    def read(self, written: object, at: Path, reading: Reading) -> T:
        """The value. Raises ValueError with one line if it cannot be read, without one if `reading` has the errors already."""

    @abstractmethod
    def write(self, value: T) -> object:
        """The inverse: text, numbers, lists and mappings as a person would write them."""

    def identity(self, written: object) -> Hashable:  # noqa: ARG002  # most forms have no identity
        """What elements of one list must not share; None if they may be equal."""
        return None


def read_as(form: Form[T], tree: Tree, path: Path = ()) -> T:
    """The value of `form` at `path` of the tree. Raises DocumentErrors with all errors there."""
    reading = Reading(tree)
    written: Any = tree.value
    for part in path:
        written = written[part]
    try:
        value = form.read(written, path, reading)
    except ValueError as error:
        reading.note(path, error)
        raise DocumentErrors(reading.errors) from None
    if reading.errors:
        raise DocumentErrors(reading.errors)
    return value


class Scalar(Form[T]):
    """One word or number, read from text by `parse`, written again by `show`."""

    def __init__(self, parse: Callable[[str], T], example: str, show: Callable[[T], object] = lambda value: value) -> None:
        self.parse = parse
        self.example = example
        self.show = show

    def read(self, written: object, at: Path, reading: Reading) -> T:  # noqa: ARG002  # a word needs no path
        """The result of `parse` for the text."""
        if not isinstance(written, str):
            raise FormError(f"write {self.example}, not {_sort_of(written)}")
        return self.parse(written)

    def write(self, value: T) -> object:
        """The result of `show` for the value."""
        return self.show(value)

    def identity(self, written: object) -> Hashable:
        """The word itself, or None for a collection."""
        return written if isinstance(written, str) else None


class Several(Form[tuple[T, ...]]):
    """A list of at least `least` elements without duplicates, by the `identity` of its form."""

    def __init__(self, form: Form[T], least: int = 0) -> None:
        self.form = form
        self.least = least

    def read(self, written: object, at: Path, reading: Reading) -> tuple[T, ...]:
        """All elements; raises FormError if one is invalid."""
        if not isinstance(written, list):
            raise FormError(f"write a list such as [a, b], not {_sort_of(written)}")
        values: list[T] = []
        seen: dict[Hashable, int] = {}
        for index, child in enumerate(written):
            identity = self.form.identity(child)
            try:
                if identity is not None and seen.setdefault(identity, index) != index:
                    reading.note((*at, index), f"{_named(identity)} occurs twice in this list, first at [{seen[identity]}]")
                values.append(self.form.read(child, (*at, index), reading))
            except ValueError as error:
                reading.note((*at, index), error)
        if len(values) < len(written):
            raise FormError
        if len(values) < self.least:
            raise FormError(f"write at least {self.least} here")
        return tuple(values)

    def write(self, value: tuple[T, ...]) -> object:
        """The elements as a list."""
        return [self.form.write(element) for element in value]


class Table(Form[dict[str, T]]):
    """A mapping from names of the administrator's choice."""

    def __init__(self, form: Form[T], key: Callable[[str], str], example: str) -> None:
        self.form = form
        self.key = key
        self.example = example

    def read(self, written: object, at: Path, reading: Reading) -> dict[str, T]:
        """All entries; raises FormError if one is invalid."""
        if not isinstance(written, dict):
            raise FormError(f"write a mapping such as {self.example}, not {_sort_of(written)}")
        values: dict[str, T] = {}
        for key, child in written.items():
            try:
                values[self.key(key)] = self.form.read(child, (*at, key), reading)
            except ValueError as error:
                reading.note((*at, key), error)
        if len(values) < len(written):
            raise FormError
        return values

    def write(self, value: dict[str, T]) -> object:
        """A mapping, in the same order."""
        return {key: self.form.write(element) for key, element in value.items()}


class Shape(Form[S]):
    """A mapping with fixed keys, read into a struct. Attributes with a default may be omitted, and are omitted when written.

    `key` names the attributes that together are the name of the value, which is unique in a list.
    `written_as` maps attributes to keys that differ from their names; `defaults` are for attributes that may be omitted
    although the struct has no default. `check` finds errors that involve several fields. `short`, if given, is the
    attribute that may be written alone in place of the whole mapping.
    """

    def __init__(
        self,
        kind: type[S],
        forms: Mapping[str, Form[Any]],
        *,
        key: tuple[str, ...] = (),
        check: Callable[[S], Iterable[Complaint]] = lambda _value: (),
        written_as: Mapping[str, str] | None = None,
        defaults: Mapping[str, object] | None = None,
        short: str = "",
    ) -> None:
        names = written_as or {}
        self.own_defaults = dict(defaults or {})
        self.kind = kind
        self.key = key
        self.check = check
        self.short = short
        self.defaults = {field.name: _default_of(field) for field in msgspec.structs.fields(kind)} | self.own_defaults
        self.attributes = {names.get(name, name): name for name in forms}
        self.forms = {names.get(name, name): form for name, form in forms.items()}

    def read(self, written: object, at: Path, reading: Reading) -> S:
        """The struct; each unknown, missing or unreadable key is noted."""
        if self.short and isinstance(written, str):
            written = {self.short: written}
        if not isinstance(written, dict):
            raise FormError(f"write a mapping with the keys {', '.join(self.forms)}, not {_sort_of(written)}")
        errors_before = len(reading.errors)
        values: dict[str, Any] = {}
        for key, child in written.items():
            form = self.forms.get(key)
            try:
                if form is None:
                    raise FormError(_unknown(key, self.forms))
                values[self.attributes[key]] = form.read(child, (*at, key), reading)
            except ValueError as error:
                reading.note((*at, key), error)
        missing = [key for key, name in self.attributes.items() if self.defaults[name] is _REQUIRED and name not in values]
        for key in missing:
            if key not in written:
                reading.note(at, f"{key} is missing")
        unread = any(key in self.forms and self.attributes[key] not in values for key in written)
        if not missing and not unread:  # a default in place of an unreadable value would be reported as well
            value = self.kind(**(self.own_defaults | values))
            for place, message in self.check(value):
                reading.note((*at, *place), message)
        if missing or unread or len(reading.errors) > errors_before:
            raise FormError
        return value

    def identity(self, written: object) -> Hashable:
        """The parts of its name that are text; None if a part is missing."""
        mapping = {self.short: written} if isinstance(written, str) else written
        if not self.key or not isinstance(mapping, dict):
            return None
        name = tuple(mapping.get(part, self.defaults[part]) for part in self.key)
        return name if all(isinstance(part, str) for part in name) else None

    def write(self, value: S) -> object:
        """A mapping without the defaults; the short form if it says the same."""
        written = self.write_whole(value)
        return written[self.short] if written.keys() == {self.short} else written

    def write_whole(self, value: S) -> dict[str, object]:
        """A mapping without the defaults."""
        return {
            key: self.forms[key].write(part)
            for key, name in self.attributes.items()
            if (part := getattr(value, name)) != self.defaults[name]
        }


_REQUIRED = object()


def _default_of(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return _REQUIRED if field.default is msgspec.NODEFAULT else field.default


def _sort_of(written: object) -> str:
    return "a mapping" if isinstance(written, dict) else "a list" if isinstance(written, list) else repr(str(written)[:80])


def _named(identity: Hashable) -> str:
    return "/".join(part for part in identity if part) if isinstance(identity, tuple) else str(identity)


def _unknown(key: str, known: Iterable[str]) -> str:
    known = list(known)
    close = get_close_matches(key, known, n=1)
    return f"unknown key {key!r}; " + (f"did you mean {close[0]!r}?" if close else f"the keys here are {', '.join(known)}")
