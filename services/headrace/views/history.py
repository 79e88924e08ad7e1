"""Which records were about a job, so that its story can be read from the log again. Pure.

Strategy: only sequences are kept, and one number is shared by all jobs of its record; the facts themselves are in the log. The jobs
heard of first are forgotten first when there are too many, and of a job with an endless story the middle is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

JOBS_MAX = 100_000
RECORDS_MAX = 200


class History:
    """Job key to the sequences of the records about it, for the last `jobs_max` jobs."""

    def __init__(self, jobs_max: int = JOBS_MAX, records_max: int = RECORDS_MAX) -> None:
        self._jobs_max = jobs_max
        self._records_max = records_max
        self._sequences: OrderedDict[str, list[int]] = OrderedDict()
        """In the order in which they were heard of. Not a `dict`: its first key is searched for behind all that were there before."""

    def note(self, keys: Iterable[str], sequence: int) -> None:
        """The record at `sequence` is about these jobs."""
        for key in keys:
            sequences = self._sequences.get(key)
            if sequences is None:
                sequences = self._sequences[key] = []
                if len(self._sequences) > self._jobs_max:
                    self._sequences.popitem(last=False)
            sequences.append(sequence)
            if len(sequences) > self._records_max:
                del sequences[1]  # the first one says what the job is

    def precede(self, earlier: History) -> None:
        """Put what has been noted elsewhere, of records before all of these, in front."""
        later, self._sequences = self._sequences, earlier._sequences
        for key, sequences in later.items():
            for sequence in sequences:
                self.note((key,), sequence)

    def of(self, key: str) -> tuple[int, ...]:
        """The sequences of a job, in order; empty where nothing is known (any more)."""
        return tuple(self._sequences.get(key, ()))
