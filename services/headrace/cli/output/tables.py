"""Aligned columns for people: numbers to the right, words to the left. Programs use --json."""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence

GAP = "  "
CELL_MIN = 8
"""Columns of a terminal that a cell is cut to at least."""
CUT = "…"
_NUMBER = re.compile(r"-?[0-9][0-9./]*(%|[KMGTP]iB)?")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lines of a table, without a line feed at the end; empty columns are left out.

    On a terminal, cells are cut until a line fits, if it can; those of the first column never.
    """
    texts = [[_text(cell) for cell in row] for row in rows]
    used = [index for index in range(len(heads)) if any(row[index] for row in texts)] if texts else list(range(len(heads)))
    kept = [[heads[index] for index in used], *([row[index] for index in used] for row in texts)]
    columns = list(zip(*kept, strict=True))
    widths = _fitting([max(map(columns_of, column)) for column in columns], _terminal())
    right = [len(column) > 1 and all(_NUMBER.fullmatch(cell) for cell in column[1:] if cell) for column in columns]
    return "\n".join(_line(row, widths, right) for row in kept)


def pairs(entries: Iterable[tuple[str, object]]) -> str:
    """`name  value` lines with aligned values; entries without a value are left out."""
    shown = [(name, _text(value)) for name, value in entries]
    width = max((len(name) for name, value in shown if value), default=0)
    return "\n".join(f"{name:<{width}}{GAP}{value}" for name, value in shown if value)


def columns_of(text: str) -> int:
    """Number of columns of a terminal that a text takes: two for a wide character (UAX 11), none for one that combines."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _terminal() -> int:
    """Columns of the terminal that standard output is; 0 if it is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _fitting(widths: list[int], most: int) -> list[int]:
    """The widths, the widest ones reduced until a line has at most `most` columns (0: any number), except the first."""
    fitting = list(widths)
    excess = sum(fitting) + len(GAP) * (len(fitting) - 1) - most if most else 0
    while excess > 0:
        width, index = max(((width, index) for index, width in enumerate(fitting) if index), default=(0, 0))
        if width <= CELL_MIN:
            break
        fitting[index] -= 1
        excess -= 1
    return fitting


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (_padded(cell, width, at_right=at_right) for cell, width, at_right in zip(row, widths, right, strict=True))
    return GAP.join(cells).rstrip()


def _padded(cell: str, width: int, *, at_right: bool) -> str:
    while columns_of(cell) > width:
        cell = cell[: -2 if cell.endswith(CUT) else -1] + CUT
    space = " " * (width - columns_of(cell))
    return space + cell if at_right else cell + space


def _text(cell: object) -> str:
    """The value on one line, without control characters, so that text of others cannot move the cursor."""
    if cell is None:
        return ""
    return "".join(character if character.isprintable() else "?" for character in str(cell))
