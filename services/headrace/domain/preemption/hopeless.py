"""A quick test before a search for victims: whether all of them together may not lose what is lacking (R24, R26)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import Scope
    from headrace.domain.placement.placement_after_preemption import AccountShortage
    from headrace.domain.preemption.victim_candidates import VictimCandidates


def is_hopeless(accounts: Sequence[AccountShortage], eligible: VictimCandidates) -> bool:
    """Whether all sides together may not lose as much of some key as an account lacks. Looks at sides, not at jobs.

    A side may lose what it has above its reservation, less one unit, and then one job more. As soon as those drawn so far may lose
    enough, no other job is examined.
    """
    most: dict[tuple[Scope, ...], Amounts] = {}
    seen = 0
    while True:
        for kind in islice(eligible.kinds, seen, None):
            if len(kind.keys) > 1 or kind.idle:
                return False  # it may be above on one key and lose any amount of another; what is idle may be lost whatever is reserved
            (key,) = kind.keys
            above = min(scope.use.get(key, 0) - (scope.reservation or {}).get(key, 0) for scope in kind.side)
            lose = most.setdefault(kind.side, {})
            lose[key] = max(lose.get(key, 0), above - 1 + kind.held[key])
        seen = len(eligible.kinds)
        if not _lacks_more(accounts, most.values()):
            return False
        if not eligible.more():
            return True


def _lacks_more(accounts: Sequence[AccountShortage], most: Collection[Amounts]) -> bool:
    """Whether an account lacks more of a key than can be lost: at the most this by each side."""
    return any(
        amount > sum(lose[key] for lose in most)
        for account in accounts
        for key, amount in account.lacks.items()
        if all(key in lose for lose in most)
    )
