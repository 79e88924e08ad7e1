"""Whether the stream may be purged up to a record, and if not, why. Pure.

A record is purged only if it is archived, verified, read by every reader, and covered by a snapshot that can be loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class RetentionStatus(NamedTuple):
    """State of the ledger and its readers. `readers`: how far each has read, None for one that does not report it.

    `snapshot`: the last record folded into the newest snapshot that can be loaded; None without a snapshot.
    """

    tip: int
    archived: int
    readers: Mapping[str, int | None]
    snapshot: int | None


def objections(through: int, standing: RetentionStatus) -> list[str]:
    """Every reason why records up to `through` may not be purged now, each with the way out; empty if they may."""
    found = []
    if through > standing.tip:
        found.append(f"the ledger ends at record {standing.tip}: {through} has not been written")
    if standing.archived < min(through, standing.tip):
        found.append(f"the archive ends at record {standing.archived}: `headrace audit export` brings it up to date")
    for name, position in sorted(standing.readers.items()):
        if position is None:
            found.append(f"{name} does not say how far it has read: `headrace status` looks at it")
        elif position < through:
            found.append(f"{name} has read up to record {position} only: wait for it")
    if standing.snapshot is None:
        found.append(
            "no snapshot of the fold can be loaded by this release: the next one is taken automatically as the ledger grows"
        )
    elif standing.snapshot < through:
        found.append(
            f"the newest snapshot that can be loaded is of record {standing.snapshot}: purge up to there, or wait for the next"
        )
    return found
