"""Cells of CSV files for spreadsheets: a text from outside must not be read as a formula."""

from __future__ import annotations

import re

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def cell(text: str) -> str:
    """The text, prefixed by an apostrophe if a spreadsheet would evaluate it; numbers stay numbers."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
