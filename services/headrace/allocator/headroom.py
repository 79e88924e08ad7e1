"""Which requests still fit under a ceiling, all at once: a set of requests is one integer with a bit for each (R7, R15).

Strategy: for each key the distinct needs of all requests stand sorted, and beside them the set of requests that need no more. What fits
into some room is then one bisection for each key, whatever the number of requests.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.domain.scopes import free_of, is_bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.contracts.amounts import Amounts
    from headrace.domain.requests import Request
    from headrace.domain.state import PoolState, Scope

EVERY = -1
"""The set of all requests, known or not."""


def bits_of(requests: int) -> Iterator[int]:
    """The numbers in a set, ascending."""
    while requests:
        lowest = requests & -requests
        yield lowest.bit_length() - 1
        requests ^= lowest


class Needs:
    """The requests that somebody waits for, numbered. `uncertain`: those that need not fit where one replica does."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.keys: set[str] = set()
        self.uncertain = 0
        self.version = 0
        self._numbers: dict[tuple[int, tuple[str, ...]], int] = {}
        self._tables: dict[str, tuple[list[int], list[int]]] = {}

    def number(self, request: Request, avoiding: tuple[str, ...] = ()) -> int:
        """The place of the request's bit in every set; a new one is registered, and no set worked out before speaks of it.

        One that avoids some nodes (R36) is a request of its own: it may fail to be placed where the others do not.
        """
        number = self._numbers.get((request.order, avoiding))
        if number is None:
            number = self._numbers[request.order, avoiding] = len(self.requests)
            self.requests.append(request)
            if request.replicas > 1 or avoiding:
                self.uncertain |= 1 << number
            self.keys.update(request.total)
            self._tables.clear()
            self.version += 1
        return number

    def fitting(self, key: str, room: int) -> int:
        """The requests that need none of `key`, or no more than `room` of it in all their replicas."""
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._sorted(key)
        return table[1][bisect_right(table[0], room)]

    def _sorted(self, key: str) -> tuple[list[int], list[int]]:
        needs = [request.total.get(key, 0) for request in self.requests]
        steps = sorted({need for need in needs if need})
        fitting = [sum(1 << number for number, need in enumerate(needs) if need <= step) for step in (0, *steps)]
        return steps, fitting

    def fitting_in(self, pool: PoolState) -> int:
        """The requests for which enough is left of every key that the pool bounds: `over_capacity` for all of them."""
        fitting = EVERY
        for key in self.keys:
            if is_bounded(pool, key):
                fitting &= self.fitting(key, free_of(pool, key))
        return fitting


class Gauge:
    """How much room some accounts leave, and which requests that is enough for: `over_limit`, or `over_reservation`, for all of them.

    `rooms` has an entry for each ceiling of `marks`: (what is used, key, ceiling). What was read last is kept while no room changes.
    """

    __slots__ = ("_marks", "_version", "fitting", "rooms")

    def __init__(self, marks: Iterable[tuple[Amounts, str, int]]) -> None:
        self._marks = tuple(marks)
        self._version = -1
        self.rooms = [0] * len(self._marks)
        self.fitting = EVERY

    @classmethod
    def of_limits(cls, scopes: Iterable[Scope], governed: frozenset[str]) -> Gauge:
        """The room under the limits that accounts set on governed keys (R5, R7)."""
        return cls((scope.use, key, scope.limit[key]) for scope in scopes for key in sorted(governed & scope.limit.keys()))

    @classmethod
    def of_reservations(cls, scopes: Iterable[Scope], governed: frozenset[str], *, firm: bool = False) -> Gauge:
        """The room inside the reservations of accounts; `firm`: as non-preemptible jobs see it (R17)."""
        return cls(
            (scope.firm if firm else scope.use, key, (scope.reservation or {}).get(key, 0))
            for scope in scopes
            for key in sorted(governed)
        )

    def read(self, needs: Needs) -> int:
        """The requests that still fit."""
        rooms = [ceiling - used.get(key, 0) for used, key, ceiling in self._marks]
        if rooms != self.rooms or self._version != needs.version:
            self.rooms, self._version, self.fitting = rooms, needs.version, EVERY
            for (_, key, _), room in zip(self._marks, rooms, strict=True):
                self.fitting &= needs.fitting(key, room)
        return self.fitting

    def is_over(self, keys: Amounts) -> bool:
        """Whether all accounts were over the ceiling, when last read, on one of `keys`."""
        return any(
            all(room < 0 for (_, marked, _), room in zip(self._marks, self.rooms, strict=True) if marked == key)
            for key in keys
            if any(marked == key for _, marked, _ in self._marks)
        )
