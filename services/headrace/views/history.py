"""Sequences of the records about each job, so that its history can be read from the log. Pure.

Strategy: only sequences are stored, and one number is shared by all jobs of its record; the facts themselves are in the log. When there
are too many jobs the oldest are forgotten, and of a job with too many records the middle ones.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

JOBS_MAX = 100_000
RECORDS_MAX = 200


class History:
    """Sequences of the records about a job by job key, for the last `jobs_max` jobs."""

    def __init__(self, jobs_max: int = JOBS_MAX, records_max: int = RECORDS_MAX) -> None:
        self._jobs_max = jobs_max
        self._records_max = records_max
        self.sequences: OrderedDict[str, list[int]] = OrderedDict()
        """Ordered by first record. Not a `dict`, whose first key is found only after all deleted ones before it."""

    def note(self, keys: Iterable[str], sequence: int) -> None:
        """Add the record at `sequence` to the history of these jobs."""
        for key in keys:
            sequences = self.sequences.get(key)
            if sequences is None:
                sequences = self.sequences[key] = []
                if len(self.sequences) > self._jobs_max:
                    self.sequences.popitem(last=False)
            sequences.append(sequence)
            if len(sequences) > self._records_max:
                del sequences[1]  # the first one says what the job is

    def precede(self, earlier: History) -> None:
        """Insert the sequences of `earlier`, whose records come before all of these."""
        later, self.sequences = self.sequences, earlier.sequences
        for key, sequences in later.items():
            for sequence in sequences:
                self.note((key,), sequence)

    def of(self, key: str) -> tuple[int, ...]:
        """Sequences of a job, in order; empty if unknown or forgotten."""
        return tuple(self.sequences.get(key, ()))
