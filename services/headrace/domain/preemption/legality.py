"""Which jobs may be taken together (R26): in some order, each one while its side is above its reservation.

Strategy: jobs of one kind (policy and request) are alike here, so only how many of each kind are taken is kept, and what each account
loses by it. All sets inside an allowed one are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import add_to, take_from, times
from headrace.domain.preemption.eligibility import PRIORITY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import Scope
    from headrace.domain.preemption.eligibility import VictimGroup


class Taken:
    """How many of each kind are taken, by `cause`, side by side (R23): what is taken of one side never matters to another."""

    __slots__ = ("_by_priority", "_closed", "_lost", "_sides")

    def __init__(self, cause: str, kinds: Iterable[VictimGroup] = ()) -> None:
        self._by_priority = cause == PRIORITY
        self._sides: dict[tuple[Scope, ...], dict[VictimGroup, int]] = {}
        self._lost: dict[Scope, Amounts] = {}
        self._closed: set[VictimGroup] = set()
        for kind in kinds:
            self._add(kind)

    def admits(self, kind: VictimGroup) -> bool:
        """Take one more of the kind; False where that would not be allowed, and then it is not taken."""
        if kind in self._closed:
            return False
        self._add(kind)
        if kind.idle:  # it leaves first; for the others it may be too much then
            if self._is_legal(kind.side):
                return True
            self._drop(kind)
            self._closed.add(kind)
            return False
        if (self._may_come_last(kind) or self._is_legal(kind.side)) and self._is_safe(kind.side):
            return True
        self._drop(kind)
        self._closed.add(kind)  # while others are only added, no account gets any better
        return False

    def remove(self, kind: VictimGroup) -> None:
        """Take one job less of this kind."""
        self._closed.clear()
        self._drop(kind)

    def is_allowed(self) -> bool:
        """Whether all of them may be taken together."""
        return all(self._is_legal(side) and self._is_safe(side) for side in self._sides)

    def _add(self, kind: VictimGroup) -> None:
        kinds = self._sides.setdefault(kind.side, {})
        kinds[kind] = kinds.get(kind, 0) + 1
        for scope in _touched(kind):
            add_to(self._lost.setdefault(scope, {}), kind.held)

    def _drop(self, kind: VictimGroup) -> None:
        kinds = self._sides[kind.side]
        kinds[kind] -= 1
        if not kinds[kind]:
            del kinds[kind]
        for scope in _touched(kind):
            take_from(self._lost[scope], kind.held)

    def _is_legal(self, side: tuple[Scope, ...]) -> bool:
        """Whether those of a side can be taken in some order, each while it is still above.

        A job that may come last is put there, and with it all of its kind: that leaves the others no worse off, so the choice
        never matters. Those that are idle go first, whatever is reserved (R39): what the others have to be above is what they leave.
        """
        waiting = {kind: count for kind, count in self._sides[side].items() if not kind.idle}
        kept = {scope: self._lost[scope] for scope in side}
        self._lost.update((scope, dict(lost)) for scope, lost in kept.items())
        try:
            while waiting:
                last = next((kind for kind in waiting if self._may_come_last(kind)), None)
                if last is None:
                    return False
                lost = times(last.held, waiting.pop(last))
                for scope in side:
                    take_from(self._lost[scope], lost)
            return True
        finally:
            self._lost.update(kept)

    def _may_come_last(self, kind: VictimGroup) -> bool:
        """Whether its side is above its reservation, on a key that counts, when all the others have been taken."""
        lost = self._lost
        for key in kind.keys:
            amount = kind.held[key]
            for scope in kind.side:  # `_left` and `_reserved`, in fewer words: this is asked about each who is taken
                left = scope.use.get(key, 0) - lost[scope].get(key, 0)
                if left + amount <= (scope.reservation or {}).get(key, 0):
                    break
            else:
                return True
        return False

    def _is_safe(self, side: tuple[Scope, ...]) -> bool:
        """By priority: whether none of them could reclaim afterwards: with it, its policy is beyond its reservation (R26)."""
        return not self._by_priority or all(
            any(
                self._left(scope, key) + amount > _reserved(scope, key)
                for scope in kind.owed
                for key, amount in kind.held.items()
            )
            for kind in self._sides[side]
        )

    def _left(self, scope: Scope, key: str) -> int:
        return scope.use.get(key, 0) - self._lost[scope].get(key, 0)


def _touched(kind: VictimGroup) -> tuple[Scope, ...]:
    """The accounts that lose something by one of the kind: those of its side, and those that say whether it could reclaim."""
    if kind.owed == kind.side:
        return kind.side
    return (*kind.side, *(scope for scope in kind.owed if scope not in kind.side))


def _reserved(scope: Scope, key: str) -> int:
    return scope.reservation.get(key, 0) if scope.reservation else 0
