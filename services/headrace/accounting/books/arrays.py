"""What the books note of arrays beside their elements: those that ended without having been granted anything, as ranges. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from headrace.accounting.books.row_mapping import array_parts
from headrace.accounting.books.rows import ArrayPartRow
from headrace.contracts.values.amounts import Amounts, times
from headrace.contracts.values.arrays import size
from headrace.domain.model.jobs import ArrayState, JobRecord
from headrace.domain.state.state import State

FORGOTTEN_LATER = 64


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
        self._named_at, self._named = state.now, {job.key for job in self._ended_now()}

    def news(self, key: str) -> Iterator[EndedPart]:
        """Parts of the array of that key that have ended since the last look; none if it is not an array."""
        array = self._state.arrays.get(key)
        if array is None:
            return
        noted, self._noted[key] = self._noted.get(key, 0), len(array.unstarted)
        for gone in array.unstarted[noted:]:
            yield EndedPart(array.job, array_parts(array, gone), times(array.job.request.total, size(gone.numbers)), gone.at)
        self._forget()

    def ended_by_name(self, array: ArrayState) -> Iterator[JobRecord]:
        """Elements with a record of their own that were granted nothing and have ended since the last look, each once."""
        if self._named_at != self._state.now:
            self._named_at, self._named = self._state.now, set()
        for job in self._ended_now():
            if job.array is array and job.is_new_element and job is not array.job and job.key not in self._named:
                self._named.add(job.key)
                yield job

    def _ended_now(self) -> Iterator[JobRecord]:
        state = self._state
        return takewhile(lambda job: job.ended_at == state.now, reversed(state.ended))

    def _forget(self) -> None:
        """Drop what is known of arrays that the state has dropped. Not at their end: the record that ends one may speak of it again."""
        arrays = self._state.arrays
        if len(self._noted) > 2 * len(arrays) + FORGOTTEN_LATER:
            self._noted = {key: noted for key, noted in self._noted.items() if key in arrays}
