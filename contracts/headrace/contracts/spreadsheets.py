"""Cells of CSV that people open in a spreadsheet: a text from outside must not be taken for a formula."""

from __future__ import annotations

import re

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def cell(text: str) -> str:
    """The text, behind an apostrophe where a spreadsheet would calculate it; numbers stay numbers."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
