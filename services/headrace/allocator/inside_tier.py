"""Candidates inside their reservation that have one static rank, by request and place in line (R15)."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.allocator.fair_line import UserCandidates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.domain.indexes.pending import Place

C = TypeVar("C", bound=UserCandidates)


class _Line(Generic[C]):
    """The candidates for one request: `places` ascending, and beside each whose it is."""

    __slots__ = ("owners", "places")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.owners: list[C] = []


class InsideTier(Generic[C]):
    """The lines of one static rank. `requests`: those with a line that is not empty."""

    __slots__ = ("_lines", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self._lines: dict[int, _Line[C]] = {}  # by the request's bit

    def add(self, requests: int, candidates: C, heads: Mapping[int, tuple[Place, object]]) -> None:
        """Requests of candidates, each at the place of its head."""
        entries, left = candidates.entries, requests
        while left:
            bit = left & -left
            left ^= bit
            number = bit.bit_length() - 1
            place = entries[number] = heads[number][0]
            line = self._lines.get(bit)
            if line is None:
                line = self._lines[bit] = _Line()
            at = bisect_left(line.places, place)
            line.places.insert(at, place)
            line.owners.insert(at, candidates)
        self.requests |= requests

    def remove(self, requests: int, candidates: C) -> None:
        """The same requests no more. While a job moves from one group to another, two candidates may briefly have the same head."""
        while requests:
            bit = requests & -requests
            requests ^= bit
            line, place = self._lines[bit], candidates.entries.pop(bit.bit_length() - 1)
            at = 0 if line.places[0] is place else bisect_left(line.places, place)
            while line.owners[at] is not candidates:
                at += 1
            del line.places[at], line.owners[at]
            if not line.places:
                self.requests &= ~bit

    def first(self, feasible: int, allowed: Callable[[C, int], int]) -> tuple[Place, C, int] | None:
        """Place, candidates and the request's bit of the first one whose request is in `feasible` and allowed."""
        first: Place | None = None
        found: tuple[Place, C, int] | None = None
        left = feasible & self.requests
        while left:
            bit = left & -left
            left ^= bit
            line = self._lines[bit]
            for at, place in enumerate(line.places):
                if first is not None and place > first:
                    break
                if allowed(line.owners[at], bit):
                    first, found = place, (place, line.owners[at], bit)
                    break
        return found
