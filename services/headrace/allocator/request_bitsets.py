"""Which requests still fit under a ceiling, all at once: a set of requests is one integer with a bit for each (R7, R15).

Strategy: for each key the distinct needs of all requests stand sorted, and beside them the set of requests that need no more. What fits
into some room is then one bisection for each key, whatever the number of requests.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import GPU
from headrace.domain.state.quota import free_of, is_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import Scope
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState

NO_KEYS: frozenset[str] = frozenset()
EVERY = -1
"""The set of all requests, known or not."""
FAR = 1 << 62
"""More room than anybody ever needs."""


def bits_of(requests: int) -> Iterator[int]:
    """The numbers in a set, ascending."""
    while requests:
        lowest = requests & -requests
        yield lowest.bit_length() - 1
        requests ^= lowest


class Needs:
    """The requests that somebody waits for, numbered. `uncertain`: those that need not fit where one replica does.

    `cut`: those for slices; they are uncertain too, because what they will count in the pool depends on where they go (R4).
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.keys: set[str] = set()
        self.uncertain = 0
        self.version = 0
        self.cut = 0
        self._numbers: dict[tuple[int, tuple[str, ...], tuple[str, ...]], int] = {}
        self._tables: dict[str, tuple[list[int], list[int]]] = {}

    def number(self, request: Request, avoiding: tuple[str, ...] = (), owners: tuple[str, ...] = ()) -> int:
        """The place of the request's bit in every set; a new one is registered, and no set worked out before speaks of it.

        One that avoids some nodes (R36), or may use what others may not (`owners`, R21), is a request of its own: it may be placed
        where the others are not.
        """
        number = self._numbers.get((request.order, avoiding, owners))
        if number is None:
            number = self._numbers[request.order, avoiding, owners] = len(self.requests)
            self.requests.append(request)
            self.cut |= bool(request.shape.mig) << number
            if request.replicas > 1 or avoiding or request.shape.mig:
                self.uncertain |= 1 << number
            self.keys.update(request.total)
            self._tables.clear()
            self.version += 1
        return number

    def fitting(self, key: str, room: int) -> int:
        """The requests that need none of `key`, or no more than `room` of it in all their replicas."""
        steps, fitting = self._tables.get(key) or self._sorted(key)
        return fitting[bisect_right(steps, room)]

    def around(self, key: str, room: int) -> tuple[int, int, int]:
        """The same, and from which room on, and below which, it would be the same; less than nothing is apart from nothing."""
        steps, fitting = self._tables.get(key) or self._sorted(key)
        if room < 0:
            return fitting[0], -FAR, 0
        at = bisect_right(steps, room)
        return fitting[at], steps[at - 1] if at else 0, steps[at] if at < len(steps) else FAR

    def _sorted(self, key: str) -> tuple[list[int], list[int]]:
        needs = [request.total.get(key, 0) for request in self.requests]
        steps = sorted({need for need in needs if need})
        fitting = [sum(1 << number for number, need in enumerate(needs) if need <= step) for step in (0, *steps)]
        self._tables[key] = steps, fitting
        return steps, fitting


class Ceiling:
    """Which requests fit into what the sums of a pool leave: `over_capacity` for all of them."""

    __slots__ = ("_bounded", "_governed", "_pool", "_version")

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._governed = pool.governed
        self._version = -1
        self._bounded: list[str] = []

    def read(self, needs: Needs) -> int:
        """The requests for which enough is left of every key that the pool bounds."""
        pool = self._pool
        if self._version != needs.version or self._governed != pool.governed:
            self._version, self._governed = needs.version, pool.governed
            self._bounded = [key for key in needs.keys if is_bounded(pool, key)]
        fitting = EVERY
        for key in self._bounded:
            enough = needs.fitting(key, free_of(pool, key))
            fitting &= enough | needs.cut if key == GPU else enough
        return fitting


_PLANNED, _INSIDE, _FIRM = range(3)


class Gauges:
    """Which requests fit the room that some accounts leave: under their limits, and inside their reservations (R7).

    `limit`: what may be granted; `planned`: what a reclaim may be planned for, once those who yield have left (R17). They differ while
    leases hold more than will be used, and only where `holds`, for before the amendment limits looked at what will be alone.
    `inside` by all use, `firm` by what cannot be preempted. `above`: the keys on which all `lending` accounts are above what is reserved
    (R24). Of each account it is known between which uses no answer changes, so that mostly nothing has to be worked out.
    """

    __slots__ = (
        "_bands",
        "_governed",
        "_limited",
        "_marks",
        "_version",
        "_was_apart",
        "above",
        "firm",
        "inside",
        "limit",
        "planned",
    )

    def __init__(
        self,
        limiting: Sequence[Scope],
        reserving: Sequence[Scope],
        lending: Sequence[Scope],
        governed: frozenset[str],
        *,
        holds: bool,
    ) -> None:
        keys = sorted(governed)
        limits = [(_PLANNED, one.use, key, one.limit[key], False) for one in limiting for key in keys if key in one.limit]
        reserved = [(one, key, (one.reservation or {}).get(key, 0)) for key in keys for one in reserving]
        inside = [(_INSIDE, one.use, key, ceiling, one in lending) for one, key, ceiling in reserved]
        firm = [(_FIRM, one.firm, key, ceiling, False) for one, key, ceiling in reserved]
        self._marks = (*limits, *inside, *firm)
        self._limited = tuple(one for one in limiting if one.limit) if holds else ()
        self._bands: list[tuple[Amounts, str, int, int]] = []
        self._version = -1
        self._was_apart = False
        self._governed = governed
        self.limit = self.planned = self.inside = self.firm = EVERY
        self.above = NO_KEYS

    def read(self, needs: Needs) -> int:
        """Look at the accounts again; the requests for which an answer has changed."""
        is_apart = False
        for one in self._limited:
            if one.apart:
                is_apart = True
        before = self.limit, self.planned, self.inside, self.firm
        if self._version != needs.version or not self._is_between():
            self._version = needs.version
            self.planned, self.inside, self.firm = self._look(needs)
        elif not is_apart and not self._was_apart:
            return 0
        self._was_apart = is_apart
        self.limit = self.planned & self._held(needs) if is_apart else self.planned
        changed = (before[0] ^ self.limit) | (before[1] ^ self.planned)
        return changed | (before[2] ^ self.inside) | (before[3] ^ self.firm)

    def _is_between(self) -> bool:
        """Whether all accounts are between the uses at which an answer changes."""
        return all(over < use.get(key, 0) <= most for use, key, over, most in self._bands)

    def _held(self, needs: Needs) -> int:
        """The requests for which the limits have room beside all that leases hold now, those that yield included (R17)."""
        fitting = EVERY
        for one in self._limited:
            for key, apart in one.apart.items():
                if apart > 0 and key in one.limit and key in self._governed:
                    fitting &= needs.fitting(key, one.limit[key] - one.use.get(key, 0) - apart)
        return fitting

    def _look(self, needs: Needs) -> list[int]:
        found, left, bands = [EVERY, EVERY, EVERY], dict[str, int](), []
        for kind, use, key, ceiling, lends in self._marks:
            room = ceiling - use.get(key, 0)
            fitting, least, below = needs.around(key, room)
            found[kind] &= fitting
            bands.append((use, key, ceiling - below, ceiling - least))
            if lends:
                left[key] = max(room, left.get(key, room))
        self._bands = bands
        self.above = frozenset(key for key, room in left.items() if room < 0) if left else NO_KEYS
        return found
