"""Folds that were used for questions about the past, kept for a while: the next question is mostly about a moment nearby. Pure.

A cursor goes forward only. It belongs to one question at a time, which takes it and gives it back, because folding changes its state. For
steps back there are marks: states as bytes, which are small. Both are caches: they are bounded, dropped when no question comes, and nothing
is lost with them, because each is the fold of the ledger up to its record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.domain.fold.ledger import FoldedLedger

KEPT, JOBS_KEPT = 4, 60_000
"""Maximum number of cursors, and of the jobs in all of them; the one used last is kept in any case."""
MARKS, MARK_BYTES = 12, 32 << 20
"""Maximum number of marks, and of bytes in all of them; the newest is kept in any case."""

Asked = tuple[int, int]
"""What a question asks for: a sequence, or 0 and a time."""


@dataclass(slots=True, eq=False)
class Cursor:
    """A fold. `stamped`: when its last record was stored, in microseconds since 1970; None: not known.

    `asked`: the question that moved it last; `erased`: people whose erasure was written after its last record.
    """

    fold: FoldedLedger
    stamped: int | None = None
    asked: Asked = (0, 0)
    erased: list[tuple[str, str]] = field(default_factory=list)

    @property
    def sequence(self) -> int:
        """The last record that was folded."""
        return self.fold.sequence


class Mark(NamedTuple):
    """A state as bytes."""

    sequence: int
    stamped: int | None
    state: bytes


class Cursors:
    """Cursors that no question has at the moment, and marks; of both those used last come last."""

    def __init__(self) -> None:
        self._free: list[Cursor] = []
        self._marks: list[Mark] = []

    def there(self, asked: Asked) -> Cursor | None:
        """Take the cursor that is there already."""
        return self._taken(next((one for one in self._free if asked in (one.asked, (one.sequence, 0))), None))

    def nearest(self, last: int, at: int | None) -> int:
        """The last record up to which there is a cursor or a mark before record `last`, and the time `at` if it is given; 0 without one."""
        kept: list[Cursor | Mark] = [*self._free, *self._marks]
        return max((one.sequence for one in kept if _is_before(one, last, at)), default=0)

    def is_back(self, last: int, within: int) -> bool:
        """Whether a moment at most that many records after record `last` was looked at."""
        kept: list[Cursor | Mark] = [*self._free, *self._marks]
        return any(last < one.sequence <= last + within for one in kept)

    def take(self, sequence: int) -> Cursor | Mark | None:
        """Take the cursor at a record, or else return the mark there; None without one."""
        taken = self._taken(next((one for one in self._free if one.sequence == sequence), None))
        return taken or next((one for one in self._marks if one.sequence == sequence), None)

    def give_back(self, cursor: Cursor) -> None:
        """Keep a cursor for the next question; beyond the bounds those are dropped that were not used for longest."""
        self._free.append(cursor)
        while len(self._free) > KEPT or (
            len(self._free) > 1 and sum(len(one.fold.state.jobs) for one in self._free) > JOBS_KEPT
        ):
            del self._free[0]

    def mark(self, mark: Mark) -> None:
        """Keep a mark; beyond the bounds the oldest are dropped."""
        self._marks = [one for one in self._marks if one.sequence != mark.sequence] + [mark]
        while len(self._marks) > MARKS or (len(self._marks) > 1 and sum(len(one.state) for one in self._marks) > MARK_BYTES):
            del self._marks[0]

    def clear(self) -> None:
        """Forget all cursors that are free, and all marks."""
        self._free.clear()
        self._marks.clear()

    def _taken(self, cursor: Cursor | None) -> Cursor | None:
        if cursor is not None:
            self._free.remove(cursor)
        return cursor


def _is_before(one: Cursor | Mark, last: int, at: int | None) -> bool:
    return one.sequence <= last and (at is None or (one.stamped is not None and one.stamped <= at))
