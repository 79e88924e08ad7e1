"""The language of filters, a part of Google's AIP-160. Pure.

    state = "pending" AND (queue = "ai-dev/half" OR labels.team : "vision") AND NOT priority < 10

Strategy: one pass makes a tree of closures over `look`, which returns the values of a field; if both sides are numbers they are compared
as numbers, otherwise as text. Length and nesting of a filter are bounded before it is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from decimal import Decimal

from headrace.governance.api.errors import ApiError, invalid, shown

LENGTH_MAX = 2_000
DEPTH_MAX = 20

FieldLookup = Callable[[str], Collection[str]]
"""The values of a field, as text: one, several of a list, none if the field is unset."""

Filter = Callable[[FieldLookup], bool]

_TOKEN = re.compile(r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<mark>!=|<=|>=|[=<>:()])|(?P<word>[^\s"=<>!:()]+))')
_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_FIELD = re.compile(r"[a-z_][a-z0-9_]*(?:\.[A-Za-z0-9_/-]+)*")
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", ":"})


def parse(text: str, fields: Collection[str]) -> Filter | None:
    """The filter; None for an empty text. `fields`: the fields that can be used. Raises ApiError."""
    if not text.strip():
        return None
    if len(text) > LENGTH_MAX:
        raise _wrong(f"at most {LENGTH_MAX} characters")
    reading = _Parser(list(_tokens(text)), frozenset(fields))
    found = reading.any_of(0)
    if reading.rest:
        raise _wrong(f"{shown(reading.rest[0][1])!r} is not expected here; join comparisons by AND or OR")
    return found


def _wrong(message: str) -> ApiError:
    return invalid("filter", message, "INVALID_FILTER")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of each token."""
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong(f"{shown(text[at : at + 20])!r} cannot be read; write text in double quotes")
        at = match.end()
        if match["text"] is not None:
            yield "text", re.sub(r"\\(.)", r"\1", match["text"][1:-1])
        elif match["mark"] is not None:
            yield "mark", match["mark"]
        else:
            yield "word", match["word"]


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]], fields: frozenset[str]) -> None:
        self.rest = tokens
        self._fields = fields

    def any_of(self, depth: int) -> Filter:
        parts = [self._all_of(depth)]
        while self._took("OR"):
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else lambda lookup: any(part(lookup) for part in parts)

    def _all_of(self, depth: int) -> Filter:
        parts = [self._one(depth)]
        while self._took("AND"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else lambda lookup: all(part(lookup) for part in parts)

    def _one(self, depth: int) -> Filter:
        if depth > DEPTH_MAX:
            raise _wrong(f"it is nested deeper than {DEPTH_MAX} levels")
        if self._took("NOT"):
            inner = self._one(depth + 1)
            return lambda lookup: not inner(lookup)
        if self.rest and self.rest[0] == ("mark", "("):
            del self.rest[0]
            found = self.any_of(depth + 1)
            if not self.rest or self.rest[0] != ("mark", ")"):
                raise _wrong("a parenthesis is not closed")
            del self.rest[0]
            return found
        return self._comparison()

    def _comparison(self) -> Filter:
        if len(self.rest) < 3 or self.rest[0][0] != "word" or self.rest[1][0] != "mark":
            raise _wrong('write comparisons such as state = "pending"')
        (_, field), (_, mark), (kind, value) = self.rest[:3]
        del self.rest[:3]
        if mark not in _COMPARISONS or kind == "mark":
            raise _wrong(f"behind {shown(field)!r} write one of {' '.join(sorted(_COMPARISONS))} and a value")
        if not _FIELD.fullmatch(field) or field.partition(".")[0] not in self._fields:
            raise _wrong(f"there is no field {shown(field)!r}; there are {', '.join(sorted(self._fields))}")
        return _compare(field, mark, value)

    def _took(self, word: str) -> bool:
        if self.rest and self.rest[0] == ("word", word):
            del self.rest[0]
            return True
        return False


def _compare(field: str, mark: str, value: str) -> Filter:
    if mark == ":":
        return lambda lookup: any(value in ("*", found) or (value != "" and value in found) for found in lookup(field))
    if mark == "!=":
        return lambda lookup: value not in lookup(field)
    if mark == "=":
        return lambda lookup: value in lookup(field) or (value == "" and not lookup(field))
    return lambda lookup: any(_ordered(found, mark, value) for found in lookup(field))


def _ordered(found: str, mark: str, value: str) -> bool:
    left: Decimal | str = found
    right: Decimal | str = value
    if _NUMBER.fullmatch(found) and _NUMBER.fullmatch(value):
        left, right = Decimal(found), Decimal(value)
    less, equal = left < right, left == right  # type: ignore[operator]  # both are numbers, or both are text
    return {"<": less, "<=": less or equal, ">": not less and not equal, ">=": not less}[mark]
