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
    """The requests that somebody waits for, numbered."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.keys: set[str] = set()
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
            self.keys.update(request.total)
            self._tables.clear()
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

    def within_limits(self, scopes: Iterable[Scope], governed: frozenset[str]) -> int:
        """The requests that exceed no account's limit on a governed key: `over_limit` for all of them."""
        fitting = EVERY
        for scope in scopes:
            for key, ceiling in scope.limit.items():
                if key in governed:
                    fitting &= self.fitting(key, ceiling - scope.use.get(key, 0))
        return fitting

    def within_reservations(self, scopes: Iterable[Scope], governed: frozenset[str], *, firm: bool = False) -> int:
        """The requests that exceed no account's reservation on a governed key: `over_reservation` for all of them."""
        fitting = EVERY
        for scope in scopes:
            reservation, used = scope.reservation or {}, scope.firm if firm else scope.use
            for key in governed:
                fitting &= self.fitting(key, reservation.get(key, 0) - used.get(key, 0))
        return fitting
