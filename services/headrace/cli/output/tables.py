"""Aligned columns for people: numbers to the right, words to the left. Programs use --json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

GAP = "  "
_NUMBER = re.compile(r"-?[0-9][0-9./]*(%|[KMGTP]iB)?")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lines of a table, without a line feed at the end; empty columns are left out."""
    texts = [[_text(cell) for cell in row] for row in rows]
    used = [index for index in range(len(heads)) if any(row[index] for row in texts)] if texts else list(range(len(heads)))
    kept = [[heads[index] for index in used], *([row[index] for index in used] for row in texts)]
    columns = list(zip(*kept, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [len(column) > 1 and all(_NUMBER.fullmatch(cell) for cell in column[1:] if cell) for column in columns]
    return "\n".join(_line(row, widths, right) for row in kept)


def pairs(entries: Iterable[tuple[str, object]]) -> str:
    """`name  value` lines with aligned values; entries without a value are left out."""
    shown = [(name, _text(value)) for name, value in entries]
    width = max((len(name) for name, value in shown if value), default=0)
    return "\n".join(f"{name:<{width}}{GAP}{value}" for name, value in shown if value)


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (
        cell.rjust(width) if at_right else cell.ljust(width) for cell, width, at_right in zip(row, widths, right, strict=True)
    )
    return GAP.join(cells).rstrip()


def _text(cell: object) -> str:
    """The value on one line, without control characters, so that text of others cannot move the cursor."""
    if cell is None:
        return ""
    return "".join(character if character.isprintable() else "?" for character in str(cell))
