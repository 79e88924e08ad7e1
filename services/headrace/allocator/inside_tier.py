"""Candidates inside their reservation that have one static rank, by request and place in line (R15)."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.allocator.fair_line import UserCandidates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.domain.indexes.pending import Place

C = TypeVar("C", bound=UserCandidates)


Entry = tuple[Any, ...]
"""(place, serial, candidates). Places in line are unique, but while a job moves from one group to another, two candidates may briefly have
the same head. (Without the types of its items for the reason that `pending.Place` names.)
"""


class InsideTier(Generic[C]):
    """The lines of one static rank. `requests`: those with a line that is not empty."""

    __slots__ = ("_lines", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self._lines: dict[int, list[Entry]] = {}  # by the request's bit

    def add(self, requests: int, candidates: C, heads: Mapping[int, tuple[Place, object]]) -> None:
        """Requests of candidates, each at the place of its head."""
        entries, serial, lines, left = candidates.entries, candidates.serial, self._lines, requests
        while left:
            bit = left & -left
            left ^= bit
            number = bit.bit_length() - 1
            entry = entries[number] = heads[number][0], serial, candidates
            line = lines.get(bit)
            if line:
                insort(line, entry)
            else:
                lines[bit] = [entry]
        self.requests |= requests

    def remove(self, requests: int, candidates: C) -> None:
        """The same requests no more."""
        entries = candidates.entries
        while requests:
            bit = requests & -requests
            requests ^= bit
            line, entry = self._lines[bit], entries.pop(bit.bit_length() - 1)
            del line[0 if line[0] is entry else bisect_left(line, entry)]
            if not line:
                self.requests &= ~bit

    def first(self, feasible: int, allowed: Callable[[C, int], int]) -> tuple[Place, C, int] | None:
        """Place, candidates and the request's bit of the first one whose request is in `feasible` and allowed."""
        first: Entry | None = None
        asked, left = 0, feasible & self.requests
        while left:
            bit = left & -left
            left ^= bit
            for entry in self._lines[bit]:
                if first is not None and entry > first:
                    break
                if allowed(entry[2], bit):
                    first, asked = entry, bit
                    break
        return None if first is None else (first[0], first[2], asked)
