"""Requests that fit under a bound, all at once: a set of requests is one integer with a bit for each (R7, R15).

Strategy: for each key the distinct amounts of all requests are sorted, with the set of requests that need at most each amount. The
requests that fit into free units are then found by one bisection for each key, whatever the number of requests.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from headrace.contracts.values.amounts import is_gpu
from headrace.domain.state.quota import free_of, is_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import Scope
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState

NO_KEYS: frozenset[str] = frozenset()
EVERY: Final = -1
"""The set of all requests, known or not."""
FAR: Final = 1 << 62
"""More units than any request needs."""


def bits_of(requests: int) -> Iterator[int]:
    """The numbers in a set, ascending."""
    while requests:
        lowest = requests & -requests
        yield lowest.bit_length() - 1
        requests ^= lowest


class Needs:
    """The requests of pending jobs, numbered. `uncertain`: those that may not fit although one replica does.

    `cut`: requests for MIG slices; also uncertain, because the pool's units that they use depend on their place (R4). `has_spot`: a pool
    has spot instances, so that requests that may not run on those are placed elsewhere; else they have the numbers of those that may (R38).
    """

    def __init__(self, *, has_spot: bool = False) -> None:
        self.requests: list[Request] = []
        self.keys: set[str] = set()
        self.uncertain = 0
        self.version = 0
        self.cut = 0
        self._has_spot = has_spot
        self._numbers: dict[tuple[object, tuple[str, ...], tuple[str, ...]], int] = {}
        self._tables: dict[str, tuple[list[int], list[int]]] = {}

    def number(
        self, request: Request, avoiding: tuple[str, ...] = (), owners: tuple[str, ...] = (), *, apart: bool = False
    ) -> int:
        """Number of the request's bit in every set; a new request is registered, and is in no set computed before.

        Requests that avoid nodes (R36), or may use dedicated nodes (`owners`, R21), have their own numbers, because they may be placed
        elsewhere. `apart`: a number that no other request has.
        """
        key: object = request.order if request.choices is None else (request.order, request.shape)
        if not apart and not self._has_spot:
            shape = request.shape._replace(steady=False)
            key = (shape, request.replicas, tuple(sorted(request.amounts.items())), request.topology)
        number = self._numbers.get((key, avoiding, owners))
        if number is None:
            number = self._numbers[key, avoiding, owners] = len(self.requests)
            self.requests.append(request)
            self.cut |= bool(request.shape.mig) << number
            if request.replicas > 1 or avoiding or request.shape.mig:
                self.uncertain |= 1 << number
            self.keys.update(request.total)
            self._tables.clear()
            self.version += 1
        return number

    def fitting(self, key: str, free: int) -> int:
        """The requests that need at most `free` of `key` in all their replicas."""
        steps, fitting = self._tables.get(key) or self._sorted(key)
        return fitting[bisect_right(steps, free)]

    def around(self, key: str, free: int) -> tuple[int, int, int]:
        """As `fitting`, with the bounds of `free` between which the result is the same; a negative amount is distinct from zero."""
        steps, fitting = self._tables.get(key) or self._sorted(key)
        if free < 0:
            return fitting[0], -FAR, 0
        at = bisect_right(steps, free)
        return fitting[at], steps[at - 1] if at else 0, steps[at] if at < len(steps) else FAR

    def _sorted(self, key: str) -> tuple[list[int], list[int]]:
        needs = [request.total.get(key, 0) for request in self.requests]
        steps = sorted({need for need in needs if need})
        fitting = [sum(1 << number for number, need in enumerate(needs) if need <= step) for step in (0, *steps)]
        self._tables[key] = steps, fitting
        return steps, fitting


class Ceiling:
    """The requests that fit into the sums that a pool has left: `over_capacity` for all of them."""

    __slots__ = ("_bounded", "_governed", "_pool", "_version")

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._governed = pool.governed
        self._version = -1
        self._bounded: list[tuple[str, bool]] = []

    def read(self, needs: Needs) -> int:
        """The requests for which enough is left of every key that the pool bounds."""
        pool = self._pool
        if self._version != needs.version or self._governed != pool.governed:
            self._version, self._governed = needs.version, pool.governed
            self._bounded = [(key, is_gpu(key)) for key in needs.keys if is_bounded(pool, key)]
        fitting = EVERY
        for key, of_gpus in self._bounded:
            enough = needs.fitting(key, free_of(pool, key))
            fitting &= enough | needs.cut if of_gpus else enough
        return fitting


_PLANNED, _INSIDE, _FIRM = range(3)


class QuotaFits:
    """The requests that fit into what scopes have left: under their limits, and inside their reservations (R7).

    `limit`: requests that may be granted; `planned`: requests for which a reclaim may be planned, once yielding leases have ended (R17).
    They differ while leases hold more than will be used, and only with `holds`: before the amendment limits counted only future use.
    `inside` by all use, `firm` by non-preemptible use. `above`: the keys on which all `lending` scopes are above their reservation (R24).
    The ranges of use within which the results are constant are stored, so that mostly nothing has to be computed.
    """

    __slots__ = (
        "_bands",
        "_differed",
        "_governed",
        "_limited",
        "_marks",
        "_version",
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
        self._differed = False
        self._governed = governed
        self.limit = self.planned = self.inside = self.firm = EVERY
        self.above = NO_KEYS

    def read(self, needs: Needs) -> int:
        """Read the scopes again. Returns the requests for which a result has changed."""
        differs = False
        for one in self._limited:
            if one.leased_minus_use:
                differs = True
        before = self.limit, self.planned, self.inside, self.firm
        if self._version != needs.version or not self._is_between():
            self._version = needs.version
            self.planned, self.inside, self.firm = self._compute(needs)
        elif not differs and not self._differed:
            return 0
        self._differed = differs
        self.limit = self.planned & self._held(needs) if differs else self.planned
        changed = (before[0] ^ self.limit) | (before[1] ^ self.planned)
        return changed | (before[2] ^ self.inside) | (before[3] ^ self.firm)

    def _is_between(self) -> bool:
        """True if all scopes are within the ranges of use in which the results are constant."""
        for use, key, over, most in self._bands:  # noqa: SIM110 - it runs twice for each grant, and `all` resumes a generator
            if not over < use.get(key, 0) <= most:
                return False
        return True

    def _held(self, needs: Needs) -> int:
        """The requests that fit under the limits beside all leases, including the yielding ones (R17)."""
        fitting = EVERY
        for one in self._limited:
            for key, difference in one.leased_minus_use.items():
                if difference > 0 and key in one.limit and key in self._governed:
                    fitting &= needs.fitting(key, one.limit[key] - one.use.get(key, 0) - difference)
        return fitting

    def _compute(self, needs: Needs) -> list[int]:
        found, left, bands = [EVERY, EVERY, EVERY], dict[str, int](), []
        for kind, use, key, ceiling, lends in self._marks:
            free = ceiling - use.get(key, 0)
            fitting, least, below = needs.around(key, free)
            found[kind] &= fitting
            bands.append((use, key, ceiling - below, ceiling - least))
            if lends:
                left[key] = max(free, left.get(key, free))
        self._bands = bands
        self.above = frozenset(key for key, free in left.items() if free < 0) if left else NO_KEYS
        return found
