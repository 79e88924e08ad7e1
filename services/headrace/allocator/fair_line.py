"""The candidates of a policy that is fair among users, in one pool: whose job goes first, at which place (R15, last paragraph).

Strategy: only the first candidate that fits is ever compared with those of other policies, so a place is dealt when it is looked at
(`ranking.deal`), and kept until accounts, candidates or their jobs change.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.allocator.request_bitsets import bits_of
from headrace.domain.queueing.ranking import deal, user_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.domain.indexes.pending import Place
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.queueing.ranking import StaticRank
    from headrace.domain.state.state import State

_FAIR_ORDER = itemgetter(0, 1, 2, 3, 4)


class UserCandidates(metaclass=ABCMeta):
    """Candidates of one user, as far as dealing places needs them (`request_classes.PoolCandidates`).

    Sets of requests: quotas allow `inside` and `borrowing` to be granted there. `entries`: those inside as they stand in their tier, by
    request (`inside_tier`).
    """

    __slots__ = ("borrowing", "entries", "inside", "serial", "static")

    def __init__(self, static: StaticRank, serial: int) -> None:
        self.static = static
        self.serial = serial
        self.inside = self.borrowing = 0
        self.entries: dict[int, tuple[Any, ...]] = {}

    @property
    @abstractmethod
    def user(self) -> str:
        """The user whose jobs they are."""

    @abstractmethod
    def place_of(self, number: int) -> Place:
        """The own place of a request's head."""

    @abstractmethod
    def places(self, number: int) -> list[Place]:
        """The own places of all jobs of a request, best first."""


C = TypeVar("C", bound=UserCandidates)


class FairLine(Generic[C]):
    """The candidates of a policy that is fair among users, in one pool: which of them goes first, at which place (R15).

    Who are equal by (1)-(5) has the same static rank and is on the same side of the reservation; those who may be granted nothing keep
    their own places.
    """

    __slots__ = ("_places", "_policy", "_state", "_uses", "pool_candidates")

    def __init__(self, state: State, policy: PolicyState) -> None:
        self._state = state
        self._policy = policy
        self._uses: dict[str, int] = {}
        self._places: dict[tuple[int, bool, Place], Place] = {}
        self.pool_candidates: list[C] = []

    def invalidate(self) -> None:
        """Accounts, candidates or their jobs have changed."""
        self._uses.clear()
        self._places.clear()

    def use_of(self, user: str) -> int:
        """The share that a user uses."""
        use = self._uses.get(user)
        if use is None:
            use = self._uses[user] = user_share(self._state, self._policy, user)
        return use

    def first(
        self, feasible: int, allowed: Callable[[C, int], int], static: StaticRank | None = None
    ) -> tuple[StaticRank, Place, C, int] | None:
        """Static rank, place, candidates and number of the first one whose request is in `feasible` and allowed.

        Inside the reservation; with `static`, of the borrowers of that rank.
        """
        found = []
        for candidates in self.pool_candidates:
            wanted = feasible & (candidates.inside if static is None else candidates.borrowing)
            if wanted and static in (None, candidates.static):
                use = self.use_of(candidates.user)
                for number in bits_of(wanted):
                    own = candidates.place_of(number)
                    found.append((candidates.static, own[0], use, own, candidates.serial, candidates, number))
        for where, _, _, own, _, candidates, number in sorted(found, key=_FAIR_ORDER):
            if allowed(candidates, 1 << number):
                return where, self.place(candidates, number, own), candidates, number
        return None

    def place(self, candidates: C, number: int, own: Place) -> Place:
        """The place that a job of a request of the candidates is dealt; `own`: the one it has."""
        is_inside = bool(candidates.inside >> number & 1)
        if not is_inside and not candidates.borrowing >> number & 1:
            return own
        key = candidates.serial, is_inside, own
        place = self._places.get(key)
        if place is None:
            lines = []
            for other in self.pool_candidates:
                if other.static == candidates.static:
                    use = self.use_of(other.user)
                    there = other.inside if is_inside else other.borrowing
                    lines += [(use, other.places(one)) for one in bits_of(there)]
            place = self._places[key] = deal(own, self.use_of(candidates.user), lines)
        return place
