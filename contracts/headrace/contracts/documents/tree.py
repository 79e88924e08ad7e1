"""The uninterpreted content of a document: a tree in which every scalar is text, and the line of each part.

Quantities are never floats (R1): `0.1` stays the text `0.1` from the file to `parse_amount`. `yaml_text` makes trees from
files, `tree_of` from decoded JSON; `forms` interprets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

Path = tuple[str | int, ...]
"""The path to one part of a tree: `("policies", 0, "limit", "gpu")`."""

DEPTH_MAX = 32
NUMBER_BITS_MAX = 128


class DocumentError(NamedTuple):
    """One error: the path, and one line with the problem and the way out. `line` counts from 1, None if unknown."""

    path: str
    line: int | None
    message: str

    def __str__(self) -> str:
        """The error as text: `line 3: policies[0].limit.gpu: ...`."""
        where = "" if self.line is None else f"line {self.line}: "
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class DocumentErrors(ValueError):
    """All errors of a file, in the order of its lines; as text, one line each."""

    def __init__(self, errors: Iterable[DocumentError]) -> None:
        self.errors = tuple(sorted(errors, key=lambda error: error.line or 0))
        super().__init__("\n".join(map(str, self.errors)))


class Tree(NamedTuple):
    """A root mapping of dicts, lists and text, and the line of each part that came from a file."""

    value: dict[str, object]
    lines: Mapping[Path, int] = MappingProxyType({})

    def line_of(self, path: Path) -> int | None:
        """The line of the part at `path`, or of the nearest part around it that has one."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return None

    def error(self, path: Path, message: str) -> DocumentError:
        """An error at `path`, with its line."""
        return DocumentError(path_text(path), self.line_of(path), message)


def path_text(path: Path) -> str:
    """The path as text, such as `policies[0].limit.gpu`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


_PART = re.compile(r"\[([0-9]{1,9})\]|\.?([A-Za-z_][A-Za-z0-9_]*)")


def path_of(text: str) -> Path:
    """The inverse of `path_text`, as far as the text is a path: `policies[0].limit` of `policies[0].limit: 3 is too much`."""
    found: list[str | int] = []
    position = 0
    while (match := _PART.match(text, position)) is not None:
        found.append(int(match[1]) if match[1] else match[2])
        position = match.end()
    return tuple(found) if text[position : position + 1] in (":", "") else ()


def tree_of(value: object) -> Tree:
    """Decoded JSON as a tree: numbers become the text they were written as, as far as the decoder kept it.

    Raises DocumentErrors if the root is not a mapping, the nesting is too deep or a number is too large.
    """
    if not isinstance(value, dict):
        raise DocumentErrors([DocumentError("", None, "write a mapping such as {policies: [...]}")])
    return Tree({str(key): _as_text(child, (str(key),)) for key, child in value.items()})


def _as_text(value: object, at: Path) -> object:
    if isinstance(value, str):
        return value
    if len(at) > DEPTH_MAX:
        raise DocumentErrors([DocumentError(path_text(at[:3]), None, f"this is nested deeper than {DEPTH_MAX} levels")])
    if isinstance(value, dict):
        return {str(key): _as_text(child, (*at, str(key))) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(child, (*at, index)) for index, child in enumerate(value)]
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > NUMBER_BITS_MAX:
        raise DocumentErrors([DocumentError(path_text(at), None, "this number is too large")])
    return str(value)


def join_trees(trees: Iterable[Tree]) -> Tree:
    """Several files as one: lists under the same key are concatenated. Raises DocumentErrors if a key cannot be joined."""
    value: dict[str, object] = {}
    lines: dict[Path, int] = {}
    errors: list[DocumentError] = []
    for tree in trees:
        moved: dict[str, int] = {}
        for key, child in tree.value.items():
            before = value.get(key)
            if key not in value:
                value[key] = list(child) if isinstance(child, list) else child
            elif isinstance(before, list) and isinstance(child, list):
                moved[key] = len(before)
                before.extend(child)
            else:
                errors.append(
                    tree.error((key,), "this key is in an earlier document already, and only lists are joined; remove one")
                )
        for path, line in tree.lines.items():
            lines.setdefault(_shifted(path, moved), line)
    if errors:
        raise DocumentErrors(errors)
    return Tree(value, lines)


def _shifted(path: Path, moved: Mapping[str, int]) -> Path:
    match path:
        case (str() as key, int() as index, *rest) if key in moved:
            return (key, index + moved[key], *rest)
    return path
