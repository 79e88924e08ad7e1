"""How much an object keeps, whatever its attributes are called: for tests of memory that has a bound."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, FunctionType, ModuleType

SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)
"""What all objects of a kind refer to together."""


def size(thing: object) -> int:
    """Number of objects that can be reached from it: entries of its containers, and what they refer to."""
    seen, open_ = {id(thing): thing}, [thing]
    while open_:
        found = {id(each): each for each in gc.get_referents(open_.pop()) if not isinstance(each, SHARED)}
        new = [each for number, each in found.items() if number not in seen]
        seen |= found
        open_ += new
    return len(seen)
