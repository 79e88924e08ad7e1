"""What the books note of arrays beside their elements: those that ended without having been granted anything, as ranges. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.accounting.books.row_mapping import array_parts
from headrace.accounting.books.rows import ArrayPartRow
from headrace.contracts.values.amounts import Amounts, times
from headrace.contracts.values.arrays import size
from headrace.domain.model.jobs import JobRecord
from headrace.domain.state.state import State


class EndedPart(NamedTuple):
    """Elements of the array `job` that waited since its admission until `at`, and ended: their rows, and what they asked for in sum."""

    job: JobRecord
    rows: list[ArrayPartRow]
    total: Amounts
    at: int


class ArrayParts:
    """Over one fold: which parts of arrays have been noted."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._noted = {key: len(array.unstarted) for key, array in state.arrays.items()}

    def news(self, key: str) -> Iterator[EndedPart]:
        """Parts of the array of that key that have ended since the last look; none if it is not an array."""
        array = self._state.arrays.get(key)
        if array is None:
            return
        noted, self._noted[key] = self._noted.get(key, 0), len(array.unstarted)
        for gone in array.unstarted[noted:]:
            yield EndedPart(array.job, array_parts(array, gone), times(array.job.request.total, size(gone.numbers)), gone.at)
        if array.job.ended_at:
            del self._noted[key]
