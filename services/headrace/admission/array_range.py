"""The array that a submission asks for, and what is wrong with it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.facts.levels import ARRAYS
from headrace.contracts.values.arrays import ArrayError, format_array, parse_array

if TYPE_CHECKING:
    from headrace.contracts.values.arrays import ArrayRange
    from headrace.domain.state.state import State


def read_array(state: State, text: str) -> ArrayRange | None:
    """The array as written; None if it is empty. Raises ArrayError, also if the installation does not take arrays yet."""
    if not text:
        return None
    if state.terms.level < ARRAYS:
        raise ArrayError(f"arrays are taken from level {ARRAYS} of the installation on, and it is at level {state.terms.level}")
    return parse_array(text)


def wrong_array(state: State, array: ArrayRange | None) -> str:
    """Why no fact may state this array; empty if it may."""
    if array is None:
        return ""
    try:
        again = read_array(state, format_array(array))
    except ArrayError as error:
        return f"array: {error}"
    return "" if again == array else f"array: {format_array(array)} would be stated in another form"


def jobs_in(array: ArrayRange | None) -> int:
    """How many jobs are submitted at once: one, or the elements of an array."""
    return 1 if array is None else array.count
