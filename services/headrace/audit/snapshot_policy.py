"""When a snapshot of the fold is due, and which ones are kept. Pure.

Strategy: the number of facts limits how long a start and a past state take, so facts are counted; a quiet installation takes one after a
time. The next one waits half as long as the last one took, so that taking them never costs more than two thirds of the time: while a whole
history arrives at once, or with millions of jobs, they are further apart. The last few are kept against damage, and of the others, for
ever, as many as are needed so that two are never further apart than that: they make past states fast.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.durations import MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.service.snapshots import SnapshotName

FACTS = 50_000
"""They are folded in 0.6 s of CPU.

The snapshot before them, of 60,000 jobs that ended in the last hour and 140,000 ids that ended in the last day, is loaded in 0.6 s, has 9
MB, which is about what those facts have in the ledger, and was taken in 1.4 s.
"""
EVERY = 10 * MINUTE
FACTS_LEAST = 1_000
"""Minimum number of facts for a snapshot, however long ago the last one was."""
LAST_KEPT = 3


class SnapshotPolicy(NamedTuple):
    """A snapshot is due after `facts` facts, or after `every` microseconds in which at least `least` facts came."""

    facts: int = FACTS
    every: int = EVERY
    least: int = FACTS_LEAST

    def is_due(self, facts: int, passed: int, took: int) -> bool:
        """True if a snapshot is due, `facts` and `passed` microseconds after the last, which took `took` microseconds."""
        if 2 * passed < took:
            return False
        return facts >= self.facts or (passed >= self.every and facts >= min(self.least, self.facts))


def superfluous(names: Sequence[SnapshotName], schema: str, policy: SnapshotPolicy) -> list[SnapshotName]:
    """Snapshots that are no longer needed, from all in order.

    Of this release's schema the last few stay, and each without which there would be more facts between its neighbours than make one due.
    Of other schemas the last one of each stays until there are enough of our own: a downgrade begins there.
    """
    own = [name for name in names if name.schema == schema]
    gone = [name for name in names if name.schema != schema] if len(own) >= LAST_KEPT else []
    gone = [name for name in gone if name not in _last_of_each(gone)]
    last = 0
    for name, following in pairwise(own[: 1 - LAST_KEPT]):
        if following.facts - last <= policy.facts:
            gone.append(name)
        else:
            last = name.facts
    return gone


def _last_of_each(names: Sequence[SnapshotName]) -> set[SnapshotName]:
    """The last snapshot of each schema."""
    return set({name.schema: name for name in names}.values())
