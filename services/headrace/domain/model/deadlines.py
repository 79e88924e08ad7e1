"""Moments at which something is due, one for each name, so that who waits for the next one looks at no other.

Strategy: a heap of (moment, name). A name whose moment was changed or cleared leaves its old entry behind, which is dropped when it comes
to the top, or all at once when such entries are most of the heap. Reading has no visible effect.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLACK = 64


class Deadlines:
    """Name to moment, microseconds of log time."""

    __slots__ = ("_heap", "moments")

    def __init__(self) -> None:
        self.moments: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def set(self, name: str, moment: int) -> None:
        """From now on `name` is due at `moment`, and at no other."""
        if self.moments.get(name) == moment:
            return
        self.moments[name] = moment
        if len(self._heap) > 2 * len(self.moments) + _SLACK:
            self._heap = [(at, known) for known, at in self.moments.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (moment, name))

    def clear(self, name: str) -> None:
        """`name` is due no more."""
        self.moments.pop(name, None)

    def due(self, now: int) -> list[str]:
        """Names whose moment has come, the earliest first."""
        self._trim()
        if not self._heap or self._heap[0][0] > now:
            return []
        return [name for _, name in sorted(set(self._until(now)))]

    def next(self, after: int) -> int | None:
        """The first moment later than `after`."""
        self._trim()
        heap, ahead, first = self._heap, [0], None
        while ahead:
            place = ahead.pop()
            if place >= len(heap) or (first is not None and heap[place][0] >= first):
                continue
            moment, name = heap[place]
            if moment > after and self.moments.get(name) == moment:
                first = moment
            else:
                ahead += (2 * place + 1, 2 * place + 2)
        return first

    def ascending(self) -> Iterator[tuple[int, str]]:
        """(moment, name) of all that are due some time, the earliest first; found as they are asked for. Nothing may be set meanwhile."""
        heap = self._heap
        ahead = [(heap[0], 0)] if heap else []
        while ahead:
            (moment, name), place = heapq.heappop(ahead)
            if self.moments.get(name) == moment:
                yield moment, name
            for below in (2 * place + 1, 2 * place + 2):
                if below < len(heap):
                    heapq.heappush(ahead, (heap[below], below))

    def _until(self, now: int) -> list[tuple[int, str]]:
        """The heap's entries up to `now`: entries below a later one are later as well."""
        heap, ahead, found = self._heap, [0], []
        while ahead:
            place = ahead.pop()
            if place < len(heap) and heap[place][0] <= now:
                moment, name = heap[place]
                if self.moments.get(name) == moment:
                    found.append((moment, name))
                ahead += (2 * place + 1, 2 * place + 2)
        return found

    def _trim(self) -> None:
        while self._heap and self.moments.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
