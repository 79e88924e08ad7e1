"""The order in which people look for names: numbers in them count, so `gpu2` comes before `gpu10`."""

from __future__ import annotations

import re
from functools import lru_cache

_DIGITS = re.compile(r"[0-9]+")
_WIDTH = 12


@lru_cache(maxsize=20_000)
def natural_order(name: str) -> str:
    """A key to sort names by; different names have different keys."""
    return f"{_DIGITS.sub(lambda found: found[0].zfill(_WIDTH), name)} {name}"
