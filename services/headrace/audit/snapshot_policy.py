"""When a snapshot of the fold is due, and which ones are kept. Pure.

Strategy: facts bound how long a start takes and how long it takes to work out a moment of the past, so it is facts that count; a quiet
installation takes one now and then. The next one waits half as long as the last one took, so that taking them never costs more than two
thirds of the time: where a whole history comes at once, or jobs by the million live, they lie further apart. The last few are kept
against damage, and of the others as many, for ever, as it takes that no two lie further apart than that: they make the past quick.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.durations import MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.service.snapshots import SnapshotName

FACTS = 50_000
"""They are folded in 0.6 s of CPU. The snapshot before them, of 60,000 jobs that ended in the last hour and 140,000 ids that ended in the
last day, is loaded in 0.6 s, has 9 MB, which is about what those facts have in the ledger, and was taken in 1.4 s."""
EVERY = 10 * MINUTE
FACTS_LEAST = 1_000
"""Facts without which there is no snapshot, however long it has been."""
LAST_KEPT = 3


class SnapshotPolicy(NamedTuple):
    """A snapshot is due after so many facts, or after so many microseconds in which at least `least` came."""

    facts: int = FACTS
    every: int = EVERY
    least: int = FACTS_LEAST

    def is_due(self, facts: int, passed: int, took: int) -> bool:
        """Whether one is, so many facts and microseconds after the last, which `took` so many."""
        if 2 * passed < took:
            return False
        return facts >= self.facts or (passed >= self.every and facts >= min(self.least, self.facts))


def superfluous(names: Sequence[SnapshotName], schema: str, pace: SnapshotPolicy) -> list[SnapshotName]:
    """Those that nobody needs any more, of all there are in order.

    Of this release's own the last few stay, and each without which there would be more facts between its neighbours than make one due.
    Of another release's the last of each stay until there are enough of our own: whoever goes back to it begins there.
    """
    own = [name for name in names if name.schema == schema]
    gone = [name for name in names if name.schema != schema] if len(own) >= LAST_KEPT else []
    gone = [name for name in gone if name not in _last_of_each(gone)]
    last = 0
    for name, following in pairwise(own[: 1 - LAST_KEPT]):
        if following.facts - last <= pace.facts:
            gone.append(name)
        else:
            last = name.facts
    return gone


def _last_of_each(names: Sequence[SnapshotName]) -> set[SnapshotName]:
    """The last of each schema."""
    return set({name.schema: name for name in names}.values())
